"""What a record of a job takes in: newer, older, its own writes, a job of the same name that replaced it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.api.volcano.batch import Job, JobStatus
from strato.api.volcano.scheduling import PodGroup
from strato.client.informer import Key
from strato.clock import VirtualClock
from strato.controllers.job.compiledspec import CompiledSpecs
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.controllers.job.status import written
from strato.controllers.job.statusplan import StatusPlanner
from tests.controllers.world import task, vcjob

Json = dict[str, Any]


def job(revision: int, uid: str = "a", phase: str = "", generation: int = 1, **more: Any) -> Job:
    made = vcjob("j", task(replicas=2))
    mine = {"namespace": "ns", "uid": uid, "resourceVersion": str(revision), "generation": generation}
    status = {"status": {"state": {"phase": phase}}} if phase else {}
    return msgspec.convert({**made, "metadata": {**made["metadata"], **mine, **more}, **status}, Job)


def record(*states: Job) -> JobRecord:
    made = JobRecord(Key("ns", "j"), CompiledSpecs())
    for state in states:
        made.set_job(state)
    return made


def shown(of: JobRecord) -> tuple[str, str, str]:
    assert of.job is not None
    return of.job.metadata.uid, of.job.metadata.resource_version, of.job.status.state.phase


TAKEN = [
    pytest.param(job(5), job(6, phase="Running"), True, ("a", "6", "Running"), id="a new phase"),
    pytest.param(job(5, phase="Running"), job(6, phase="Running"), False, ("a", "6", "Running"), id="the same phase"),
    pytest.param(
        job(5, phase="Running"), job(6, phase="Running", generation=2), True, ("a", "6", "Running"), id="a new spec"
    ),
    pytest.param(
        job(5), job(6, deletionTimestamp="2026-01-01T00:00:00Z"), True, ("a", "6", ""), id="it is being deleted"
    ),
    pytest.param(job(5, phase="Running"), job(4, phase="Pending"), False, ("a", "5", "Running"), id="an older state"),
    pytest.param(job(5, phase="Running"), job(5, phase="Pending"), False, ("a", "5", "Running"), id="the same state"),
    pytest.param(job(5, phase="Running"), job(6, uid="b"), True, ("b", "6", ""), id="another job of its name"),
    pytest.param(job(6, uid="b"), job(5, uid="a", phase="Running"), False, ("b", "6", ""), id="the job before it"),
]


@pytest.mark.parametrize(("known", "new", "news", "want"), TAKEN)
def test_what_is_newer_is_taken(known: Job, new: Job, news: bool, want: tuple[str, str, str]) -> None:
    made = record(known)
    assert made.set_job(new) is news
    assert shown(made) == want


def test_another_job_of_its_name_starts_from_nothing() -> None:
    made = record(job(5, phase="Running"))
    made.failures, made.recovered, made.group_warning, made.moving_to = 3, True, "x", "Completed"
    made.put_group(PodGroup())
    made.set_job(job(6, uid="b", phase="Completed"))
    assert (made.failures, made.recovered, made.group_warning, made.moving_to) == (0, False, "", None)
    assert made.group is None


def test_a_phase_that_we_are_writing_is_no_news() -> None:
    made = record(job(5, phase="Pending"))
    plan = writing(made, "Running")
    assert made.set_job(job(6, phase="Running")) is False
    assert made.set_job(job(7, phase="Failed")) is True
    answer(plan, None)
    assert made.set_job(job(8, phase="Running")) is True


MARKS = ("terminating", "out_of_sync")


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize(
    ("known", "new", "uid", "want"),
    [
        (False, False, "p", False),
        (True, False, "p", True),
        (False, True, "p", True),
        (True, True, "p", True),
        (True, False, "other", False),
    ],
)
def test_a_pod_keeps_its_marks_for_its_life(name: str, known: bool, new: bool, uid: str, want: bool) -> None:
    made = record(job(5))
    for revision, is_marked, of in ((1, known, "p"), (2, new, uid)):
        pod = PodState("j-w-0", "w", 0)
        pod.uid, pod.revision = of, revision
        setattr(pod, name, is_marked)
        assert made.put_pod(pod)
    (found,) = made.pods()
    assert [getattr(found, one) for one in MARKS] == [want if one == name else False for one in MARKS]


@pytest.mark.parametrize(("revision", "taken"), [(1, False), (2, True), (3, True)])
def test_an_older_state_of_a_pod_is_not_taken(revision: int, taken: bool) -> None:
    made = record(job(5))
    for at, phase in ((2, "Running"), (revision, "Succeeded")):
        pod = PodState("j-w-0", "w", 0)
        pod.uid, pod.revision, pod.phase = "p", at, phase
        answer = made.put_pod(pod)
    assert answer is taken
    assert made.counts().succeeded == int(taken)


OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
NOTES = {"volcano.sh/job-name": "j", "volcano.sh/task-spec": "w", "volcano.sh/job-version": "1"}


@pytest.mark.parametrize(
    ("owner", "notes", "is_ours"),
    [
        pytest.param({}, {}, True, id="of a job"),
        pytest.param({"apiVersion": "batch/v1"}, {}, False, id="of a Kubernetes job"),
        pytest.param({"kind": "JobFlow"}, {}, False, id="of another kind"),
        pytest.param({"controller": False}, {}, False, id="nobody controls it"),
        pytest.param({}, {"volcano.sh/job-name": None}, False, id="no job is named"),
        pytest.param({}, {"volcano.sh/task-spec": None}, False, id="no task is named"),
        pytest.param({}, {"volcano.sh/job-version": "one"}, False, id="a version that is no number"),
    ],
)
def test_which_pods_are_of_a_job(owner: dict[str, Any], notes: dict[str, str | None], is_ours: bool) -> None:
    annotations = {name: text for name, text in (NOTES | notes).items() if text is not None}
    metadata = {"name": "j-w-3", "uid": "p", "ownerReferences": [OWNER | owner], "annotations": annotations}
    state = PodState.from_view(msgspec.convert({"metadata": metadata}, Pod))
    assert (state is not None) is is_ours
    assert state is None or (state.task, state.index) == ("w", 3)


def writing(of: JobRecord, phase: str) -> Any:
    """Begin a write of a status; return the plan, whose call waits for its answer."""
    plan = StatusPlanner(VirtualClock(), bool).write(of, written({"state": {"phase": phase}, "running": 7}), ends=True)
    (call,) = next(plan)
    assert b'"/metadata/uid","value":"a"' in call.body
    return plan


@pytest.mark.parametrize(
    ("before", "after", "fresh", "pending", "goes_on"),
    [
        pytest.param("Pending", "Pending", False, 0, True, id="the same phase"),
        pytest.param("", "Running", True, 0, True, id="the first phase"),
        pytest.param("Pending", "Running", True, 0, True, id="it runs"),
        pytest.param("Pending", "Running", False, 0, False, id="its plugins have something to do"),
        pytest.param("Pending", "Running", True, 2, False, id="it falls back to Pending"),
        pytest.param("Pending", "Failed", True, 0, False, id="it ends"),
        pytest.param("Pending", "Restarting", True, 0, False, id="it restarts"),
        pytest.param("Restarting", "Running", True, 0, False, id="it runs after a restart"),
    ],
)
@pytest.mark.parametrize("ends", [False, True])
def test_after_a_new_phase_the_job_is_synced_again_unless_nothing_follows(
    before: str, after: str, fresh: bool, pending: int, goes_on: bool, ends: bool
) -> None:
    made = record(job(5, phase=before))
    made.plugins_fresh = fresh
    for number in range(pending):
        pod = PodState(f"j-w-{number}", "w", number)
        pod.uid = str(number)
        made.put_pod(pod)
    made.schedule.dirty = False
    status = written({"state": {"phase": after}})
    plan = StatusPlanner(VirtualClock(), bool).write(made, status, ends=ends)
    next(plan)
    known = made.job
    assert known is not None
    state = msgspec.structs.replace(known.status.state, phase=after)
    made.set_job(msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, state=state)))
    answer(plan, made.job)
    assert made.schedule.dirty is not (ends or goes_on)


def answer(plan: Any, value: Any) -> None:
    with pytest.raises(StopIteration):
        plan.send((value,))


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed"])
def test_a_job_that_was_replaced_during_its_status_write_keeps_the_status_it_has(phase: str) -> None:
    made = record(job(5, phase="Pending"))
    plan = writing(made, phase)
    made.set_job(job(9, uid="b", phase="Restarting"))
    answer(plan, job(6, phase=phase))
    assert shown(made) == ("b", "9", "Restarting")
    assert made.job is not None
    assert made.job.status.running == 0


@pytest.mark.parametrize("phase", ["Aborting", "Restarting", "Completing", "Failed"])
def test_an_older_state_does_not_undo_a_phase_that_was_written(phase: str) -> None:
    made = record(job(5, phase="Pending"))
    answer(writing(made, phase), job(7, phase=phase))
    assert not made.set_job(job(6, phase="Pending"))
    assert shown(made) == ("a", "7", phase)


def test_the_status_of_a_job_without_one_is_not_that_of_the_job_that_replaced_it() -> None:
    made = record(job(5))
    plan = writing(made, "")
    made.set_job(job(9, uid="b"))
    answer(plan, None)
    assert made.job is not None
    assert (made.job.metadata.uid, made.job.status.running) == ("b", 0)


def test_what_was_written_is_known_unless_something_newer_is() -> None:
    made = record(job(5, phase="Pending"))
    answer(writing(made, "Running"), None)
    assert made.job is not None
    assert (made.job.status.state.phase, made.job.status.running) == ("Running", 7)
    plan = writing(made, "Running")
    made.set_job(job(8, phase="Running"))
    answer(plan, None)
    assert made.job.status.running == 0


def test_a_status_that_began_here_stays_until_the_server_has_one() -> None:
    made = record(job(5))
    made.begin_status(JobStatus(running=3))
    made.set_job(job(6))
    assert made.job is not None
    assert (made.job.status.running, made.is_unwritten) == (3, True)
    made.set_job(job(7, phase="Pending"))
    assert (made.job.status.running, made.is_unwritten) == (0, False)
