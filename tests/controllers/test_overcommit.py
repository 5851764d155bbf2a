"""Ratios of nodes follow flags, labels, annotations and the table; a lowered one waits for its pods."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.amplification import CPU_INFO, FACTOR, NORMALISATION, RATIO, RAW, SOURCE, STARTED_WITH, InvalidFactor
from strato.api.core import Node
from strato.api.meta import Key, ObjectMeta
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.controllers.context import ControllerContext
from strato.controllers.overcommit.controller import RETRY_SECONDS, CpuOvercommitController
from strato.controllers.overcommit.policy import held_ratio, parse_policy, wanted_ratio
from strato.errors import BadRequest, InvalidInput
from strato.metrics import Registry
from tests.controllers.world import World, play

TABLE = """
factor: 1.5
nodes:
- {selector: {matchLabels: {pool: train}}, factor: 2}
- {selector: {matchLabels: {size: big}}, factor: 3}
models:
  New 2.6 GHz: {baseRatio: 1.5, hyperThreadEnabledRatio: 0.8, turboEnabledRatio: 1.6}
"""


def node(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Node:
    return Node(metadata=ObjectMeta(name="n", annotations=annotations or {}, labels=labels or {}))


def cpu(model: str, *, threads: bool = False, turbo: bool = False) -> str:
    flags = f'"hyperThreadEnabled":{str(threads).lower()},"turboEnabled":{str(turbo).lower()}'
    return f'{{"cpuModel":"{model}",{flags}}}'


@pytest.mark.parametrize(
    ("given", "table", "ratio", "source"),
    [
        pytest.param(node(), "", None, "", id="nothing is said"),
        pytest.param(node(), TABLE, 1.5, "overcommit.yaml", id="the cluster's factor"),
        pytest.param(node(labels={"pool": "train"}), TABLE, 2, "overcommit.yaml", id="by label"),
        pytest.param(node(labels={"pool": "train", "size": "big"}), TABLE, 3, "overcommit.yaml", id="the last wins"),
        pytest.param(node({STARTED_WITH: "4"}, {"pool": "train"}), TABLE, 4, STARTED_WITH, id="the node's own flag"),
        pytest.param(node({STARTED_WITH: "4"}, {FACTOR: "5"}), TABLE, 5, FACTOR, id="a label of people"),
        pytest.param(node({FACTOR: "6"}, {FACTOR: "5"}), TABLE, 6, FACTOR, id="their annotation"),
        pytest.param(node({CPU_INFO: cpu("New  2.6 GHz")}), TABLE, 2.25, "overcommit.yaml", id="by processor"),
        pytest.param(node({CPU_INFO: cpu("New 2.6 GHz", threads=True)}), TABLE, 1.2, "overcommit.yaml", id="threads"),
        pytest.param(node({CPU_INFO: cpu("New 2.6 GHz", turbo=True)}), TABLE, 2.4, "overcommit.yaml", id="turbo"),
        pytest.param(
            node({CPU_INFO: cpu("New 2.6 GHz", threads=True, turbo=True)}), TABLE, 2.25, "overcommit.yaml", id="base"
        ),
        pytest.param(node({CPU_INFO: cpu("Old")}), TABLE, 1.5, "overcommit.yaml", id="an unknown processor"),
        pytest.param(node({NORMALISATION: "1.20"}), "", 1.2, "overcommit.yaml", id="noted by somebody else"),
    ],
)
def test_the_ratio_that_a_node_is_to_have(given: Node, table: str, ratio: float | None, source: str) -> None:
    wanted = wanted_ratio(given, parse_policy(table))
    assert (wanted.ratio, wanted.source) == (ratio, source) if wanted is not None else ratio is None


@pytest.mark.parametrize("annotations", [{FACTOR: "x"}, {CPU_INFO: "["}, {NORMALISATION: "0"}, {NORMALISATION: "0.5"}])
def test_what_cannot_be_used_is_said(annotations: dict[str, str]) -> None:
    with pytest.raises(InvalidFactor, match="must be"):
        wanted_ratio(node(annotations), parse_policy(TABLE))


@pytest.mark.parametrize(
    "text", ["[", "factor: x", "unknown: 1", "nodes: [{factor: 2}]", "x: " + "[" * 500, "- 1", "[]", "0", "false"]
)
def test_a_table_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"overcommit\.yaml is invalid"):
        parse_policy(text)


def test_parts_of_the_wrong_shape_are_said_at_once_each_with_its_place() -> None:
    text = """
