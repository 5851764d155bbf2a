"""What to do for one training job, from its record (spec training B1, E). Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from strato.api.core import Pod, Service
from strato.api.kubeflow import ReplacedPods, ReplicaStatus
from strato.controllers.training import gang, labels, limits, replicas
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.events import JobEvent, exit_event, trouble
from strato.controllers.training.record import Replica, TrainingPlan, TrainingRecord
from strato.controllers.training.verdicts import Evidence

_WAITING = "WaitingForPodGroup"
_TIMED_OUT = "its PodGroup was not admitted within spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds"
_FOREIGN = JobEvent(
    "Warning",
    "SetPodTemplateSchedulerName",
    "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten",
)
_OVERWRITTEN = JobEvent(
    "Warning",
    "SetPodTemplateRestartPolicy",
    "Restart policy in pod template will be overwritten by restart policy in replica spec",
)


def plan(record: TrainingRecord) -> TrainingPlan:
    """Return the writes of the job's next step; none for a job that needs no step."""
    draft = StatusDraft(record.shape, record.job, record.now)
    planned = TrainingPlan()
    name = record.job.metadata.name
    if not draft.conditions.has("Created"):
        draft.note("Created", "True", "Created", f"{draft.kind} {name} is created.")
    if draft.conditions.is_finished:
        _end(record, draft, planned)
    elif record.shape.spec.run_policy.suspend:
        _suspend(record, draft, planned)
    else:
        if draft.conditions.holds("Suspended"):
            draft.note("Suspended", "False", "Resumed", f"{draft.kind} {name} is resumed.", "Normal")
            draft.start_time = draft.now
        for pod in record.pods:
            if not pod.is_finished and pod.metadata.deletion_timestamp is None:
                planned.observations += trouble(pod)
        if limits.check(draft, record.job, record.pods, record.now):
            _end(record, draft, planned)
        else:
            _advance(record, draft, planned)
    wanted = {one.kind for one in planned.companions}
    planned.delete_companions = [kind for kind in record.while_it_runs if kind not in wanted]
    planned.events += draft.events
    status = draft.to_status()
    planned.status = status if status != record.job.status else None
    _wake(record, draft, planned)
    return planned


