"""What is remembered of jobs and pods that went: nothing, once their rows are written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.api.metrics import PodMetrics, amounts
from strato.history.jobs import JobFacts
from strato.history.rows import ABORTED, JobRun, PodContainer
from strato.history.tracker import Tracker

NOON = 1_700_000_000.0


def facts(uid: str = "j", attempt: int = 0) -> JobFacts:
    return JobFacts(
        uid=uid,
        namespace="ns",
        name="train",
        kind="Job",
        template="train",
        queue="default",
        attempt=attempt,
        submitted=NOON,
        min_available=1,
        phase="",
        ended=None,
    )


def pod(name: str, job: str = "j", phase: str = "Running") -> Pod:
    owner = {"apiVersion": "v1", "kind": "Job", "name": "train", "uid": job, "controller": True}
    running = {"running": {"startedAt": "2023-11-14T22:13:20Z"}}
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner]},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": running}]},
    }
    return msgspec.convert(body, Pod)


def metrics(cpu: str) -> PodMetrics:
    return msgspec.convert({"containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}]}, PodMetrics)


def remembered(tracker: Tracker) -> int:
    """Return how many things a tracker remembers of anything."""
    return sum(len(held) for held in vars(tracker).values())


def test_nothing_is_remembered_of_jobs_and_pods_that_went() -> None:
    tracker = Tracker()
    for number in range(3):
        tracker.see_job(facts("j", attempt=number), NOON)
        for name in (f"a{number}", f"b{number}"):
            tracker.see_pod(pod(name), is_gone=False, now=NOON)
            tracker.see_pod(pod(name), is_gone=True, now=NOON + 5)
    tracker.take_rows()
    tracker.forget_job("j", NOON + 9)
    tracker.take_rows()
    assert remembered(tracker) == 0


def test_the_replicas_of_a_job_that_is_gone_have_ended() -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    tracker.see_pod(pod("a"), is_gone=False, now=NOON)
    tracker.take_rows()
    tracker.forget_job("j", NOON + 60)
    rows = {type(row): row for row in tracker.take_rows()}
    run, replica = rows[JobRun], rows[PodContainer]
    assert isinstance(run, JobRun)
    assert isinstance(replica, PodContainer)
    assert (run.phase, run.ended, replica.ended) == (ABORTED, NOON + 60, NOON + 60)
    tracker.see_pod(pod("a"), is_gone=True, now=NOON + 70)
    assert tracker.take_rows() == []
    assert remembered(tracker) == 0


def test_an_ended_replica_is_recorded_once_while_its_pod_is_still_there() -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    tracker.see_pod(pod("a"), is_gone=False, now=NOON)
    tracker.see_pod(pod("a", phase="Succeeded"), is_gone=False, now=NOON + 10)
    assert [row.ended for row in tracker.take_rows() if isinstance(row, PodContainer)] == [NOON + 10]
    tracker.see_pod(pod("a", phase="Succeeded"), is_gone=False, now=NOON + 20)
    tracker.see_pod(pod("a", phase="Succeeded"), is_gone=True, now=NOON + 30)
    assert not [row for row in tracker.take_rows() if isinstance(row, PodContainer)]


def test_a_measurement_that_cannot_be_read_is_none() -> None:
    """It is not a use of zero, which would lower the advice."""
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    tracker.see_pod(pod("a"), is_gone=False, now=NOON)
    for minute in range(10):
        tracker.sample([(pod("a"), metrics("x" if minute % 2 else "2"))], 60.0, NOON + 600 + 60 * minute)
    tracker.save_all(NOON + 2000)
    (replica,) = [row for row in tracker.take_rows() if isinstance(row, PodContainer)]
    assert (sum(replica.cpu_samples.values()), replica.cpu_core_s) == (5, 5 * 2 * 60.0)


@pytest.mark.parametrize(
    ("annotation", "counted"),
    [
        pytest.param("", True, id="none"),
        pytest.param('{"c":{"id":"x"}}', False, id="this container"),
        pytest.param('{"cc":{"id":"c"}}', True, id="another whose name holds this one's"),
        pytest.param('{"c"', True, id="no JSON"),
        pytest.param("[" * 60_000, True, id="deep"),
        pytest.param('{"c":' + "[" * 60_000, True, id="deep below a container"),
    ],
)
def test_what_a_suppressed_container_uses_does_not_count(annotation: str, counted: bool) -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    one = pod("a")
    marked = msgspec.structs.replace(one.metadata, annotations={"strato.io/suppressed": annotation})
    one = msgspec.structs.replace(one, metadata=marked)
    tracker.see_pod(one, is_gone=False, now=NOON)
    tracker.sample([(one, metrics("2"))], 60.0, NOON + 600)
    tracker.save_all(NOON + 700)
    (replica,) = [row for row in tracker.take_rows() if isinstance(row, PodContainer)]
    assert bool(replica.cpu_samples) is counted


@pytest.mark.parametrize(
    ("usage", "want"),
    [
        pytest.param({"cpu": "1500m", "memory": "2Mi"}, (1.5, float(2 << 20)), id="both"),
        pytest.param({}, (0.0, 0.0), id="neither is said"),
        pytest.param({"cpu": "x"}, None, id="no quantity"),
        pytest.param({"cpu": "1", "memory": ""}, None, id="an empty one"),
    ],
)
def test_amounts(usage: dict[str, str], want: tuple[float, float] | None) -> None:
    assert amounts(usage) == want


def test_a_pod_is_bound_when_its_condition_says() -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:25Z"}
    one = pod("a")
    one = msgspec.structs.replace(
        one, status=msgspec.convert({**msgspec.to_builtins(one.status), "conditions": [said]}, type(one.status))
    )
    tracker.see_pod(one, is_gone=False, now=NOON + 60)
    (replica,) = [row for row in tracker.take_rows() if isinstance(row, PodContainer)]
    assert replica.bound == NOON + 5


def test_the_use_of_a_live_replica_is_saved_often_at_first_and_then_every_half_hour() -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    tracker.see_pod(pod("a"), is_gone=False, now=NOON)
    saved = []
    for step in range(1, 241):
        tracker.sample([(pod("a"), metrics("2"))], 30.0, NOON + 30 * step)
        rows = [row for row in tracker.take_rows() if isinstance(row, PodContainer)]
        saved += [(step / 2, sum(row.cpu_samples.values())) for row in rows]
    early = [(0.5, 0), (1, 1), (1.5, 2), (2.5, 4), (4.5, 8), (8.5, 16)]  # its first minute says nothing of its cpu
    assert saved == [*early, (38.5, 76), (68.5, 136), (98.5, 196)]


def test_an_ended_run_stays_as_it_ended() -> None:
    tracker = Tracker()
    tracker.see_job(facts(), NOON)
    tracker.see_job(facts()._replace(phase="Completed", ended=NOON + 50), NOON + 60)
    tracker.see_job(facts()._replace(phase="Failed", ended=NOON + 90), NOON + 90)
    tracker.see_job(facts(), NOON + 100)
    (run,) = tracker.take_rows()
    assert isinstance(run, JobRun)
    assert (run.phase, run.ended) == ("Completed", NOON + 50)


def test_pods_of_a_train_job_are_those_of_its_jobs() -> None:
    tracker = Tracker()
    tracker.see_job(facts("t"), NOON)
    labels = {
        "jobset.sigs.k8s.io/jobset-uid": "t",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "batch.kubernetes.io/job-completion-index": "3",
    }
    own = pod("p", job="of-a-job")
    tracker.see_pod(
        msgspec.structs.replace(own, metadata=msgspec.structs.replace(own.metadata, labels=labels)),
        is_gone=False,
        now=NOON,
    )
    tracker.save_all(NOON + 60)
    (replica,) = (row for row in tracker.take_rows() if isinstance(row, PodContainer))
    assert (replica.role, replica.index) == ("node", "3")


def test_rows_that_could_not_be_written_come_again_with_newer_ones_in_their_place() -> None:
    tracker = Tracker()
    tracker.see_job(facts("kept"), NOON)
    tracker.see_job(facts("j"), NOON)
    rows = tracker.take_rows()
    tracker.see_job(facts("j")._replace(phase="Completed", ended=NOON + 50), NOON + 60)
    tracker.see_job(facts("new"), NOON + 60)
    tracker.put_back(rows)
    again = [(row.job_uid, row.ended) for row in tracker.take_rows() if isinstance(row, JobRun)]
    assert again == [("kept", None), ("j", NOON + 50), ("new", None)]
