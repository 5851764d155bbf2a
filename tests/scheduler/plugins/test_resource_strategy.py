"""resource-strategy-fit: the formulas of the specification in numbers worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from strato.errors import InvalidInput
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

GPU, A10, T4 = "nvidia.com/gpu", "nvidia.com/a10", "nvidia.com/t4"
NODES = (
    worlds.node("plain", cpu="4", memory="4Gi"),
    worlds.node("gpus", cpu="4", memory="4Gi", **{GPU: 10}),
    worlds.node("both", cpu="4", memory="4Gi", **{A10: 2, T4: 4}),
)


def plugin(**arguments: Any) -> dict[str, Any]:
    return {"name": "resource-strategy-fit", "arguments": arguments}


def scores(pod: dict[str, Any], **arguments: Any) -> dict[str, float]:
    return asking.scores(asking.session(worlds.world(*NODES, pod), plugin(**arguments)), "p", digits=3)


MOST, LEAST = {"type": "MostAllocated"}, {"type": "LeastAllocated"}

TABLE = [
    pytest.param({}, {}, {"plain": 750.0, "gpus": 750.0, "both": 750.0}, id="by default cpu and memory are spread"),
    pytest.param(
        {GPU: "2"},
        {"resources": {GPU: {**MOST, "weight": 3}, "cpu": LEAST}},
        {"plain": 187.5, "gpus": (0.2 * 3 + 0.75) / 4 * 1000, "both": 187.5},
        id="weights are those of requested resources, and what a node lacks counts nothing",
    ),
    pytest.param(
        {GPU: "2"},
        {"resources": {"nvidia.com/*": MOST, "nvidia.com/g*": LEAST}, "resourceStrategyFitWeight": 1},
        {"plain": 0.0, "gpus": 80.0, "both": 0.0},
        id="the longest prefix wins",
    ),
    pytest.param(
        {GPU: "2"},
        {"resources": {"nvidia.com/g*": LEAST, GPU: MOST}, "resourceStrategyFitWeight": 1},
        {"plain": 0.0, "gpus": 20.0, "both": 0.0},
        id="an exact name wins over a prefix",
    ),
    pytest.param(
        {GPU: "11"},
        {"resources": {GPU: MOST, "cpu": MOST}},
        {"plain": 125.0, "gpus": 0.0, "both": 125.0},
        id="an overflow anywhere makes the whole score 0",
    ),
    pytest.param({}, {"resources": {"cpu": {"type": "Odd"}}}, {"plain": 750.0, "gpus": 750.0, "both": 750.0}, id="odd"),
    pytest.param(
        {},
        {"resourceStrategyFitWeight": -3, "resources": {"cpu": MOST}},
        {"plain": 250.0, "gpus": 250.0, "both": 250.0},
        id="a negative weight is the default",
    ),
    pytest.param(
        {},
        {
            "resourceStrategyFitWeight": 0,
            "sra": {"enable": True, "weight": 5, "resources": f"{T4}, {A10}, {GPU}", "resourceWeight": {A10: 3, T4: 2}},
        },
        {"plain": 500.0, "gpus": round(500 * 5 / 6, 3), "both": round(500 / 6, 3)},
        id="scarce resources are avoided by weight",
    ),
    pytest.param(
        {T4: "1"},
        {"resourceStrategyFitWeight": 0, "sra": {"enable": True, "resources": T4}},
        {"plain": 0.0, "gpus": 0.0, "both": 0.0},
        id="avoidance scores nothing where something requested is missing",
    ),
]


@pytest.mark.parametrize(("extra", "arguments", "expected"), TABLE)
def test_scores(extra: dict[str, str], arguments: dict[str, Any], expected: dict[str, float]) -> None:
    assert scores(worlds.pod("p", cpu="1", memory="1Gi", resources=extra), **arguments) == pytest.approx(expected)


OWN = [
    pytest.param("MostAllocated", '{"cpu": 1}', 250.0, id="the pod fills"),
    pytest.param("LeastAllocated", '{"cpu": 1, "memory": 3}', 562.5, id="the pod spreads with weights"),
    pytest.param("MostAllocated", None, 0.0, id="no weights, no score"),
    pytest.param("MostAllocated", "{oops", 0.0, id="unreadable weights, no score"),
    pytest.param("MostAllocated", "[" * 99_000, 0.0, id="weights that are too deep, no score"),
    pytest.param("MostAllocated", '{"cpu": "x"}', 0.0, id="weights that are no numbers, no score"),
]

FILLS = {
    "volcano.sh/resource-strategy-scoring-type": "MostAllocated",
    "volcano.sh/resource-strategy-weight": '{"cpu": 1}',
}


@pytest.mark.parametrize(("kind", "weights", "expected"), OWN)
def test_a_pod_may_bring_its_own_strategy(kind: str, weights: str | None, expected: float) -> None:
    notes = {"volcano.sh/resource-strategy-scoring-type": kind}
    if weights is not None:
        notes["volcano.sh/resource-strategy-weight"] = weights
    pod = worlds.pod("p", cpu="1", memory="2Gi", annotations=notes)
    assert scores(pod)["plain"] == pytest.approx(expected)


def placed(node: dict[str, Any], other: dict[str, Any], *pods: dict[str, Any], **arguments: Any) -> dict[str, str]:
    world = worlds.world(worlds.queue(), worlds.group("g", 1), node, other, *pods)
    return worlds.binds(worlds.cycle(world, asking.config("gang", "predicates", plugin(**arguments))))


@pytest.mark.parametrize(("notes", "where"), [(FILLS, "used"), ({}, "free")], ids=["its own", "the configured one"])
def test_a_pod_goes_where_its_strategy_says(notes: dict[str, str], where: str) -> None:
    nodes = worlds.node("free"), worlds.node("used")
    waiting, runs = worlds.pod("p", "g", annotations=notes), worlds.pod("r", phase="Running", nodeName="used")
    assert placed(*nodes, waiting, runs) == {"ns/p": where}


PROPORTION = {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 4, f"{GPU}.memory": 8}}
KEPT = [
    pytest.param("10", "0", {}, False, id="what is left is exactly in proportion"),
    pytest.param("11", "0", {}, True, id="too little cpu would be left"),
    pytest.param("1", "5G", {}, True, id="too little memory would be left"),
    pytest.param("11", "5G", {GPU: "1"}, False, id="pods that use the resource pass"),
]


@pytest.mark.parametrize(("cpu", "memory", "extra", "refused"), KEPT)
def test_room_is_kept_beside_idle_devices(cpu: str, memory: str, extra: dict[str, str], refused: bool) -> None:
    node = worlds.node("n", cpu="18", memory="20G", **{GPU: 2})
    made = worlds.world(node, worlds.pod("p", cpu=cpu, memory=memory, resources=extra))
    found = asking.refusals(asking.session(made, plugin(proportional=PROPORTION)), "p")
    assert found == ({"n": (f"proportional of resource {GPU} check failed", False)} if refused else {})


def test_a_pod_goes_where_the_room_beside_devices_is_kept() -> None:
    nodes = worlds.node("a", cpu="18", **{GPU: "2"}), worlds.node("b", cpu="11")
    assert placed(*nodes, worlds.pod("p", "g", cpu="11", memory="0"), proportional=PROPORTION) == {"ns/p": "b"}


def test_a_name_that_is_no_resource_keeps_no_room() -> None:
    made = worlds.world(worlds.node("n", cpu="18", memory="20G", **{GPU: "2"}), worlds.pod("p", cpu="11", memory="0"))
    listed = {**PROPORTION, "resources": f"gpus, {GPU}"}
    found = asking.refusals(asking.session(made, plugin(proportional=listed)), "p")
    assert found == {"n": (f"proportional of resource {GPU} check failed", False)}


def test_no_room_is_kept_unless_that_is_switched_on() -> None:
    made = worlds.world(worlds.node("n", cpu="18", memory="20G", **{GPU: 2}), worlds.pod("p", cpu="17"))
    off = {**PROPORTION, "enable": False}
    assert asking.refusals(asking.session(made, plugin(proportional=off)), "p") == {}


def test_bad_arguments_are_listed_with_their_places() -> None:
    bad = {
        "resources": {"*": {}, "cpu": {"type": 3, "wieght": 1}},
        "sra": {"enabled": True},
        "proportional": {"resourceProportion": {"x.cpu": "many"}},
    }
    with pytest.raises(InvalidInput) as caught:
        asking.config(plugin(**bad))
    where = [p.where.removeprefix("tiers[0].plugins[0].arguments.") for p in caught.value.problems]
    assert where == [
        "resources.*",
        "resources.cpu.type",
        "resources.cpu.wieght",
        "sra.enabled",
        "proportional.resourceProportion.x.cpu",
    ]