def _advance(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Plan the pods of a job that has not ended, and decide its conditions."""
    shape = record.shape
    if record.gang is not None:
        done = {role: len(_lost(record, draft, role)) for role in shape.roles}
        planned.group = gang.desired(shape, record.job, record.group, record.gang.priority_of, done)
        if gang.is_waiting(record.group) and not record.pods:
            if draft.last_reconcile_time is None:
                draft.last_reconcile_time = draft.now
                phase = record.group.status.phase if record.group is not None else ""
                text = f"no pods are made while the PodGroup {shape.name} is {phase or 'Pending'}"
                planned.events.append(JobEvent("Normal", _WAITING, text))
            left = limits.seconds_to_schedule(shape, draft.last_reconcile_time, record.now)
            if record.gang.enforces_timeout and left is not None and left <= 0:
                draft.finish("Failed", f"Job {shape.name} has failed because {_TIMED_OUT}")
            return
    draft.last_reconcile_time = None
    present = {pod.metadata.uid for pod in record.pods}
    draft.replaced = ReplacedPods(
        count=draft.replaced.count, uids=tuple(uid for uid in draft.replaced.uids if uid in present)
    )
    replaced = {role for role in shape.roles if _role(record, draft, planned, role)}
    _warn(record, planned)
    planned.companions = record.companions_of(shape, record.pods)
    draft.start_time = draft.start_time or draft.now
    record.judge(Evidence(draft, record.pods, replaced))


def _lost(record: TrainingRecord, draft: StatusDraft, role: str) -> list[int]:
    """Return the indexes of a role that have succeeded and whose pods are gone."""
    slots = replicas.slots_of(record.pods, record.shape, role)
    done = replicas.remembered(draft.count(role), slots, record.shape.count(role))
    return [index for index in done if index not in slots]


def _role(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan, role: str) -> bool:
    """Plan pods and services of a role and count it; returns whether a failed pod is being replaced."""
    shape, wanted = record.shape, record.shape.count(role)
    slots = replicas.slots_of(record.pods, shape, role)
    done = replicas.remembered(draft.count(role), slots, wanted)
    services = [one for one in record.services if labels.role_of(shape, one) == role]
    named = {one.metadata.name for one in services}
    going = list(replicas.replace_failed(draft, role, slots))
    for index, pods in slots.items():
        for pod in pods:
            planned.observations += exit_event(shape.framework, pod)
        if index >= wanted:
            going += pods
    planned.delete_pods += [pod for pod in going if not _is_going(record, pod) and pod not in planned.delete_pods]
    surplus = [one for one in services if (labels.index_of(shape, one) or 0) >= wanted]
    planned.delete_services += [one for one in surplus if one.metadata.deletion_timestamp is None]
    for index in range(wanted):
        if index not in slots and index not in done:
            planned.create_pods.append(Replica(role, index))
        if shape.framework.has_services and shape.object_name(role, index) not in named:
            planned.create_services.append(Replica(role, index))
    count = replicas.counted(slots, record.terminating)
    lost = len(_lost(record, draft, role))
    selector = labels.selector_text(shape.framework, shape.name, role) if shape.framework.writes_selector else ""
    draft.replicas[role] = msgspec.structs.replace(
        count, succeeded=count.succeeded + lost, selector=selector, succeeded_indexes=done
    )
    return any(pod.metadata.uid in draft.replaced.uids for pods in slots.values() for pod in pods)


def _warn(record: TrainingRecord, planned: TrainingPlan) -> None:
    if not planned.create_pods:
        return
    shape = record.shape
    if record.gang is not None and gang.names_other_scheduler(shape, record.gang.scheduler):
        planned.observations.append(_FOREIGN)
    if any(spec.template.spec.restart_policy for spec in shape.roles.values()):
        planned.observations.append(_OVERWRITTEN)


def _suspend(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Delete all pods and services of a job; on resumption replicas that have succeeded run again too."""
    text = f"{draft.kind} {record.job.metadata.name} is suspended."
    _clean(record, planned, record.pods)
    draft.replicas = {
        role: msgspec.structs.replace(status, active=0, succeeded_indexes=()) for role, status in draft.replicas.items()
    }
    draft.replaced = ReplacedPods()
    draft.last_reconcile_time = None
    if draft.conditions.holds("Running"):
        draft.note("Running", "False", "Suspended", text)
    draft.note("Suspended", "True", "Suspended", text, "Normal")


def _end(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Clean up after a job by its ``cleanPodPolicy``."""
    policy = record.shape.clean_pod_policy
    pods: Iterable[Pod] = record.pods
    if policy == "None":
        pods = ()
    elif policy == "Running":
        pods = [pod for pod in record.pods if pod.status.phase in ("Running", "Pending", "")]
    _clean(record, planned, pods)
    if draft.conditions.holds("Succeeded"):
        draft.replicas = {role: _all_succeeded(status) for role, status in draft.replicas.items()}


def _all_succeeded(status: ReplicaStatus) -> ReplicaStatus:
    return msgspec.structs.replace(status, active=0, succeeded=status.succeeded + status.active)


def _clean(record: TrainingRecord, planned: TrainingPlan, pods: Iterable[Pod]) -> None:
    """Delete pods, the services that have no pod then, and the PodGroup."""
    going = [pod for pod in pods if not _is_going(record, pod)]
    planned.delete_pods += going
    gone = {pod.metadata.uid for pod in going} | record.terminating
    staying = {pod.metadata.name for pod in record.pods if pod.metadata.uid not in gone}
    planned.delete_services += [one for one in record.services if _is_left(one, staying)]
    if record.group is not None and record.group.metadata.deletion_timestamp is None:
        planned.delete_group = True
        name = record.group.metadata.name
        planned.events += (
            JobEvent("Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup"),
            JobEvent("Normal", "SuccessfulDeletePodGroup", f"Deleted PodGroup: {name}"),
        )


def _is_left(service: Service, staying: Iterable[str]) -> bool:
    return service.metadata.deletion_timestamp is None and service.metadata.name not in staying


def _is_going(record: TrainingRecord, pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.metadata.uid in record.terminating


def _wake(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Plan when the job is to be reconciled again, and whether to delete it."""
    status = draft.to_status()
    try:
        left = limits.seconds_to_removal(record.job, status, record.now)
    except limits.MissingCompletionTime as error:
        planned.problem = str(error)
        return
    if left is not None and left <= 0:
        planned.delete_job = True
        planned.events.append(JobEvent("Normal", "SuccessfulDeleteJob", f"Deleted job: {record.job.metadata.name}"))
    elif left is not None:
        planned.again_seconds = left
    elif not draft.conditions.is_finished and not record.shape.spec.run_policy.suspend:
        started = msgspec.structs.replace(record.job, status=status)
        due = [limits.seconds_to_deadline(started, record.now)]
        if record.gang is not None and record.gang.enforces_timeout:
            due.append(limits.seconds_to_schedule(record.shape, status.last_reconcile_time, record.now))
        planned.again_seconds = min((left for left in due if left is not None), default=None)
