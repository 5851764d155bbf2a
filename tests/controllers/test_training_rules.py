"""The rules of training jobs one by one: what counts, what is replaced, which queue, who decides, what is told once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import BY_KIND, FRAMEWORKS, Framework, JobShape
from strato.api.kinds import Kind
from strato.api.kubeflow import ReplicaStatus, TFJob, TrainingJob, TrainingJobStatus
from strato.api.meta import Object, ObjectMeta
from strato.api.trainer import TrainJob
from strato.api.volcano.scheduling import PodGroup
from strato.client.events import EventRecorder
from strato.clock import VirtualClock, run_virtual
from strato.controllers.training import labels
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.companions import CompanionOfOthers, Companions
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.foreign import LOOK_SECONDS, ForeignOperator
from strato.controllers.training.gang import desired
from strato.controllers.training.plan import plan
from strato.controllers.training.record import Companion, Gang, TrainingRecord
from strato.controllers.training.replicas import counted, remembered, replace_failed, slots_of
from strato.controllers.training.telemetry import TrainingMetrics
from strato.controllers.training.trainer.plan import Restarts, TrainJobRecord, _Draft
from strato.controllers.training.verdicts import Evidence, collective, tensorflow
from strato.metrics import Registry
from tests.controllers.world import World

Json = dict[str, Any]
TF: Framework = next(one for one in FRAMEWORKS if one.kind is catalog.TFJOB)


def training(replicas: int = 2, policy: str = "ExitCode", **spec: Any) -> tuple[TFJob, JobShape]:
    worker = {"replicas": replicas, "restartPolicy": policy, "template": {"spec": {"containers": []}}}
    annotations = spec.pop("annotations", {})
    metadata = {"name": "j", "namespace": "ns", "uid": "u", "annotations": annotations}
    made = msgspec.convert({"metadata": metadata, "spec": {"tfReplicaSpecs": {"Worker": worker}, **spec}}, TFJob)
    return made, JobShape.of(TF, made)


def pod(index: int, phase: str, *, code: int | None = None, uid: str = "", going: bool = False) -> Pod:
    state = {"terminated": {"exitCode": code}} if code is not None else {}
    metadata = {
        "name": f"j-worker-{index}",
        "uid": uid or f"p{index}",
        "labels": {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(index)},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}),
    }
    status = {"phase": phase, "containerStatuses": [{"name": "tensorflow", "state": state}]}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def counts(active: int = 0, succeeded: int = 0, failed: int = 0) -> ReplicaStatus:
    return ReplicaStatus(active=active, succeeded=succeeded, failed=failed)


COUNTED = [
    pytest.param([], counts(), id="no pods"),
    pytest.param([pod(0, "Pending")], counts(), id="one that has not begun"),
    pytest.param([pod(0, "Running"), pod(1, "Running")], counts(active=2), id="two run"),
    pytest.param([pod(0, "Running", going=True)], counts(failed=1), id="one that runs and goes"),
    pytest.param([pod(0, "Running", uid="gone"), pod(1, "Running")], counts(1, failed=1), id="one was just deleted"),
    pytest.param([pod(0, "Pending", going=True)], counts(), id="one that goes before it began"),
    pytest.param([pod(0, "Succeeded", going=True)], counts(succeeded=1), id="one that goes after its success"),
    pytest.param([pod(0, "Failed"), pod(0, "Running", uid="new")], counts(1, failed=1), id="two of one index"),
]


@pytest.mark.parametrize(("pods", "want"), COUNTED)
def test_pods_are_counted_by_phase_and_what_goes_as_failed(pods: list[Pod], want: ReplicaStatus) -> None:
    _, shape = training()
    assert counted(slots_of(pods, shape, "Worker"), {"gone"}) == want


def test_what_has_succeeded_is_remembered_below_the_replicas_there_are() -> None:
    _, shape = training()
    slots = slots_of([pod(0, "Succeeded"), pod(1, "Running"), pod(3, "Succeeded")], shape, "Worker")
    old = ReplicaStatus(succeeded_indexes=(2, 4))
    assert remembered(old, slots, 4) == (0, 2, 3)
    assert remembered(old, slots, 3) == (0, 2)
    assert remembered(ReplicaStatus(), {}, 3) == ()


REPLACED = [
    pytest.param("ExitCode", pod(0, "Failed", code=1), False, True, id="a code of the program"),
    pytest.param("ExitCode", pod(0, "Failed", code=127), False, True, id="the last code of a program"),
    pytest.param("ExitCode", pod(0, "Failed", code=128), True, False, id="the first of a signal"),
    pytest.param("ExitCode", pod(0, "Failed"), True, False, id="no code"),
    pytest.param("OnFailure", pod(0, "Failed", code=1), True, False, id="whatever the code"),
    pytest.param("Always", pod(0, "Failed", code=1), True, False, id="always"),
    pytest.param("Never", pod(0, "Failed", code=137), False, False, id="never"),
    pytest.param("Always", pod(0, "Running"), False, False, id="it has not failed"),
    pytest.param("Always", pod(0, "Succeeded", code=0), False, False, id="it has succeeded"),
]


@pytest.mark.parametrize(("policy", "one", "replaced", "failed"), REPLACED)
def test_which_pods_are_replaced(policy: str, one: Pod, replaced: bool, failed: bool) -> None:
    job, shape = training(policy=policy)
    draft = StatusDraft(shape, job, 0.0)
    for _ in range(2):  # its deletion takes a while
        assert list(replace_failed(draft, "Worker", slots_of([one], shape, "Worker"))) == [one] * replaced
    assert (draft.replaced.count, draft.replaced.uids) == ((1, ("p0",)) if replaced else (0, ()))
    assert draft.conditions.holds("Failed") is failed
    assert [(event.type, event.reason) for event in draft.events] == (
        [("Warning", "TFJobRestarting")] if replaced else [("Warning", "TFJobFailed")] if failed else []
    )


def test_each_failed_pod_is_counted_once() -> None:
    job, shape = training(policy="Always")
    draft = StatusDraft(shape, job, 0.0)
    for pods in ([pod(0, "Failed")], [pod(0, "Failed"), pod(1, "Failed")], [pod(0, "Failed", uid="again")]):
        assert list(replace_failed(draft, "Worker", slots_of(pods, shape, "Worker"))) == pods
    assert (draft.replaced.count, draft.replaced.uids) == (3, ("p0", "p1", "again"))


ASKED, SCHEDULED = {"scheduling.volcano.sh/queue-name": "asked"}, {"schedulingPolicy": {"queue": "policy"}}
QUEUES = [
    pytest.param({}, None, "default", id="nothing is said"),
    pytest.param({"annotations": ASKED}, None, "asked", id="an annotation"),
    pytest.param({"runPolicy": SCHEDULED, "annotations": ASKED}, None, "policy", id="the policy comes first"),
    pytest.param({"runPolicy": {"schedulingPolicy": {}}, "annotations": ASKED}, None, "asked", id="an empty policy"),
    pytest.param({"runPolicy": SCHEDULED}, "kept", "kept", id="the group has one"),
    pytest.param({"runPolicy": SCHEDULED}, "", "policy", id="the group has none"),
]


@pytest.mark.parametrize(("spec", "present", "want"), QUEUES)
def test_the_queue_of_a_training(spec: Json, present: str | None, want: str) -> None:
    job, shape = training(**spec)
    group = None if present is None else msgspec.convert({"spec": {"queue": present}}, PodGroup)
    assert desired(shape, job, group, lambda _: 0).queue == want


@pytest.mark.parametrize(
    ("least", "done", "want"),
    [(None, {}, 3), (2, {}, 2), (2, {"Worker": 1}, 1), (None, {"Worker": 3}, 1), (0, {}, 0), (0, {"Worker": 1}, 0)],
)
def test_the_least_members_of_a_training(least: int | None, done: dict[str, int], want: int) -> None:
    policy: Json = {} if least is None else {"runPolicy": {"schedulingPolicy": {"minAvailable": least}}}
    job, shape = training(replicas=3, **policy)
    assert desired(shape, job, None, lambda _: 0, done).min_member == want


ENDS = [
    pytest.param({}, [pod(0, "Succeeded", code=0), pod(1, "Running")], "Succeeded", id="the first worker decides"),
    pytest.param({}, [pod(0, "Running"), pod(1, "Succeeded", code=0)], "Running", id="another worker does not"),
    pytest.param(
        {"successPolicy": "AllWorkers"}, [pod(0, "Succeeded", code=0), pod(1, "Running")], "Running", id="or all do"
    ),
    pytest.param(
        {"successPolicy": "AllWorkers"}, [pod(0, "Succeeded", code=0), pod(1, "Succeeded", code=0)], "Succeeded",
        id="and all have",
    ),
    pytest.param({}, [pod(0, "Pending"), pod(1, "Pending")], "", id="nothing has begun"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "pods", "want"), ENDS)
def test_which_workers_decide(spec: Json, pods: list[Pod], want: str) -> None:
    job, shape = training(**spec)
    draft = StatusDraft(shape, job, 0.0)
    draft.replicas["Worker"] = counted(slots_of(pods, shape, "Worker"), ())
    tensorflow(Evidence(draft, pods, ()))
    assert [one.type for one in draft.conditions.to_tuple() if one.status == "True"] == ([want] if want else [])


@pytest.mark.parametrize(
    ("kind", "policy", "want"),
    [
        pytest.param(catalog.PYTORCHJOB, {"elasticPolicy": {}}, "Succeeded", id="torch"),
        pytest.param(catalog.PYTORCHJOB, {}, "Running", id="torch, and not elastic"),
        pytest.param(catalog.PADDLEJOB, {"elasticPolicy": {}}, "Running", id="paddle"),
    ],
)
def test_where_the_first_worker_to_succeed_ends_an_elastic_job(kind: Kind, policy: Json, want: str) -> None:
    framework = BY_KIND[kind]
    worker = {"replicas": 2, "template": {"spec": {"containers": []}}}
    metadata = {"name": "j", "namespace": "ns", "uid": "u"}
    body = {"metadata": metadata, "spec": {framework.replica_map: {"Worker": worker}, **policy}}
    job: TrainingJob = msgspec.convert(body, kind.view)  # type: ignore[assignment] # a training job's view
    draft = StatusDraft(JobShape.of(framework, job), job, 0.0)
    draft.replicas["Worker"] = counts(active=1, succeeded=1)
    collective(Evidence(draft, (), ()))
    assert [one.type for one in draft.conditions.to_tuple() if one.status == "True"] == [want]


def status(*held: str, replaced: int = 0) -> TrainingJobStatus:
    conditions = [{"type": type_, "status": "True"} for type_ in held]
    return msgspec.convert({"conditions": conditions, "replacedPods": {"count": replaced}}, TrainingJobStatus)


def test_conditions_are_counted_when_they_begin_to_hold() -> None:
    registry = Registry()
    metrics = TrainingMetrics(registry, TF)

    def values() -> dict[str, float]:
        samples = [line.split("_total{") for line in registry.render().decode().splitlines() if "_total{" in line]
        return {name.rpartition("_")[2]: float(rest.rpartition(" ")[2]) for name, rest in samples}

    states = [status(), status("Created"), status("Created"), status("Created", replaced=1)]
    states += [status("Created", replaced=1), status("Created", "Failed", replaced=2), status("Created", "Succeeded")]
    for old, new in zip(states, [*states[1:], states[-1]], strict=True):
        metrics.written("ns", old, new)
    assert values() == {"created": 1, "restarted": 2, "failed": 1, "successful": 1}


def test_a_job_is_told_once_of_each_operator_that_runs_it() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = World(clock).cluster
        told: list[tuple[str, str]] = []

        class Recorder(EventRecorder):
            def event(self, about: Any, type_: str, reason: str, message: str, **_: Any) -> None:
                told.append((about.metadata.uid, message.partition(" ")[0]))

        operator = ForeignOperator(cluster, clock, "ours", TF.manager, Recorder(cluster, clock, "test"))
        jobs = [Object(metadata=ObjectMeta(name=uid, uid=uid)) for uid in "ab"]

        def leave(*which: Object | None) -> list[tuple[str, str]]:
            told.clear()
            assert [operator.leave(one) for one in which] == [LOOK_SECONDS] * len(which)
            return told.copy()

        operator._note("ns/one")
        assert leave(None, *jobs, *jobs) == [("a", "ns/one"), ("b", "ns/one")]
        operator.forget("a")
        assert leave(*jobs) == [("a", "ns/one")], "another job may have the name by now"
        operator._note("ns/one")
        assert leave(*jobs) == []
        operator._note("ns/two")
        assert leave(*jobs) == [("a", "ns/two"), ("b", "ns/two")]

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_work_beside_an_operator_ends_the_watching_when_it_is_done() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = World(clock).cluster
        operator = ForeignOperator(cluster, clock, "ours", TF.manager, EventRecorder(cluster, clock, "test"))
        done: list[bool] = []

        async def work() -> None:
            done.append(operator._is_known.is_set())

        async with asyncio.timeout(10 * LOOK_SECONDS):
            await operator.run_beside(work)
        assert done == [True]

    clock = VirtualClock()
    run_virtual(clock, story(clock))


OWNER = ObjectMeta(name="j", namespace="default", uid="11111111-1111-4111-8111-111111111111")


@pytest.mark.parametrize("may_be_others", [False, True])
@pytest.mark.parametrize("owners", [None, ["other"], ["other", "own"]])
def test_companions_of_others_are_refused_or_left_as_they_are(owners: list[str] | None, may_be_others: bool) -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = World(clock).cluster
        uids = {"own": OWNER.uid, "other": "22222222-2222-4222-8222-222222222222"}
        references = [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name, "uid": uids[name]} for name in owners or ()
        ]
        metadata = {"name": "c", **({"ownerReferences": references} if owners else {})}
        await cluster.create(
            catalog.CONFIGMAP,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"old": "1", "both": "1"}},
            "default",
        )
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"both": "2", "new": "2"}}
        one = Companion(kind=catalog.CONFIGMAP, body=body, member="data", may_be_others=may_be_others)
        companions = Companions(cluster, catalog.TFJOB)
        is_own = owners is not None and "own" in owners
        if is_own or may_be_others:
            await companions.ensure(OWNER, [one])
        else:
            with pytest.raises(CompanionOfOthers, match="not managed by TFJob"):
                await companions.ensure(OWNER, [one])
        found = await cluster.get(catalog.CONFIGMAP, "c", "default")
        assert found["data"] == (body["data"] if is_own else {"old": "1", "both": "1"})

    clock = VirtualClock()
    run_virtual(clock, story(clock))


@pytest.mark.parametrize(
    ("phase", "pods", "waits"),
    [
        pytest.param(None, [], True, id="no group yet"),
        pytest.param("", [], True, id="a new group"),
        pytest.param("Pending", [], True, id="a group that waits"),
        pytest.param("Inqueue", [], False, id="a group that was admitted"),
        pytest.param("Pending", [pod(0, "Running")], False, id="pods are there already, and the rest is made"),
        pytest.param("Running", [pod(0, "Running")], False, id="a group that runs"),
    ],
)
def test_pods_are_made_once_the_group_is_admitted_or_some_are_there(
    phase: str | None, pods: list[Pod], waits: bool
) -> None:
    job, shape = training(replicas=2)
    adapter = ADAPTERS[catalog.TFJOB]
    group = None if phase is None else msgspec.convert({"status": {"phase": phase}}, PodGroup)
    record = TrainingRecord(
        framework=TF, judge=adapter.judge, job=job, shape=shape, pods=pods, terminating=frozenset(), services=(),
        group=group, gang=Gang(scheduler="volcano", priority_of=lambda _: 0), now=1_800_000_000.0,
    )  # fmt: skip
    planned = plan(record)
    assert [one.index for one in planned.create_pods] == ([] if waits else [0, 1][len(pods) :])
    assert planned.group is not None
    assert ("PodGroup" in " ".join(event.message for event in planned.events)) is waits


def test_a_condition_of_a_train_job_is_told_when_it_changes_and_keeps_its_time() -> None:
    before = "2026-01-01T00:00:00Z"
    first = {"type": "Suspended", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": before}
    job = msgspec.convert({"status": {"conditions": [first]}}, TrainJob)
    draft = _Draft(
        TrainJobRecord(
            job=job, rendering=None, problem="", jobs={}, group=None, restarts=Restarts(0, 0), now=1_800_000_000.0
        )
    )
    steps = [
        (("Suspended", "True", "R", "m"), [], True),
        (("Suspended", "True", "S", "m"), [("Normal", "S", "m")], True),
        (("Suspended", "True", "S", "n"), [("Normal", "S", "n")], True),
        (("Suspended", "True", "S", "n"), [], True),
        (("Suspended", "False", "S", "n"), [("Normal", "S", "n")], False),
        (("Failed", "True", "F", "f"), [("Normal", "F", "f")], False),
    ]
    for given, events, keeps in steps:
        draft.events.clear()
        draft.set(*given)
        assert [tuple(one) for one in draft.events] == events
        assert (draft.conditions[given[0]].last_transition_time == before) is keeps
    assert draft.is_finished
