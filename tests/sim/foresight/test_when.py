"""When jobs will start: exact where run times are known, spread where they are drawn, bounded in every case."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from strato.history.prediction import RunTimePredictor, RunTimes, SubmittedJob
from strato.history.rows import COMPLETED, FAILED, JobRun
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.run import build, decode_all
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.jobs import Job, Task
from strato.sim.foresight.when import starts
from strato.sim.foresight.whenjobs import ended_jobs, past_of, run_times, submission_of
from tests.scheduler import worlds

NOW = 1_700_000_000.0
STARTED = "2023-11-14T22:13:20Z"
"""`NOW`, as objects have it."""
POLICY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
"""


def running(name: str, group: str, cpu: str, **more: Any) -> dict[str, Any]:
    made = worlds.pod(name, group, cpu=cpu, phase="Running", nodeName="n1", **more)
    made["status"]["startTime"] = STARTED
    return made


def dated(obj: dict[str, Any], minute: int) -> dict[str, Any]:
    obj["metadata"]["creationTimestamp"] = f"2023-11-14T21:{minute:02d}:00Z"
    return obj


def copy_of(*objects: dict[str, Any], now: float = NOW) -> Copy:
    return Copy(decode_all([("test", obj) for obj in objects]), parse_config(POLICY), seed=1, now=now)


FULL = (
    worlds.node("n1", cpu="4"),
    dated(worlds.group("long", 1, phase="Running"), 1),
    running("long-0", "long", "4", annotations={"strato.dev/run-seconds": "600"}),
    dated(worlds.group("next", 1), 2),
    dated(worlds.pod("next-0", "next", cpu="4", annotations={"strato.dev/run-seconds": "100"}), 2),
    dated(worlds.group("last", 1), 3),
    dated(worlds.pod("last-0", "last", cpu="4"), 3),
)


def nothing_known(job: Job, task: Task) -> float:
    return math.inf


def test_known_run_times_give_the_instant() -> None:
    found = starts(copy_of(*FULL), run_times(RunTimePredictor()), draws=5)
    assert set(found) == {"ns/next", "ns/last"}
    assert found["ns/next"].seconds == (600.0,) * 5
    assert found["ns/last"].interval == (700.0, 700.0, 700.0)


def test_what_has_run_already_counts() -> None:
    found = starts(copy_of(*FULL, now=NOW + 450.0), run_times(RunTimePredictor()), draws=1)
    assert found["ns/next"].seconds == (150.0,)


def test_only_those_asked_for_are_waited_for() -> None:
    found = starts(copy_of(*FULL), run_times(RunTimePredictor()), draws=1, only=("ns/next",))
    assert set(found) == {"ns/next"}


def test_drawn_run_times_give_an_interval() -> None:
    spread = RunTimes(np.linspace(100.0, 1_100.0, 101), np.ones(101), math.inf)
    found = starts(copy_of(*FULL), lambda job, task: spread, draws=60, only=("ns/next",))["ns/next"]
    middle, low, high = found.interval
    assert 150 < low < 400 < middle < 800 < high < 1_100
    assert len(found.seconds) == 60


def test_what_never_ends_is_not_foreseen() -> None:
    found = starts(copy_of(*FULL), nothing_known, draws=2)
    assert found["ns/next"].seconds == (math.inf, math.inf)
    assert found["ns/next"].interval.middle == math.inf
    assert found["ns/next"].reason


def test_budget_ends_draws_but_not_the_first() -> None:
    found = starts(copy_of(*FULL), run_times(RunTimePredictor()), draws=50, budget_seconds=0.0)
    assert len(found["ns/next"].seconds) == 1


def test_same_seed_same_answer() -> None:
    spread = RunTimes(np.linspace(100.0, 1_100.0, 101), np.ones(101), math.inf)
    first, second = (starts(copy_of(*FULL), lambda job, task: spread, draws=6) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("pod", "group", "want"),
    [
        ({}, {}, SubmittedJob(user="ns", name="g", size=2.0)),
        ({"strato.dev/expected-seconds": "60"}, {}, SubmittedJob(user="ns", name="g", size=2.0, estimate_seconds=60.0)),
        ({}, {"strato.dev/expected-seconds": "90"}, SubmittedJob(user="ns", name="g", size=2.0, estimate_seconds=90.0)),
        ({}, {"strato.dev/submitted-by": "anna"}, SubmittedJob(user="anna", name="g", size=2.0)),
        ({"strato.dev/expected-seconds": "soon"}, {}, SubmittedJob(user="ns", name="g", size=2.0)),
    ],
    ids=["nothing", "pod's estimate", "group's estimate", "user", "no number"],
)
def test_submission_is_read_from_annotations(pod: dict[str, str], group: dict[str, str], want: SubmittedJob) -> None:
    made = worlds.group("g", 1)
    made["metadata"]["annotations"] = group
    world = build(copy_of(worlds.node("n1"), made, worlds.pod("p", "g", cpu="2", annotations=pod)).objects)
    assert submission_of(world.jobs["ns/g"], world.tasks["ns/p"]) == want


def test_deadlines_count() -> None:
    made = worlds.pod("p", "g", cpu="2", activeDeadlineSeconds=30)
    world = build(copy_of(worlds.node("n1"), worlds.group("g", 1), made).objects)
    assert submission_of(world.jobs["ns/g"], world.tasks["ns/p"]).limit_seconds == 30.0


def test_ended_jobs_are_found() -> None:
    ended = worlds.pod("p", "g", cpu="2", phase="Succeeded", nodeName="n1")
    state = {"terminated": {"exitCode": 0, "finishedAt": "2023-11-14T22:15:00Z"}}
    ended["status"] |= {"startTime": STARTED, "containerStatuses": [{"name": "main", "state": state}]}
    world = build(copy_of(worlds.node("n1"), worlds.group("g", 1, phase="Completed"), ended).objects)
    ((job, submission, seconds),) = ended_jobs(world)
    assert (job.key, submission.name, seconds) == ("ns/g", "g", 100.0)


def run(name: str, phase: str, started: float | None, ended: float | None) -> JobRun:
    fields = {"run_id": name, "job_uid": name, "namespace": "team", "job": name, "kind": "Job", "template": "t"}
    return JobRun(**fields, queue="q", submitted=0.0, started=started, ended=ended, phase=phase)


def test_history_is_taken_oldest_first() -> None:
    runs = [
        run("b", COMPLETED, 100.0, 400.0),
        run("a", COMPLETED, 10.0, 50.0),
        run("failed", FAILED, 10.0, 50.0),
        run("waits", COMPLETED, None, None),
    ]
    assert past_of(runs) == [(SubmittedJob(user="team", name="t"), 40.0), (SubmittedJob(user="team", name="t"), 300.0)]
