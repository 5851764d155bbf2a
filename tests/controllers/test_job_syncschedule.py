"""When a job is looked at, and what its life costs in requests: nothing is done twice, nothing is forgotten."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.wire import Request, Response
from strato.client.cluster import Binding
from strato.controllers.job.syncschedule import (
    BUSY_COUNTERS_SECONDS,
    COALESCING_SECONDS,
    COUNTERS_SECONDS,
    SyncSchedule,
)
from tests.controllers.world import ADMIN, MeddlingCluster, World, born_without_status, play, task, vcjob


def test_pods_that_move_wait_for_each_other_and_are_served_together() -> None:
    schedule = SyncSchedule()
    schedule.begin(1.0)
    schedule.end(1.0)
    assert schedule.mark_pods_dirty(1.005) == pytest.approx(COALESCING_SECONDS - 0.005)
    assert schedule.mark_pods_dirty(1.006) is None
    assert schedule.is_due(1.02)


def test_pods_that_move_while_a_worker_is_at_the_job_are_left_to_it() -> None:
    schedule = SyncSchedule()
    schedule.in_progress = True
    schedule.begin(1.0)
    assert schedule.mark_pods_dirty(1.001) is None
    schedule.end(1.002)
    assert schedule.next_in(1.002) == pytest.approx(COALESCING_SECONDS)


def test_counters_are_held_back_until_their_time_whatever_happens_meanwhile() -> None:
    schedule = SyncSchedule()
    assert schedule.may_hold_counters(1.0, is_pending=True, is_busy=False)
    assert schedule.next_in(1.2) == pytest.approx(0.8)
    schedule.mark_pods_dirty(1.2)
    schedule.begin(1.2)
    assert schedule.may_hold_counters(1.2, is_pending=True, is_busy=False)
    assert not schedule.is_due(1.9)
    assert schedule.is_due(2.0)
    assert not schedule.may_hold_counters(2.0, is_pending=True, is_busy=False)


def test_counters_wait_while_other_jobs_do_but_not_for_ever() -> None:
    schedule, now = SyncSchedule(), 1.0
    assert schedule.may_hold_counters(now, is_pending=False, is_busy=True)
    due = schedule.counters_due
    assert due == now + COUNTERS_SECONDS
    assert schedule.may_hold_counters(now + 0.02, is_pending=False, is_busy=True)
    assert schedule.counters_due == due, "a look before they are due puts nothing off"
    assert not schedule.may_hold_counters(due, is_pending=False, is_busy=False)
    while schedule.may_hold_counters(due, is_pending=False, is_busy=True):
        assert schedule.counters_due is not None
        assert schedule.counters_due > due
        due = schedule.counters_due
    assert now + BUSY_COUNTERS_SECONDS <= due < now + BUSY_COUNTERS_SECONDS + COUNTERS_SECONDS + 0.5


@given(st.floats(0, 1e7), st.floats(0, 2))
def test_a_timer_that_rings_on_time_is_never_too_early(now: float, later: float) -> None:
    """Instants are sums of floats; a timer that found nothing due would ring for ever."""
    schedule = SyncSchedule()
    schedule.may_hold_counters(now, is_pending=True, is_busy=False)
    left = schedule.next_in(now + later)
    assert left is not None
    assert schedule.is_due(now + later + left)


# What a life costs


class Counting(MeddlingCluster):
    """Counts what is asked of the server, by method and kind."""

    def __init__(self, world: World) -> None:
        super().__init__(world.server, ADMIN)
        self.requests: Counter[str] = Counter()

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        kind = next((part for part in request.path.split("/") if part in ("jobs", "podgroups", "pods")), "")
        if kind and not stream:
            self.requests[f"{request.method} {kind}"] += 1
        return await super().exchange(request, stream=stream)


@pytest.mark.parametrize("plain", [False, True], ids=["born Pending", "born without a status"])
@pytest.mark.parametrize("replicas", [1, 30], ids=["a job of one pod", "a gang of thirty"])
def test_a_job_costs_as_few_requests_as_its_phases_ask_for(replicas: int, plain: bool) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        cluster = Counting(world)
        await world.start_controllers(cluster)
        await world.settle(1)
        cluster.requests.clear()
        body = vcjob("j", task(replicas=replicas), minAvailable=replicas)
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        await world.settle(10)
        status = (await world.job("j")).status
        assert status.running == replicas
        assert [condition.status for condition in status.conditions] == ["Pending", "Running"]
        assert cluster.requests == {
            "PATCH jobs": 1,  # Running with all its counters; that it was Pending before is said with it
            "POST podgroups": 1,
            "POST pods": replicas,
        }

    with born_without_status(plain):
        play(scenario, enabled=("job-controller",))


def test_a_job_whose_spec_is_not_remembered_is_read_once_more() -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        cluster = Counting(world)
        await world.start_controllers(cluster)
        await world.settle(1)
        cluster.requests.clear()
        long = task(replicas=2)
        long["template"]["spec"]["containers"][0]["args"] = ["x" * 10_000]
        await world.cluster.create(catalog.VCJOB, vcjob("j", long), "default")
        await world.until_phase("j", "Running")
        assert cluster.requests["GET jobs"] == 1
        pod = await world.cluster.get(catalog.POD, "j-w-1", "default")
        assert pod["spec"]["containers"][0]["args"] == ["x" * 10_000]

    play(scenario, enabled=("job-controller",))


class Late(MeddlingCluster):
    """Answers the creation of a group only when the watch has told of it, and of what the scheduler made of it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.server, ADMIN)
        self._clock = world.clock

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        response = await super().exchange(request, stream=stream)
        if request.method == "POST" and "/podgroups" in request.path:
            await self._clock.sleep(1.0)
        return response


def test_a_group_that_the_watch_knew_first_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        await world.start_controllers(Late(world))
        await world.cluster.create(catalog.VCJOB, vcjob("j", task()), "default")
        await world.until_phase("j", "Running")
        assert "still being deleted" not in caplog.text

    play(scenario, enabled=("job-controller",))


def test_pods_that_trickle_in_are_counted_in_the_end() -> None:
    """Each pod alone changes nothing but counters; the last word must be right all the same."""

    async def scenario(world: World) -> None:
        body = vcjob("j", task(replicas=6), minAvailable=1)
        body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["test/unbound"] = "yes"
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.settle(2)
        for number in range(6):
            assert await world.cluster.bind_all([Binding("default", f"j-w-{number}", "n")]) == [None]
            await world.clock.sleep(0.03)
        await world.settle(3)
        status = (await world.job("j")).status
        assert (status.state.phase, status.running, status.pending) == ("Running", 6, 0)

    play(scenario, enabled=("job-controller", "queue-controller"))
