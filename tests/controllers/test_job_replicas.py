"""Plans that make and delete a job's pods: what each answer leaves in the record, and which ones are failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.client.cluster import Created
from strato.client.informer import Key
from strato.controllers.job import terms
from strato.controllers.job.bodies import PodBody
from strato.controllers.job.calls import Call, Create, Delete, Get, Plan, Set
from strato.controllers.job.compiledspec import CompiledSpecs
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.controllers.job.replicas import NameTaken, _create, delete_pods, kill_pods
from strato.errors import AlreadyExists, Conflict, Forbidden, NotFound
from tests.controllers.test_job_record import job

BODIES = [PodBody(f"j-w-{number}", number, "", b"{}") for number in range(3)]


def record(*pods: PodState) -> JobRecord:
    made = JobRecord(Key("ns", "j"), CompiledSpecs())
    made.set_job(job(5))
    for pod in pods:
        made.put_pod(pod)
    return made


def state(number: int, uid: str = "", *, out_of_sync: bool = False) -> PodState:
    made = PodState(f"j-w-{number}", "w", number)
    made.uid, made.out_of_sync = uid or f"u{number}", out_of_sync
    return made


def pod(number: int, uid: str = "", *, of_job: str = "j", kind: str = "Job") -> Pod:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "name": of_job, "uid": "a", "controller": True}
    annotations = {terms.JOB_NAME: of_job, terms.TASK_SPEC: "w", terms.JOB_VERSION: "0"}
    metadata = {
        "name": f"j-w-{number}",
        "uid": uid or f"u{number}",
        "resourceVersion": "7",
        "ownerReferences": [owner],
        "annotations": annotations,
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def carry_out(plan: Plan[Any], *rounds: Sequence[Any]) -> tuple[list[Sequence[Call]], Any]:
    """Answer the rounds of a plan; return what it asked for in each, and what it returned."""
    asked, answers = [next(plan)], list(rounds)
    while True:
        given = answers.pop(0)
        for call, answer in zip(asked[-1], given, strict=True):
            if isinstance(call, Create) and call.on_answer is not None:
                call.on_answer(answer)
        try:
            asked.append(plan.send(given))
        except StopIteration as end:
            assert not answers
            return asked, end.value


def known(of: JobRecord) -> dict[str, str]:
    return {one.name: one.uid for one in of.pods()}


FAILED = Forbidden("no")
MISSING = NotFound("gone")
MADE = [
    pytest.param([pod(1)], {"j-w-0": "u0", "j-w-1": "u1", "j-w-2": "u2"}, [], id="the job's own is used"),
    pytest.param([pod(1, of_job="k")], {"j-w-0": "u0", "j-w-2": "u2"}, [NameTaken], id="another job's"),
    pytest.param([pod(1, kind="Other")], {"j-w-0": "u0", "j-w-2": "u2"}, [NameTaken], id="a pod of no job"),
    pytest.param([MISSING], {"j-w-0": "u0", "j-w-2": "u2"}, [NotFound], id="it has gone since"),
]


@pytest.mark.parametrize(("present", "want", "failures"), MADE)
def test_a_pod_whose_name_is_taken_is_looked_at(
    present: list[Any], want: dict[str, str], failures: list[type[Exception]]
) -> None:
    made = record()
    answers = [Created("u0", "1"), AlreadyExists("j-w-1"), Created("u2", "1")]
    asked, found = carry_out(_create(made, job(5), "w", iter(BODIES)), answers, present)
    assert asked[1] == [Get(Pod, "ns", "j-w-1")]
    assert [type(one) for one in found] == failures
    assert known(made) == want


def test_what_cannot_be_made_is_a_failure_and_the_others_are_there() -> None:
    made = record()
    answers = [FAILED, Created("u1", "1"), FAILED]
    asked, found = carry_out(_create(made, job(5), "w", iter(BODIES)), answers)
    assert (len(asked), found, known(made)) == (1, [FAILED, FAILED], {"j-w-1": "u1"})


def test_pods_of_a_job_that_was_replaced_meanwhile_are_not_its_successor_s() -> None:
    made = record()
    plan = _create(made, job(5), "w", iter(BODIES[:1]))
    (call,) = next(plan)
    made.set_job(job(9, uid="b"))
    assert isinstance(call, Create)
    assert call.on_answer is not None
    call.on_answer(Created("u0", "1"))
    assert known(made) == {}


DELETED = [
    pytest.param([None, None], None, {0: True, 1: True}, [], id="both"),
    pytest.param([None, MISSING], None, {0: True}, [], id="one of two has gone"),
    pytest.param([FAILED, None], None, {0: False, 1: True}, [Forbidden], id="one of two is refused"),
    pytest.param([Conflict("x"), None], [MISSING], {1: True}, [], id="a conflict with nobody"),
    pytest.param([Conflict("x"), None], [pod(0, "new")], {1: True}, [], id="a conflict with another pod"),
    pytest.param([Conflict("x"), None], [pod(0)], {0: False, 1: True}, [Conflict], id="a conflict with a write"),
    pytest.param([Conflict("x"), None], [FAILED], {0: False, 1: True}, [Forbidden], id="a conflict unread"),
    pytest.param(
        [Conflict("x"), Conflict("y")], [pod(0), MISSING], {0: False}, [Conflict], id="two conflicts of two causes"
    ),
]


@pytest.mark.parametrize(("answers", "reads", "want", "failures"), DELETED)
def test_what_a_delete_leaves(
    answers: list[Any], reads: list[Any] | None, want: dict[int, bool], failures: list[type[Exception]]
) -> None:
    pods = [state(0), state(1)]
    made = record(*pods)
    rounds = [answers] if reads is None else [answers, reads]
    asked, found = carry_out(delete_pods(made, pods), *rounds)
    assert asked[0] == [Delete(Pod, "ns", f"j-w-{number}", f"u{number}") for number in range(2)]
    assert [type(one) for one in found] == failures
    assert {one.index: one.terminating for one in made.pods()} == want


def test_a_kill_marks_first_and_deletes_only_what_is_marked() -> None:
    pods = [state(0), state(1, out_of_sync=True), state(2), state(3)]
    made = record(*pods)
    asked, found = carry_out(kill_pods(made, pods), [None, FAILED, MISSING], [None, None])
    assert all(isinstance(call, Set) for call in asked[0])
    marks = [(call.name, call.body) for call in asked[0] if isinstance(call, Set)]
    assert marks == [
        (f"j-w-{number}", {"metadata": {"uid": f"u{number}", "annotations": {terms.OUT_OF_SYNC: "true"}}})
        for number in (0, 2, 3)
    ]
    assert [call.name for call in asked[1] if isinstance(call, Delete)] == ["j-w-1", "j-w-0"]
    assert found == [FAILED]
    assert {one.index: (one.out_of_sync, one.terminating) for one in made.pods()} == {
        0: (True, True), 1: (True, True), 2: (False, False)
    }  # fmt: skip
