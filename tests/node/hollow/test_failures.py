"""Failures of hollow nodes: what is read, when they begin and end, and what the cluster makes of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Node
from strato.api.meta import ObjectMeta
from strato.clock import VirtualClock, parse_time, run_virtual
from strato.controllers import EMBEDDED
from strato.node.hollow.failures import FAILURE, BadFailure, Failure, NodeFailures, parse_failure
from strato.node.hollow.offers import HollowOffer
from strato.node.timers import Timers
from strato.testing.harness import Harness


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("dead", Failure(kind="dead")),
        ("unreachable for=10m", Failure(kind="unreachable", for_seconds=600)),
        ("slow factor=3 for=1d", Failure(kind="slow", factor=3, for_seconds=86400)),
        ("flapping up=5m down=30s", Failure(kind="flapping", up_seconds=300, down_seconds=30)),
        ("no-lease", Failure(kind="no-lease")),
    ],
)
def test_failures_are_read(text: str, want: Failure) -> None:
    assert parse_failure(text) == want


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is no failure of a node"),
        ("ded", "did you mean 'dead'"),
        ("dead factor=3", "'factor=3' is not understood; dead takes for="),
        ("dead for=soon", "for wants a time above zero"),
        ("slow factor=0", "factor wants a factor from 1 to 1000"),
        ("dead for=1s for=2s", "'for=2s' is not understood"),
        ("x" * 10_000, "is no failure of a node"),
    ],
)
def test_what_is_no_failure_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadFailure) as refused:
        parse_failure(text)
    assert problem in str(refused.value)


class Machines:
    """Writes down what is done to nodes."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.done: list[tuple[float, str, str, Any]] = []
        self.down: set[str] = set()

    def stop_node(self, name: str) -> None:
        assert name not in self.down
        self.down.add(name)
        self.done.append((self._clock.monotonic(), "stop", name, None))

    def start_node(self, name: str, *, is_rebooted: bool = False) -> None:
        assert name in self.down
        self.down.remove(name)
        self.done.append((self._clock.monotonic(), "start", name, is_rebooted))

    def set_slowness(self, name: str, factor: float) -> None:
        self.done.append((self._clock.monotonic(), "slow", name, factor))

    def hold_lease(self, name: str, *, is_held: bool) -> None:
        self.done.append((self._clock.monotonic(), "lease", name, is_held))


class Field:
    """Failures of a few nodes on a clock of their own."""

    def __init__(self, seed: int = 1, **offer: float) -> None:
        self.clock = VirtualClock()
        self.timers = Timers(self.clock)
        self.machines = Machines(self.clock)
        self.over: list[str] = []
        self.unreadable: list[str] = []
        self.failures = NodeFailures(
            self.clock,
            self.timers,
            self.machines,
            offers={f"n-{number}": HollowOffer(**offer) for number in range(3)},
            seed=seed,
            on_over=self.over.append,
            on_unreadable=lambda _, problem: self.unreadable.append(problem),
        )

    def run(self, *story: tuple[float, Any], until: float) -> None:
        """Do what the story has at its instants, to the end."""

        async def main() -> None:
            serving = asyncio.ensure_future(self.timers.run())
            for instant, action in story:
                await self.clock.sleep(instant - self.clock.monotonic())
                action()
            await self.clock.sleep(until - self.clock.monotonic())
            serving.cancel()

        run_virtual(self.clock, main())

    def node(self, name: str, text: str = "", label: str = "") -> Node:
        annotations, labels = ({FAILURE: text} if text else {}), ({FAILURE: label} if label else {})
        return Node(metadata=ObjectMeta(name=name, annotations=annotations, labels=labels))


