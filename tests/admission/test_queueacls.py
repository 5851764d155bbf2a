"""Access lists of queues: who submits, who acts on others' work, and that no kind of workload is a way around."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from strato.admission import AdmissionRequest, Chain, ChainOptions
from strato.admission.queueacls import KINDS, queues_of
from strato.api import catalog, queueacls
from strato.api.kinds import Kind
from strato.api.queueacls import ADMINISTER, SUBMIT, SUBMITTED_BY
from strato.api.volcano.scheduling import QUEUE_ANNOTATION
from strato.api.wire import User, service_account
from strato.errors import Forbidden
from tests.admission.reader import FakeWorld
from tests.admission.rules import TEMPLATE, job, task

Json = dict[str, Any]

ALICE = User("alice", ("system:authenticated",))
BOB = User("bob", ("research", "system:authenticated"))
EVE = User("eve", ("system:authenticated",))
ADMIN = User("admin", ("system:masters",))
CONTROLLER = service_account("kube-system", "replicaset-controller")


def world(**lists: str) -> FakeWorld:
    """Return queues, ``team`` above ``gpu``, with lists by ``QUEUE_submit`` and ``QUEUE_administer``."""
    made = FakeWorld().add(catalog.NAMESPACE, "default")
    for name, parent in (("root", ""), ("default", "root"), ("team", "root"), ("gpu", "team"), ("other", "root")):
        keys = {f"{name}_submit": SUBMIT, f"{name}_administer": ADMINISTER}
        annotations = {keys[key]: text for key, text in lists.items() if key in keys}
        metadata = {"name": name, "annotations": annotations}
        made.add(catalog.QUEUE, name, metadata=metadata, spec={"parent": parent}, status={"state": "Open"})
    return made


def write(
    kind: Kind, obj: Json | None, user: User, reader: FakeWorld, *, old: Json | None = None, name: str = "x"
) -> Json:
    operation = "DELETE" if obj is None else "UPDATE" if old is not None else "CREATE"
    request = AdmissionRequest(
        operation, kind, "default" if kind.namespaced else "", name, copy.deepcopy(obj), old, user
    )
    return Chain(ChainOptions()).admit(request, reader)


def vcjob(queue: str, by: str = "", **spec: Any) -> Json:
    made = job(task(), queue=queue, minAvailable=1, **spec)
    if by:
        made["metadata"]["annotations"] = {SUBMITTED_BY: by}
    return made


@pytest.mark.parametrize(
    ("lists", "user", "admitted"),
    [
        ({}, EVE, True),
        ({"gpu_submit": "alice,carol"}, ALICE, True),
        ({"gpu_submit": "alice,carol"}, EVE, False),
        ({"gpu_submit": " research,ops"}, BOB, True),
        ({"gpu_submit": "alice research"}, EVE, False),
        ({"gpu_submit": "*"}, EVE, True),
        ({"gpu_submit": " "}, ALICE, False),
        ({"gpu_submit": ""}, ALICE, False),
        ({"gpu_submit": " ", "team_submit": "alice"}, ALICE, True),
        ({"gpu_submit": " ", "root_submit": "*"}, EVE, True),
        ({"team_submit": "alice"}, EVE, False),
        ({"other_submit": "alice"}, EVE, True),
        ({"gpu_submit": " ", "gpu_administer": "alice"}, ALICE, True),
        ({"gpu_administer": "alice"}, EVE, True),
        ({"gpu_submit": " "}, ADMIN, True),
        ({"gpu_submit": " "}, CONTROLLER, True),
        ({"gpu_submit": " "}, service_account("default", "builder"), False),
        ({"gpu_submit": "system:serviceaccount:default:builder"}, service_account("default", "builder"), True),
    ],
)
def test_who_may_submit(lists: dict[str, str], user: User, admitted: bool) -> None:
    reader = world(**lists)
    if admitted:
        write(catalog.VCJOB, vcjob("gpu"), user, reader)
    else:
        with pytest.raises(Forbidden, match=f"queue gpu: user {user.name} .*may not submit to it"):
            write(catalog.VCJOB, vcjob("gpu"), user, reader)


def test_a_refusal_says_which_lists_were_asked() -> None:
    with pytest.raises(Forbidden) as refused:
        write(catalog.VCJOB, vcjob("gpu"), EVE, world(gpu_submit="alice", team_submit=" ops"))
    assert str(refused.value) == (
        "queue gpu: user eve (groups: system:authenticated) may not submit to it; named are only those of "
        "strato.dev/acl-submit of queue gpu, strato.dev/acl-submit of queue team; ask an administrator of the queue"
    )


_POD_TEMPLATE = {"metadata": {"annotations": {QUEUE_ANNOTATION: "gpu"}}, **TEMPLATE}
WAYS: dict[Kind, Json] = {
    catalog.VCJOB: {"spec": {"queue": "gpu"}},
    catalog.VCCRONJOB: {"spec": {"jobTemplate": {"spec": {"queue": "gpu"}}}},
    catalog.JOBTEMPLATE: {"spec": {"queue": "gpu"}},
    catalog.JOBFLOW: {"spec": {"flows": [{"name": "theirs"}]}},
    catalog.PODGROUP: {"spec": {"queue": "gpu"}},
    catalog.POD: {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "their-gang"}}},
    catalog.TRAINJOB: {"spec": {"runtimePatches": [{"trainingRuntimeSpec": {"template": _POD_TEMPLATE}}]}},
    catalog.CRONJOB: {"spec": {"jobTemplate": {"spec": {"template": _POD_TEMPLATE}}}},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.name}")
def test_every_kind_names_its_queue(kind: Kind) -> None:
    """A member, a template's annotation, a template of a flow, the group that a pod joins: none is a way around."""
    reader = world().add(catalog.JOBTEMPLATE, "theirs", "default", spec={"queue": "gpu"})
    reader.add(catalog.PODGROUP, "their-gang", "default", spec={"queue": "gpu"})
    training = kind not in WAYS and kind.group == "kubeflow.org"
    policy = {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "gpu"}}}}
    obj: Json = copy.deepcopy(WAYS.get(kind) or (policy if training else {"spec": {"template": _POD_TEMPLATE}}))
    obj["metadata"] = {"name": "x", "namespace": "default", **obj.get("metadata", {})}
    assert "gpu" in queues_of(kind, obj, reader)
    if kind is catalog.POD:
        obj["metadata"]["annotations"] = {"scheduling.volcano.sh/group-name": "their-gang"}
        assert queues_of(kind, obj, reader) == ("gpu",)


