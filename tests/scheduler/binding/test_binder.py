"""The binder on API servers that refuse, throttle, hang, lose answers and go away."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import Request
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Forbidden, InternalError, TooManyRequests, Unavailable
from strato.scheduler.binding.binder import Binder
from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Bind
from strato.testing.faults import RequestFault
from tests.scheduler import worlds
from tests.scheduler.faulty import Setting, is_bind, is_status, leading, play
from tests.scheduler.test_service import create

HOST = "default-scheduler"


def solo(name: str, **more: object) -> dict[str, object]:
    return worlds.pod(name, scheduler=HOST, **more)


def bad_binds(error: ApiError) -> object:
    return lambda request: error if is_bind(request) and "/bad-" in request.path else None


@pytest.mark.parametrize(
    "error",
    [Forbidden("a webhook says no"), Unavailable("webhook away"), TooManyRequests("later", retry_after_seconds=20)],
    ids=["forbidden", "unavailable", "throttled"],
)
@pytest.mark.parametrize("at_once", [1, 64])
def test_binds_that_are_refused_hold_nobody_else(error: ApiError, at_once: int) -> None:
    async def story(s: Setting) -> None:
        s.cluster.rules.append(bad_binds(error))
        await create(s.admin, worlds.node("n", cpu="1000", memory="1000Gi", pods="1000"))
        await create(s.admin, *(solo(f"bad-{n}", cpu="1") for n in range(100)))
        await s.clock.sleep(40.0)  # they back off, for longer and longer
        await create(s.admin, solo("good"))

        async def bound() -> bool:
            return (await s.nodes())["good"] == "n"

        assert await s.until(bound, 60) < 1.0
        s.cluster.heal()

        async def all_bound() -> bool:
            return all((await s.nodes()).values())

        await s.until(all_bound, 70)

    play(story, at_once=at_once)


def test_place_of_a_pod_whose_bind_is_refused_is_free_for_others() -> None:
    async def story(s: Setting) -> None:
        s.cluster.rules.append(bad_binds(Forbidden("a webhook says no")))
        await create(s.admin, worlds.node("n", cpu="1"), solo("bad-1"))
        await s.clock.sleep(30.0)
        await create(s.admin, solo("good"))

        async def bound() -> bool:
            return (await s.nodes())["good"] == "n"

        await s.until(bound, 61)

    play(story)


def test_pod_whose_bind_is_refused_says_why() -> None:
    async def story(s: Setting) -> None:
        s.cluster.rules.append(bad_binds(Forbidden("a webhook says no")))
        await create(s.admin, worlds.node("n"), solo("bad-1"))
        await s.clock.sleep(3.0)
        condition = (await s.admin.get(Pod, "bad-1", "ns")).status.condition("PodScheduled")
        assert condition is not None
        assert (condition.reason, condition.message) == (
            "SchedulerError",
            "failed to bind to node n: a webhook says no",
        )
        told = s.scheduler.diagnosis("ns/bad-1")
        assert told is not None

    play(story)


@pytest.mark.parametrize("fault", [RequestFault.LOST, RequestFault.LOST_AND_HANGS])
@pytest.mark.parametrize("at_once", [1, 64])
def test_bind_whose_answer_is_lost_is_looked_up_and_not_sent_again(fault: RequestFault, at_once: int) -> None:
    async def story(s: Setting) -> None:
        sent: Counter[str] = Counter()

        def lose(request: Request) -> RequestFault | None:
            if not is_bind(request):
                return None
            sent[request.path] += 1
            return fault

        s.cluster.rules.append(lose)
        await create(s.admin, worlds.node("n"), solo("a"), solo("b"))
        await s.clock.sleep(120.0)
        assert set((await s.nodes()).values()) == {"n"}
        assert set(sent.values()) == {1}
        events = (await s.admin.list(catalog.EVENT, "ns")).items
        assert Counter(e["reason"] for e in events) == {"Scheduled": 2}

    play(story, at_once=at_once)


def test_a_pod_that_cannot_be_read_is_asked_for_ever_more_rarely() -> None:
    async def story(s: Setting) -> None:
        reads: list[float] = []

        def fails(request: Request) -> ApiError | None:
            if request.method == "GET" and request.path.endswith("/pods/a") and len(reads) < 100:
                reads.append(s.clock.monotonic())
                return InternalError("cannot be read")
            return Forbidden("a webhook says no") if is_bind(request) else None

        s.cluster.rules.append(fails)
        await create(s.admin, worlds.node("n"), solo("a"))
        await s.clock.sleep(60.0)
        waits = [later - sooner for sooner, later in pairwise(reads)]
        assert len(waits) >= 3
        assert waits[-1] > 4 * waits[0]

    play(story)


def test_of_two_times_to_decide_again_the_earlier_counts() -> None:
    """A later one is asked for anew by the cycle that the earlier brings."""
    woken: list[float] = []
    clock = VirtualClock()

    async def story() -> None:
        world = World()
        idle: Any = SimpleNamespace(at_once=1, patch_all=print)
        binder = Binder(idle, clock, world, idle, idle, lambda: woken.append(clock.monotonic()))
        began = clock.monotonic()
        task = asyncio.ensure_future(binder.run())
        await clock.sleep(1.0)
        binder.decide_again(5.0)
        binder.decide_again(9.0)
        binder.decide_again(2.0)
        await clock.sleep(20.0)
        task.cancel()
        woken[:] = [at - began for at in woken]

    run_virtual(clock, story())
    assert woken == [3.0, 6.0]


def test_the_reason_for_the_node_of_a_failed_bind_is_not_given_for_a_later_one() -> None:
    answers, events = [Forbidden("a webhook says no"), None], list[str]()
    clock = VirtualClock()

    async def bind_all(binds: list[object]) -> list[ApiError | None]:
        return [answers.pop(0) for _ in binds]

    async def story() -> None:
        world = worlds.world(worlds.node("n"), solo("a"), names=(HOST,))
        api: Any = SimpleNamespace(
            at_once=1, bind_all=bind_all, patch_all=print, event=lambda *about: events.append(about[-1])
        )
        binder = Binder(api, clock, world, api, api, lambda: None)
        task = asyncio.ensure_future(binder.run())
        bind = Bind(world.tasks["ns/a"], "n")
        binder.bind([bind], {"ns/a": "it is the nearest"})
        await clock.sleep(5.0)
        binder.bind([bind])
        await clock.sleep(5.0)
        task.cancel()

    run_virtual(clock, story())
    assert events == ["Successfully assigned ns/a to n"]


def test_requests_that_hang_free_their_workers_and_are_tried_again() -> None:
    async def story(s: Setting) -> None:
        s.cluster.rules.append(
            lambda request: RequestFault.HANGS if is_bind(request) and "/bad-" in request.path else None
        )
        await create(s.admin, worlds.node("n", cpu="1000", memory="1000Gi", pods="1000"))
        await create(s.admin, *(solo(f"bad-{n}") for n in range(64)))
        await s.clock.sleep(1.0)
        await create(s.admin, solo("good"))

        async def bound() -> bool:
            return (await s.nodes())["good"] == "n"

        await s.until(bound, 31)
        s.cluster.heal()

        async def all_bound() -> bool:
            return all((await s.nodes()).values())

        await s.until(all_bound, 60)

    play(story)


def test_throttled_statuses_hold_no_binds_and_throttled_binds_no_statuses() -> None:
    async def story(s: Setting) -> None:
        later = TooManyRequests("later", retry_after_seconds=30)
        s.cluster.rules.append(lambda request: later if is_status(request) else None)
        groups = [worlds.group(f"g{n}", 2, phase="Pending") for n in range(80)]
        await create(s.admin, worlds.node("n", cpu="100", memory="1000Gi"), *groups)
        await s.clock.sleep(2.0)
        await create(s.admin, solo("good"))
        await s.clock.sleep(1.0)
        assert (await s.nodes())["good"] == "n"
        s.cluster.rules[:] = [lambda request: later if is_bind(request) else None]
        await create(s.admin, *(solo(f"p{n}", cpu="100m") for n in range(100)))
        await s.clock.sleep(40.0)
        groups_now = (await s.admin.list(PodGroup, "ns")).items
        assert {group.status.phase for group in groups_now} == {"Inqueue"}

    play(story)


@pytest.mark.parametrize("seconds", [10.0, 600.0])
def test_outage_loses_no_condition_and_no_status(seconds: float) -> None:
    async def story(s: Setting) -> None:
        await create(s.admin, worlds.node("n", cpu="2"), worlds.group("g", 3))
        await create(s.admin, solo("running", cpu="1"))
        await s.clock.sleep(0.02)
        s.cluster.rules.append(lambda request: Unavailable("away") if not is_bind(request) else None)
        await create(s.admin, *(worlds.pod(f"w{n}", "g") for n in range(3)), solo("big", cpu="8"))
        await s.clock.sleep(seconds)
        s.cluster.heal()
        await s.clock.sleep(32.0)
        await everything_is_told(s)

    play(story)


async def everything_is_told(s: Setting, *, events: bool = True) -> None:
    assert (await s.nodes())["running"] == "n"
    for name in ("w0", "w1", "w2", "big"):
        pod = await s.admin.get(Pod, name, "ns")
        condition = pod.status.condition("PodScheduled")
        assert condition is not None, name
        assert condition.status == "False", name
        assert condition.reason in ("Unschedulable", "Schedulable"), name  # some of a gang might have had places
    group = await s.admin.get(PodGroup, "g", "ns")
    assert [c.type for c in group.status.conditions] == ["Unschedulable"]
    queue = await s.admin.get(Queue, "default")
    assert queue.status.allocated.get("cpu") == "1"
    if events:
        reasons = {event["reason"] for event in (await s.admin.list(catalog.EVENT, "ns")).items}
        assert reasons >= {"FailedScheduling", "Scheduled", "Unschedulable"}


def test_who_leads_after_an_outage_writes_what_the_one_before_could_not() -> None:
    async def story(s: Setting) -> None:
        """The first is never able to write a status; the second finds the API in order."""
        s.cluster.rules.append(lambda request: InternalError("etcd away") if is_status(request) else None)
        await create(s.admin, worlds.node("n", cpu="2"), worlds.group("g", 3))
        await create(s.admin, *(worlds.pod(f"w{n}", "g") for n in range(3)), solo("big", cpu="8"))
        await create(s.admin, solo("running", cpu="1"))
        await s.clock.sleep(20.0)
        second = type(s.cluster)(
            s.cluster._handler, s.cluster._user, s.clock, s.cluster._random, faults=s.cluster.faults
        )
        async with leading((s.clock, s.admin, second)):
            await s.clock.sleep(10.0)
        await everything_is_told(s)

    play(story)


def test_gate_that_could_not_be_taken_away_is_taken_away_later() -> None:
    async def story(s: Setting) -> None:
        s.cluster.rules.append(lambda request: Unavailable("away") if request.method == "PATCH" else None)
        gated = worlds.pod("held", "g", annotations={"scheduling.volcano.sh/queue-allocation-gate": "true"})
        gated["spec"]["schedulingGates"] = [{"name": "scheduling.volcano.sh/queue-allocation-gate"}]
        await create(s.admin, worlds.node("n"), worlds.group("g", 1), gated)
        await s.clock.sleep(20.0)
        s.cluster.heal()
        await s.clock.sleep(40.0)
        assert await s.nodes() == {"held": "n"}

    play(story)