def test_an_annotation_counts_until_it_goes_or_its_time_is_over() -> None:
    field = Field()
    observe = field.failures.observe
    field.run(
        (1.0, lambda: observe(field.node("n-0", "unreachable"))),
        (2.0, lambda: observe(field.node("n-0", "unreachable"))),
        (5.0, lambda: observe(field.node("n-0"))),
        (6.0, lambda: observe(field.node("n-1", "dead for=10s"))),
        (7.0, lambda: observe(field.node("n-2", label="slow"))),
        (8.0, lambda: observe(field.node("elsewhere", "dead"))),
        until=30,
    )
    assert field.machines.done == [
        (1.0, "stop", "n-0", None),
        (5.0, "start", "n-0", False),
        (6.0, "stop", "n-1", None),
        (7.0, "slow", "n-2", 2.0),
        (16.0, "start", "n-1", True),
    ]
    assert field.over == ["n-1"]


def test_an_annotation_that_cannot_be_read_ends_the_one_before() -> None:
    field = Field()
    observe = field.failures.observe
    field.run(
        (1.0, lambda: observe(field.node("n-0", "no-lease"))), (2.0, lambda: observe(field.node("n-0", "x"))), until=3
    )
    assert [done[1:] for done in field.machines.done] == [("lease", "n-0", True), ("lease", "n-0", False)]
    assert "'x' is no failure" in field.unreadable[0]


def test_a_node_is_down_as_long_as_any_cause_holds_and_boots_when_one_was_power() -> None:
    field = Field()
    fail, recover = field.failures.fail, field.failures.recover
    field.run(
        (1.0, lambda: fail(["n-0"], parse_failure("unreachable"), "a")),
        (2.0, lambda: fail(["n-0"], parse_failure("dead"), "b")),
        (3.0, lambda: recover(["n-0"], "b")),
        (4.0, lambda: recover(["n-0"], "a")),
        until=5,
    )
    assert field.machines.done == [(1.0, "stop", "n-0", None), (4.0, "start", "n-0", True)]
    with pytest.raises(KeyError):
        fail(["elsewhere"], parse_failure("dead"))


def test_a_flapping_node_comes_and_goes() -> None:
    field = Field()
    field.run((0.0, lambda: field.failures.fail(["n-0"], parse_failure("flapping up=3s down=1s for=9s"))), until=60)
    assert [(instant, what) for instant, what, *_ in field.machines.done] == [
        (0.0, "stop"),
        (1.0, "start"),
        (4.0, "stop"),
        (5.0, "start"),
        (8.0, "stop"),
        (9.0, "start"),
    ]


@given(st.integers(0, 2**32))
def test_nodes_fail_by_the_mean_times_of_their_shape(seed: int) -> None:
    first, again = (
        Field(seed, mtbf_seconds=100.0, mttr_seconds=10.0),
        Field(seed, mtbf_seconds=100.0, mttr_seconds=10.0),
    )
    for field in (first, again):
        field.run((0.0, field.failures.begin), until=5000)
    assert first.machines.done == again.machines.done, "what is drawn follows from the seed"
    stops = sum(what == "stop" for _, what, *_ in first.machines.done)
    assert 3 * 5000 / 110 * 0.5 < stops < 3 * 5000 / 110 * 1.6
    assert {is_rebooted for _, what, _, is_rebooted in first.machines.done if what == "start"} == {True}
    assert math.isinf(HollowOffer().mtbf_seconds)


def ready(node: dict[str, Any]) -> str:
    return next(str(one["status"]) for one in node["status"]["conditions"] if one["type"] == "Ready")


def since(node: dict[str, Any]) -> str:
    return next(str(one["lastTransitionTime"]) for one in node["status"]["conditions"] if one["type"] == "Ready")


