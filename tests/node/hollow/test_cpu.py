"""Containers of hollow nodes with a demand: what they get, how long they run, what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.core import Pod
from strato.api.cpudemand import CPU_DEMAND
from strato.clock import VirtualClock, run_virtual
from strato.node.hollow.cpu import SETS_PACE, WAITS_FOR, HollowCpu
from strato.node.hollow.cpuruns import CpuRun


class World:
    """Nodes and the instants at which containers ended."""

    def __init__(self, clock: VirtualClock, nodes: dict[str, float]) -> None:
        self.clock = clock
        self.ended: dict[str, float] = {}
        self.closed: list[CpuRun] = []
        self.cpu = HollowCpu(clock, on_closed=self.closed.append)
        for name, cores in nodes.items():
            self.cpu.add_node(name, cores)

    def start(self, name: str, demand: str, seconds: float = float("inf"), **options: Any) -> None:
        pod = a_pod(name, demand, **options)
        assert self.cpu.has_demand(pod)

        def end() -> None:
            self.ended[name] = self.clock.monotonic()

        assert self.cpu.start(pod, pod.spec.containers[0], seconds, end)

    def run(self, name: str) -> CpuRun:
        for node in ("n", "m"):
            for key, run in self.cpu.runs_of(node).items():
                if key == f"uid-{name}/main":
                    return run
        raise KeyError(name)


def a_pod(
    name: str,
    demand: str,
    node: str = "n",
    request: str = "1",
    limit: str = "",
    job: str = "",
    annotations: dict[str, str] | None = None,
) -> Pod:
    resources: dict[str, Any] = {"requests": {"cpu": request}} if request else {}
    if limit:
        resources["limits"] = {"cpu": limit}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": job, "controller": True}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "annotations": {CPU_DEMAND: demand, **(annotations or {})},
                "ownerReferences": [owner] if job else [],
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources}]},
        },
        Pod,
    )


def play(story: Callable[[World, VirtualClock], Awaitable[None]], **nodes: float) -> World:
    clock = VirtualClock()

    async def main() -> World:
        world = World(clock, nodes or {"n": 4.0, "m": 4.0})
        task = asyncio.create_task(world.cpu.run())
        await story(world, clock)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return world

    return run_virtual(clock, main())


def test_alone_it_takes_its_time() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "2", 100)
        await clock.sleep(200)

    world = play(story)
    assert world.ended == {"a": pytest.approx(100)}
    assert world.closed[0].account.used_core_seconds == pytest.approx(200)


def test_a_limit_of_half_the_demand_doubles_its_time() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "2", 100, limit="1")
        await clock.sleep(50)
        assert world.run("a").is_limited
        assert world.run("a").account.limited_seconds == pytest.approx(50)
        await clock.sleep(200)

    world = play(story)
    assert world.ended == {"a": pytest.approx(200)}
    account = world.closed[0].account
    assert (account.used_core_seconds, account.unserved_core_seconds) == (pytest.approx(200), pytest.approx(200))


def test_a_crowded_node_shares_by_request() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "4", 100, request="3")
        world.start("b", "4", 100, request="1")
        await clock.sleep(10)
        assert (world.run("a").given, world.run("b").given) == (pytest.approx(3), pytest.approx(1))
        assert world.run("a").account.overloaded_seconds == pytest.approx(10)
        assert not world.run("a").is_limited
        await clock.sleep(1000)

    world = play(story)
    # a does 3/4 of its work a second; b does 1/4 until then and all of it after
    assert world.ended == {"a": pytest.approx(400 / 3), "b": pytest.approx(400 / 3 + 100 - 100 / 3)}


def test_phases_wait_for_the_work() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "phases 10s=4 10s=1", 20, limit="2")
        await clock.sleep(15)
        assert world.run("a").given == pytest.approx(2), "the first phase takes 20 s"
        await clock.sleep(10)
        assert world.run("a").given == pytest.approx(1)
        await clock.sleep(100)

    world = play(story)
    assert world.ended == {"a": pytest.approx(30)}
    assert world.closed[0].account.used_core_seconds == pytest.approx(50), "the work is the same"


def test_a_quota_is_written_and_taken_back() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "2", 100)
        await clock.sleep(40)
        assert world.cpu.set_quota("uid-a", "main", 500)
        await clock.sleep(80)  # does 20 s of work
        assert world.run("a").quota_milli == 500
        assert world.cpu.set_quota("uid-a", "main", None)
        await clock.sleep(100)
        assert not world.cpu.set_quota("uid-a", "main", 500), "it has ended"

    assert play(story).ended == {"a": pytest.approx(160)}


def test_who_gives_way_gets_what_others_leave() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("train", "4", request="3")
        world.start("web", "phases 10s=1 10s=3.9", request="1")
        world.cpu.give_way("uid-train", "main", does=True)
        await clock.sleep(5)
        assert (world.run("train").given, world.run("web").given) == (pytest.approx(3), pytest.approx(1))
        await clock.sleep(10)
        assert world.run("web").given == pytest.approx(3.9)
        world.cpu.give_way("uid-train", "main", does=False)
        await clock.sleep(1)
        assert world.run("web").given == pytest.approx(1), "its weight is a quarter of both"

    play(story)


def test_a_gang_begins_when_all_its_pods_run() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        gang = {"job": "j", "annotations": {WAITS_FOR: "2"}}
        world.start("a", "2", 100, **gang)
        await clock.sleep(50)
        assert world.run("a").given == 0
        world.start("b", "2", 10, node="m", **gang)
        await clock.sleep(200)

    world = play(story)
    assert world.ended == {"b": pytest.approx(60), "a": pytest.approx(150)}, "who has ended is not waited for"
    waited = {run.pod.metadata.name: run.account.waiting_seconds for run in world.closed}
    assert waited == {"a": pytest.approx(50), "b": pytest.approx(0)}


def test_a_gang_waits_for_a_pod_that_is_replaced() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        gang = {"job": "j", "annotations": {WAITS_FOR: "2"}}
        world.start("a", "2", 100, **gang)
        world.start("b", "2", 100, node="m", **gang)
        await clock.sleep(40)
        world.cpu.forget("uid-b")
        await clock.sleep(30)
        world.start("b2", "2", 100, node="m", **gang)
        await clock.sleep(500)

    assert play(story).ended == {"a": pytest.approx(130), "b2": pytest.approx(170)}


def test_a_limited_parameter_server_slows_its_workers() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("ps", "2", job="j", limit="1", annotations={SETS_PACE: "true"})
        world.start("worker", "4", 100, node="m", job="j")
        world.start("other", "1", 100, node="m", job="k")
        await clock.sleep(20)
        assert world.run("worker").given == pytest.approx(2)
        world.cpu.set_quota("uid-ps", "main", None)
        await clock.sleep(300)

    world = play(story, n=4.0, m=8.0)
    assert world.ended == {"worker": pytest.approx(110), "other": pytest.approx(100)}


def test_what_a_stopped_pod_did_is_counted() -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        world.start("a", "2")
        await clock.sleep(30)
        world.cpu.stop("uid-a")
        await clock.sleep(30)
        assert world.cpu.used_core_seconds("n") == pytest.approx(60)
        assert world.cpu.runs_of("n") == {}

    world = play(story)
    assert [run.account.used_core_seconds for run in world.closed] == [pytest.approx(60)]


def test_before_rates_change_who_asks_is_told() -> None:
    changes: list[float] = []

    async def story(world: World, clock: VirtualClock) -> None:
        world.cpu.before_change("n", changes.append)
        world.start("a", "phases 10s=2 10s=1", 30)
        await clock.sleep(100)

    play(story)
    assert changes == [pytest.approx(0), pytest.approx(10), pytest.approx(30)]


PODS = st.lists(
    st.tuples(
        st.sampled_from(["2", "0", "phases repeat 7s=3 5s=0.5", "daily low=0 high=5 peak=1h noise=0.3"]),
        st.floats(1, 500),  # work
        st.sampled_from(["n", "m"]),
        st.sampled_from(["", "100m", "2"]),  # request
        st.sampled_from(["", "500m", "3"]),  # limit
        st.floats(0, 50),  # start after the one before
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(PODS)
def test_cpu_and_work_are_conserved(pods: list[tuple[str, float, str, str, str, float]]) -> None:
    async def story(world: World, clock: VirtualClock) -> None:
        for number, (demand, work, node, request, limit, wait) in enumerate(pods):
            await clock.sleep(wait)
            world.start(f"p{number}", demand, work, node=node, request=request, limit=limit)
        for _ in range(200):
            await clock.sleep(7.3)
            for node in ("n", "m"):
                runs = world.cpu.runs_of(node).values()
                assert sum(run.given for run in runs) <= 4.0 + 1e-9
                assert all(run.given <= run.quota + 1e-9 for run in runs)
        await clock.sleep(1e6)

    world = play(story)
    assert len(world.closed) == len(pods), "all end, as every demand leaves some CPU for all"
    for run in world.closed:
        account, done = run.account, run.own_seconds
        assert run.left_seconds == pytest.approx(0, abs=1e-5)
        if not run.demand.follows_clock:
            wanted = sum_of(run, done)
            assert account.used_core_seconds == pytest.approx(wanted, abs=1e-3), "what it was given is its work"
    total = sum(run.account.used_core_seconds for run in world.closed)
    assert world.cpu.used_core_seconds("n") + world.cpu.used_core_seconds("m") == pytest.approx(total, abs=1e-3)


def sum_of(run: CpuRun, seconds: float) -> float:
    total, at = 0.0, 0.0
    while at < seconds - 1e-6:
        following = min(run.demand.next_change(at), seconds)
        total += run.demand.cores_at(at) * (following - at)
        at = following
    return total
