"""Cron schedules, and both kinds of cron jobs against the real server in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Event
from strato.api.volcano.batch import CronJob, Job
from strato.clock import format_time, parse_time
from strato.controllers.cron.plan import End, JobEnd, OwnedJob, find_due, finished_to_delete
from strato.controllers.cron.schedule import InvalidSchedule, InvalidTimeZone, Schedule, find_zone
from tests.controllers.world import World, play, task, vcjob

VOLCANO = ("cronjob-controller", "job-controller", "queue-controller")
SATURDAY = "2026-03-28T22:00:00Z"
"""The night in which Europe's clocks go from two to three."""


def at(text: str) -> float:
    return parse_time(text)


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "wanted"),
    [
        pytest.param("*/15 * * * *", None, "2026-01-01T00:07:00Z", "2026-01-01T00:15:00Z", id="every quarter"),
        pytest.param("@daily", None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", id="a descriptor"),
        pytest.param("0 0 13 * fri", None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", id="the 13th or a Friday"),
        pytest.param("? 3 * * ?", None, "2026-01-01T03:58:30Z", "2026-01-01T03:59:00Z", id="? is *"),
        pytest.param(
            "@every 90m", None, "2026-01-01T00:07:00Z", "2026-01-01T01:37:00Z", id="a period counts from then"
        ),
        pytest.param("0 9 * * *", "Asia/Tokyo", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", id="nine in Tokyo"),
        pytest.param("TZ=Asia/Tokyo 0 9 * * *", None, "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z", id="own zone"),
        pytest.param("30 2 * * *", "Europe/Berlin", SATURDAY, "2026-03-29T01:00:00Z", id="an hour that is skipped"),
        pytest.param("0 0 29 2 *", None, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z", id="a leap day"),
    ],
)
def test_next_time(schedule: str, zone: str | None, after: str, wanted: str) -> None:
    assert format_time(Schedule(schedule, find_zone(zone)).next_after(at(after))) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "61 * * * *", "@often", "@every soon", "0 0 30 2 *"],
)
def test_an_impossible_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="schedule"):
        Schedule(text).next_after(0)