def test_the_submitter_is_noted_and_stays() -> None:
    reader = world(gpu_submit="alice,bob")
    made = write(catalog.VCJOB, vcjob("gpu", by="bob"), ALICE, reader)
    assert made["metadata"]["annotations"][SUBMITTED_BY] == "alice"
    changed = copy.deepcopy(made)
    changed["metadata"]["annotations"][SUBMITTED_BY] = "eve"
    assert write(catalog.VCJOB, changed, BOB, reader, old=made)["metadata"]["annotations"][SUBMITTED_BY] == "alice"


def test_nobody_is_noted_where_there_is_no_list() -> None:
    made = write(catalog.VCJOB, vcjob("other", by="bob"), ALICE, world(gpu_submit="alice"))
    assert SUBMITTED_BY not in made["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("user", "admitted"), [(ALICE, True), (BOB, True), (EVE, False), (ADMIN, True), (CONTROLLER, True)]
)
def test_who_may_delete_what_alice_submitted(user: User, admitted: bool) -> None:
    reader = world(gpu_administer=" research", gpu_submit="*")
    reader.add(catalog.REPLICASET, "rs", "default", metadata={"name": "rs", "annotations": {SUBMITTED_BY: "alice"}})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    pod = {"metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner]}}
    pod["metadata"]["annotations"] = {QUEUE_ANNOTATION: "gpu"}
    for kind, old in ((catalog.VCJOB, vcjob("gpu", by="alice")), (catalog.POD, pod)):
        if admitted:
            write(kind, None, user, reader, old=old)
        else:
            with pytest.raises(Forbidden, match="may not change or delete what others submitted to it"):
                write(kind, None, user, reader, old=old)


def test_work_does_not_move_into_a_queue_with_a_list() -> None:
    reader, old = world(gpu_submit="alice"), vcjob("other")
    group = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"queue": "other"}}
    moved = copy.deepcopy(group)
    moved["spec"]["queue"] = "gpu"
    with pytest.raises(Forbidden, match="may not submit"):
        write(catalog.PODGROUP, moved, EVE, reader, old=group)
    write(catalog.VCJOB, {**old, "metadata": {"name": "x", "labels": {"a": "b"}}}, EVE, reader, old=old)