factor: x
nodse: []
nodes: [1, {selector: {}, factor: 2}, {selector: {matchLabels: 3}, factor: 2}, {factor: 2}]
models: {a: {baseRatio: 1, turbo: 2}, b: {}, c: {baseRatio: 0}}
"""
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text)
    places = [problem.where for problem in caught.value.problems]
    assert places == [
        *("nodse", "factor", "nodes[0]", "nodes[2].selector.matchLabels", "nodes[3]", "models['a']", "models['b']"),
        "models['c'].baseRatio",
    ]
    with pytest.raises(InvalidInput) as caught:
        parse_policy("{nodes: {}, models: []}")
    assert [problem.where for problem in caught.value.problems] == ["nodes", "models"]


def test_empty_parts_of_a_table_say_nothing() -> None:
    assert parse_policy("{factor: null, nodes: null, models: null}") == parse_policy("") == parse_policy("{}")


def test_all_problems_of_a_table_are_said_at_once() -> None:
    text = "{factor: 0, nodes: [{selector: {}, factor: 11}], models: {a: {baseRatio: 0, turboEnabledRatio: 99}}}"
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text)
    places = [problem.where for problem in caught.value.problems]
    assert places == ["factor", "nodes[0].factor", "models['a'].baseRatio", "models['a'].turboEnabledRatio"]


def test_the_ends_of_the_ranges_can_be_used() -> None:
    rule = "{selector: {matchLabels: {a: b}}, factor: %s}"
    model = "{baseRatio: %s}"
    for factor, least in ((1, 0.1), (10, 10)):
        parse_policy(f"{{factor: {factor}, nodes: [{rule % factor}], models: {{a: {model % least}}}}}")


@pytest.mark.parametrize(
    ("wanted", "requested", "raw", "ratio"),
    [
        (1.5, 6000, 4000, 1.5),
        (1.5, 6001, 4000, 1.51),
        (1.0, 8000, 4000, 2.0),
        (1.0, 99000, 4000, 10.0),
        (2.0, 1, 0, 2.0),
    ],
)
def test_a_ratio_is_held_at_what_pods_request(wanted: float, requested: int, raw: int, ratio: float) -> None:
    assert held_ratio(wanted, requested, raw) == ratio


def kubelet_node(annotations: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "annotations": annotations},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name: str, cpus: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}}
    spec = {"nodeName": "n", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def annotate(world: World, **annotations: str | None) -> Node:
    if annotations:
        body = {"metadata": {"annotations": {FACTOR: annotations["factor"]}}}
        await world.cluster.patch(catalog.NODE, "n", "", body)
    await world.settle(1)
    return await world.cluster.get(Node, "n")


ENABLED = ("cpu-overcommit-controller",)


def test_a_kubelets_node_is_amplified_lowered_and_left_alone_again() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.NODE, kubelet_node({}))
        assert (await annotate(world, factor="2")).status.allocatable["cpu"] == "8"
        raw = {"status": {"allocatable": {"cpu": "4"}}}  # the kubelet, which knows nothing of it
        await world.cluster.patch(catalog.NODE, "n", "", raw, subresource="status")
        found = await annotate(world)
        assert (found.status.allocatable["cpu"], found.status.capacity["cpu"]) == ("8", "4")
        for name in ("a", "b", "c"):
            await world.cluster.create(catalog.POD, pod(name, "2"), "default")
        found = await annotate(world, factor="1")
        assert found.status.allocatable["cpu"] == "6", "three pods hold as much"
        events = await world.cluster.list(catalog.EVENT, "default")
        held = [one["message"] for one in events.items if one["reason"] == "CpuOvercommitHeld"]
        text = "pods hold 6 cpus, more than the 4 of a ratio of 1.00: the ratio is 1.50 until they leave"
        assert held == [f"{text}, nobody is evicted"]
        assert set(await world.pods()) == {"a", "b", "c"}
        await world.settle(30)  # nothing but that it is held has it looked at again
        await world.cluster.delete(catalog.POD, "a", "default", grace_period_seconds=0)
        await world.settle(15)
        assert (await annotate(world)).status.allocatable["cpu"] == "4"
        found = await annotate(world, factor=None)
        assert not {RATIO, RAW, SOURCE} & set(found.metadata.annotations or {})
        assert found.status.allocatable["cpu"] == "4"

    play(scenario, enabled=ENABLED)


def test_a_node_is_looked_at_again_only_while_its_ratio_is_held() -> None:
    async def scenario(world: World) -> None:
        informers = Informers(world.cluster, world.clock, Random(1))
        recorder = EventRecorder(world.cluster, world.clock, "test")
        controller = CpuOvercommitController(
            ControllerContext(
                cluster=world.cluster,
                informers=informers,
                clock=world.clock,
                random=Random(1),
                recorder=recorder,
                metrics=Registry(),
            )
        )
        await world.cluster.create(catalog.NODE, kubelet_node({FACTOR: "2"}))
        await informers.wait_synced()

        async def looked_at(factor: str) -> float | None:
            await annotate(world, factor=factor)
            return await controller.reconcile(Key("", "n"))

        assert await looked_at("2") is None
        await annotate(world)
        for name in ("a", "b", "c"):
            await world.cluster.create(catalog.POD, pod(name, "2"), "default")
        assert [await looked_at(factor) for factor in ("1.25", "1.5", "2")] == [RETRY_SECONDS, None, None]
        await informers.stop()

    play(scenario, enabled=())


def test_somebody_elses_ratio_stays_unless_the_node_says_otherwise() -> None:
    async def scenario(world: World) -> None:
        table = {"metadata": {"name": "strato-cpu-overcommit"}, "data": {"overcommit.yaml": "factor: 3"}}
        await world.cluster.create(catalog.CONFIGMAP, table, "volcano-system")
        await world.cluster.create(catalog.NODE, kubelet_node({RATIO: '{"cpu":1.20,"memory":1.10}'}))
        found = await annotate(world)
        assert found.metadata.annotation(RATIO) == '{"cpu":1.20,"memory":1.10}'
        found = await annotate(world, factor="2")
        assert found.metadata.annotation(RATIO) == '{"cpu":2.00,"memory":1.10}'

    play(scenario, enabled=ENABLED)


def test_a_bad_table_keeps_the_earlier_one_and_a_bad_annotation_is_refused() -> None:
    async def scenario(world: World) -> None:
        where = "volcano-system"
        table = {"metadata": {"name": "strato-cpu-overcommit"}, "data": {"overcommit.yaml": "factor: 3"}}
        await world.cluster.create(catalog.CONFIGMAP, table, where)
        await world.cluster.create(catalog.NODE, kubelet_node({}))
        await world.settle(1)
        await world.cluster.patch(
            catalog.CONFIGMAP, "strato-cpu-overcommit", where, {"data": {"overcommit.yaml": "factor: 0"}}
        )
        assert (await annotate(world)).status.allocatable["cpu"] == "12"
        events = await world.cluster.list(catalog.EVENT, where)
        assert [one["reason"] for one in events.items] == ["PolicyInvalid"]
        assert "factor: is 0; write a number from 1 to 10" in events.items[0]["message"]
        with pytest.raises(
            BadRequest, match=r"node 'n': metadata.annotations\[strato.dev/cpu-overcommit-factor\] = '0'"
        ):
            await annotate(world, factor="0")

    play(scenario, enabled=ENABLED)