@pytest.mark.parametrize("name", ["", "local", "Mars/Base", "../etc/passwd"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimeZone):
        find_zone(name)


SCHEDULES = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "5 4 * * *", "0 12 * * mon", "@hourly", "@every 45s", "@every 3h"]
)
ZONES = st.sampled_from([None, "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])


@given(SCHEDULES, ZONES, st.integers(1_770_000_000, 1_800_000_000), st.integers(1, 200_000))
def test_latest_is_the_last_of_the_next_ones(text: str, zone: str | None, after: int, span: int) -> None:
    schedule = Schedule(text, find_zone(zone))
    until = after + min(span, 6000 if text.startswith("*") or "45s" in text else span)
    last, count = None, 0
    instant = schedule.next_after(after)
    while instant <= until:
        last, count = instant, count + 1
        following = schedule.next_after(instant)
        assert following > instant
        instant = following
    latest = schedule.latest(after, until)
    if zone is None or text.startswith("@every"):
        assert latest == last
    else:  # around a change of clocks an instant of the wall clock may be two; never more than that hour apart
        assert (latest is None and last is None) or abs((latest or after) - (last or after)) <= 3600
    assert schedule.count(after, until, 10_000) == count


def test_a_deadline_forgets_old_times() -> None:
    hourly = Schedule("0 * * * *")
    now = at("2026-01-01T05:30:00Z")
    due = find_due(hourly, created="2026-01-01T00:30:00Z", last=None, deadline_seconds=None, now=now)
    assert (due.at, due.missed, due.next_at) == (at("2026-01-01T05:00:00Z"), 5, at("2026-01-01T06:00:00Z"))
    late = find_due(hourly, created="2026-01-01T00:30:00Z", last=None, deadline_seconds=600, now=now)
    assert (late.at, late.next_at) == (None, at("2026-01-01T06:00:00Z"))


def test_history_keeps_the_youngest() -> None:
    def ended(number: int, outcome: JobEnd) -> OwnedJob:
        stamp = format_time(1_700_000_000 + number)
        return OwnedJob(Job(metadata=_meta(f"j{number}", stamp)), End(outcome, stamp))

    jobs = [ended(3, JobEnd.SUCCEEDED), ended(1, JobEnd.SUCCEEDED), ended(2, JobEnd.FAILED), ended(0, JobEnd.OTHER)]
    gone = finished_to_delete(jobs, succeeded_limit=1, failed_limit=0)
    assert [job.name for job in gone] == ["j1", "j2"]


def _meta(name: str, created: str) -> Any:
    from strato.api.meta import ObjectMeta

    return ObjectMeta(name=name, uid=name, namespace="default", creation_timestamp=created)


# Life


def cron(schedule: str = "*/5 * * * *", seconds: float | None = 30, code: int = 0, **spec: Any) -> dict[str, Any]:
    more = {} if seconds is None else {"seconds": seconds, "code": code}
    template = {"metadata": {"labels": {"team": "a"}}, "spec": vcjob("x", task("w", 1, **more))["spec"]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def jobs(world: World) -> list[Job]:
    return sorted((await world.cluster.list(Job, "default")).items, key=lambda job: job.metadata.name)


async def reasons(world: World) -> set[str]:
    await world.settle(10)
    events = (await world.cluster.list(Event, "default")).items
    return {event.reason for event in events if event.involved_object.kind == "CronJob"}


async def run_for(world: World, body: dict[str, Any], seconds: float) -> CronJob:
    kind = catalog.VCCRONJOB if "volcano" in body["apiVersion"] else catalog.CRONJOB
    await world.cluster.create(kind, body, "default")
    await world.settle(seconds)
    return await world.cluster.get(CronJob, "c", "default")


def test_jobs_come_when_their_time_comes() -> None:
    async def scenario(world: World) -> None:
        seen = await run_for(world, cron(timeZone="Asia/Tokyo"), 660)
        made = await jobs(world)
        assert [job.metadata.name for job in made] == [f"c-{int(at(t)) // 60}" for t in TIMES]
        assert made[0].metadata.annotation("volcano.sh/cronjob-scheduled-timestamp") == "2023-11-15T07:15:00+09:00"
        assert made[0].metadata.label("team") == "a"
        owner = made[0].metadata.controller
        assert owner is not None
        assert (owner.kind, owner.uid) == ("CronJob", seen.metadata.uid)
        assert seen.status.last_schedule_time == TIMES[-1]
        assert seen.status.last_successful_time is not None
        assert not seen.status.active
        assert {"SuccessfulCreate", "SawCompletedJob"} <= await reasons(world)

    play(scenario, enabled=VOLCANO)


TIMES = ("2023-11-14T22:15:00Z", "2023-11-14T22:20:00Z")


def test_history_limits_hold() -> None:
    async def scenario(world: World) -> None:
        await run_for(world, cron("* * * * *", seconds=5, successfulJobsHistoryLimit=2), 600)
        assert len(await jobs(world)) == 2
        assert "SuccessfulDelete" in await reasons(world)

    play(scenario, enabled=VOLCANO)


@pytest.mark.parametrize(
    ("policy", "count", "active", "reason"),
    [("Allow", 3, 3, "SuccessfulCreate"), ("Forbid", 1, 1, "ForbidConcurrent"), ("Replace", 1, 1, "ReplaceConcurrent")],
)
def test_concurrency(policy: str, count: int, active: int, reason: str) -> None:
    async def scenario(world: World) -> None:
        seen = await run_for(world, cron(seconds=None, concurrencyPolicy=policy), 900)
        made = await jobs(world)
        assert (len(made), len(seen.status.active)) == (count, active)
        assert {one.uid for one in seen.status.active} == {job.metadata.uid for job in made}
        assert reason in await reasons(world)

    play(scenario, enabled=(*VOLCANO, "kube-garbage-collector"))


def test_a_suspended_one_waits_and_serves_the_latest_time_when_it_goes_on() -> None:
    async def scenario(world: World) -> None:
        await run_for(world, cron("* * * * *", seconds=5, suspend=True), 600)
        assert not await jobs(world)
        await world.cluster.patch(catalog.VCCRONJOB, "c", "default", {"spec": {"suspend": False}})
        await world.settle(2)
        assert len(await jobs(world)) == 1

    play(scenario, enabled=VOLCANO)


def test_a_new_schedule_makes_up_for_nothing() -> None:
    async def scenario(world: World) -> None:
        await run_for(world, cron("0 0 1 1 *"), 600)
        await world.cluster.patch(catalog.VCCRONJOB, "c", "default", {"spec": {"schedule": "*/30 * * * *"}})
        await world.settle(30)
        assert not await jobs(world)
        await world.settle(1800)
        assert len(await jobs(world)) == 1

    play(scenario, enabled=VOLCANO)


def test_a_time_that_passed_while_nobody_looked_is_served_once() -> None:
    async def scenario(world: World) -> None:
        await run_for(world, cron("* * * * *", seconds=5), 130)
        before = len(await jobs(world))
        await world.stop_controllers()
        await world.settle(7200)
        await world.start_controllers()
        await world.settle(20)
        assert len(await jobs(world)) == before + 1
        assert "TooManyMissedTimes" in await reasons(world)

    play(scenario, enabled=VOLCANO)


def test_a_foreign_job_of_the_name_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        foreign = vcjob(f"c-{int(at(TIMES[0])) // 60}", task("w", 1))
        await world.cluster.create(catalog.VCJOB, foreign, "default")
        seen = await run_for(world, cron(), 120)
        assert not seen.status.active
        assert seen.status.last_schedule_time == TIMES[0]
        assert "ForeignJob" in await reasons(world)

    play(scenario, enabled=VOLCANO)


def test_a_restart_in_the_middle_makes_no_second_job() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCCRONJOB, cron("* * * * *", seconds=None), "default")
        for _ in range(20):
            await world.stop_controllers()
            await world.start_controllers()
            await world.settle(20.7)
        made = await jobs(world)
        seen = await world.cluster.get(CronJob, "c", "default")
        assert len(made) == len({job.metadata.name for job in made}) == 7
        assert {one.uid for one in seen.status.active} == {job.metadata.uid for job in made}

    play(scenario, enabled=VOLCANO)


def test_virtual_time_begins_where_the_tables_think() -> None:
    assert datetime.fromtimestamp(1_700_000_000, UTC).isoformat() == "2023-11-14T22:13:20+00:00"