@pytest.mark.parametrize(
    ("obj", "old", "refused"),
    [
        ({"spec": {"parent": "team", "weight": 2}}, None, "queue team"),
        ({"spec": {"parent": "root", "weight": 2}}, None, ""),
        ({"spec": {"parent": "team", "weight": 9}}, {"spec": {"parent": "team", "weight": 1}}, "queue gpu"),
        (None, {"spec": {"parent": "team"}}, "queue gpu"),
        ({"spec": {"parent": "team"}}, {"spec": {"parent": "other"}}, "queue gpu"),
    ],
)
def test_who_may_change_queues(obj: Json | None, old: Json | None, refused: str) -> None:
    for one in (obj, old):
        if one is not None:
            one["metadata"] = {"name": "gpu"}
    reader = world(team_administer="alice")
    if old is not None and old["spec"]["parent"] == "other":
        reader = world(team_administer="alice", other_administer="alice")
    write(catalog.QUEUE, obj, ALICE, reader, old=old, name="gpu")
    if refused:
        with pytest.raises(Forbidden, match=f"{refused}: user eve .*may not change it"):
            write(catalog.QUEUE, obj, EVE, reader, old=old, name="gpu")
    else:
        write(catalog.QUEUE, obj, EVE, reader, old=old, name="gpu")


@pytest.mark.parametrize("target", [("Queue", "gpu"), ("Job", "x")])
def test_who_may_send_commands(target: tuple[str, str]) -> None:
    reader = world(team_administer="bob").add(catalog.VCJOB, "x", "default", **vcjob("gpu", by="alice"))
    command = {"metadata": {"name": "c"}, "action": "CloseQueue", "target": {"kind": target[0], "name": target[1]}}
    write(catalog.COMMAND, command, BOB, reader)
    with pytest.raises(Forbidden, match="user eve"):
        write(catalog.COMMAND, command, EVE, reader)
    if target[0] == "Job":
        write(catalog.COMMAND, command, ALICE, reader)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alice,bob research", ""),
        ("*", ""),
        ("", ""),
        ("alice,*", "beside others"),
        ("alice research ops", "more than two parts"),
        ("alice\tbob", "control characters"),
        ("x" * 65_537, "at most 65536"),
    ],
)
def test_lists_that_are_none_are_refused(text: str, said: str) -> None:
    assert (said in queueacls.problem(text)) if said else not queueacls.problem(text)
    queue = {"metadata": {"name": "gpu", "annotations": {SUBMIT: text, ADMINISTER: text}}, "spec": {"parent": "team"}}
    if not said:
        write(catalog.QUEUE, queue, ADMIN, world(), name="gpu")
        return
    with pytest.raises(Forbidden) as refused:
        write(catalog.QUEUE, queue, ADMIN, world(), name="gpu")
    assert str(refused.value).count(said) == 2, "all problems at once"


def test_owners_in_a_circle_end() -> None:
    reader = world(gpu_administer="bob")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    metadata = {"name": "rs", "namespace": "default", "ownerReferences": [owner]}
    metadata["annotations"] = {QUEUE_ANNOTATION: "gpu"}
    reader.add(catalog.REPLICASET, "rs", "default", metadata=metadata)
    with pytest.raises(Forbidden):
        write(catalog.REPLICASET, None, EVE, reader, old={"metadata": metadata})