def play(story: Callable[[Harness], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def main() -> None:
        async with Harness(nodes="3x4cpu,zone=a..c", clock=clock, controllers=EMBEDDED) as world:
            await story(world)

    run_virtual(clock, main())


async def start(world: Harness, **spec: Any) -> str:
    """Start three pods of one job that fill a node each; return a node of one."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    template = {"spec": {"containers": [container], "schedulerName": "volcano", "restartPolicy": "OnFailure", **spec}}
    task = {"name": "t", "replicas": 2, "template": template}
    body = {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": 2, "schedulerName": "volcano", "tasks": [task]},
    }
    await world.cluster.create(catalog.VCJOB, body, "default")
    await world.clock.sleep(10)
    return str((await world.cluster.get(catalog.POD, "j-t-0", "default"))["spec"]["nodeName"])


def test_pods_of_a_dead_node_move_when_the_controllers_see_it() -> None:
    async def story(world: Harness) -> None:
        victim = await start(world)
        patch = {"metadata": {"annotations": {FAILURE: "dead for=1h"}}}
        await world.cluster.patch(catalog.NODE, victim, "", patch)
        await world.clock.sleep(30)
        assert ready(await world.cluster.get(catalog.NODE, victim)) == "True", "its lease has not lapsed yet"
        await world.clock.sleep(30)
        node = await world.cluster.get(catalog.NODE, victim)
        assert ready(node) == "Unknown"
        assert any(taint["effect"] == "NoExecute" for taint in node["spec"]["taints"])
        await world.clock.sleep(600)
        waiting = await world.cluster.get(catalog.POD, "j-t-0", "default")
        assert waiting["metadata"]["deletionTimestamp"], "it is evicted, and nobody can say that it has ended"
        await world.clock.sleep(3000)
        node = await world.cluster.get(catalog.NODE, victim)
        assert ready(node) == "True"
        assert FAILURE not in (node["metadata"].get("annotations") or {})
        pods = (await world.cluster.list(catalog.POD, "default")).items
        assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]
        assert waiting["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods}

    play(story)


def test_containers_are_lost_when_a_node_boots_again() -> None:
    async def story(world: Harness) -> None:
        victim = await start(world)
        (nodes,) = world.world.nodes
        nodes.failures.fail([victim], parse_failure("dead for=20s"))
        await world.clock.sleep(120)
        status = (await world.cluster.get(catalog.POD, "j-t-0", "default"))["status"]
        assert status["phase"] == "Running"
        (container,) = status["containerStatuses"]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"

    play(story)


def test_containers_run_on_where_a_node_was_only_unreachable() -> None:
    async def story(world: Harness) -> None:
        victim = await start(world)
        (nodes,) = world.world.nodes
        nodes.failures.fail([victim], parse_failure("unreachable for=60s"))
        await world.clock.sleep(50)
        assert ready(await world.cluster.get(catalog.NODE, victim)) == "Unknown"
        await world.clock.sleep(60)
        assert ready(await world.cluster.get(catalog.NODE, victim)) == "True"
        status = (await world.cluster.get(catalog.POD, "j-t-0", "default"))["status"]
        assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Running", 0)

    play(story)


def test_a_node_without_its_lease_reports_its_pods_all_the_same() -> None:
    async def story(world: Harness) -> None:
        victim = await start(world)
        (nodes,) = world.world.nodes
        nodes.failures.fail([victim], parse_failure("no-lease for=10m"))
        before = await world.cluster.get(catalog.NODE, victim)
        await world.clock.sleep(120)
        lease = await world.cluster.get(catalog.LEASE, victim, "kube-node-lease")
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert parse_time(lease["spec"]["renewTime"]) < world.clock.now() - 100
        after = await world.cluster.get(catalog.NODE, victim)
        assert since(after) > since(before), "it was taken for lost, and said that it is not"
        await world.clock.sleep(600)
        assert ready(await world.cluster.get(catalog.NODE, victim)) == "True"
        assert (await world.cluster.get(catalog.POD, "j-t-0", "default"))["status"]["phase"] == "Running"

    play(story)


def test_pods_take_longer_on_a_slow_node() -> None:
    async def story(world: Harness) -> None:
        (nodes,) = world.world.nodes
        nodes.failures.fail(nodes.names, parse_failure("slow factor=4"))
        await start(world, containers=[{"name": "c", "image": "i", "command": ["sleep", "30"]}])
        await world.clock.sleep(100)
        assert (await world.cluster.get(catalog.POD, "j-t-0", "default"))["status"]["phase"] == "Running"
        await world.clock.sleep(30)
        assert (await world.cluster.get(catalog.POD, "j-t-0", "default"))["status"]["phase"] == "Succeeded"

    play(story)
