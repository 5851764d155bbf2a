"""Computes the statuses in a cycle's plan: PodGroups, verdicts on pods, queues (spec scheduler-core 9.3-9.5)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.cache.world import World
from strato.scheduler.claims.holdings import amounts_in, claims_by_queue
from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import (
    PHASE_COMPLETED,
    PHASE_INQUEUE,
    PHASE_PENDING,
    PHASE_RUNNING,
    PHASE_UNKNOWN,
    Job,
    PodVerdict,
    Task,
)
from strato.scheduler.model.plan import GroupCondition, GroupStatus, Notes, Plan, QueueStatus
from strato.scheduler.model.tasks import ALLOCATED, BOUND, FAILED, PENDING, PIPELINED, RELEASING, RUNNING, SUCCEEDED
from strato.scheduler.ordering.jobclasses import JobClasses
from strato.scheduler.reporting.diagnostics import pod_verdict


def decide_phase(job: Job, *, unschedulable: bool) -> str:
    """Return the phase a PodGroup should have."""
    counts = job.counts
    if counts[RUNNING] and unschedulable:
        return PHASE_UNKNOWN
    completed = counts[SUCCEEDED] + counts[FAILED]
    scheduled = counts[RUNNING] + counts[BOUND] + completed
    if scheduled >= job.min_available and scheduled > completed:
        return PHASE_RUNNING  # without a look at leaving pods, which could not change that
    if counts[RELEASING]:
        scheduled += sum(task.status == RELEASING and task.row >= 0 for task in job.tasks.values())
    if scheduled >= job.min_available:
        return PHASE_COMPLETED if scheduled == completed else PHASE_RUNNING
    return PHASE_INQUEUE if job.phase == PHASE_INQUEUE else PHASE_PENDING


def group_status(job: Job, condition: GroupCondition | None) -> GroupStatus:
    """Return the status a PodGroup should have."""
    unschedulable = condition is not None and condition.type == "Unschedulable"
    counts = job.counts
    phase = decide_phase(job, unschedulable=unschedulable)
    layout = job.layout
    lies = layout.allocated if layout is not None and layout.allocated != layout.written else None
    return GroupStatus(job, phase, counts[RUNNING], counts[SUCCEEDED], counts[FAILED], condition, lies)


def close_session(ssn: PluginAnswers, classes: JobClasses, *, of_queues: bool = True) -> None:
    """Fill the plan's statuses: every job that changed or was tried, its unplaced pods, every queue.

    Args:
        ssn: The session.
        classes: The job classes.
        of_queues: Whether to compute the statuses of queues.
    """
    touched = dict(ssn.world.changed)
    for key in ssn.notes:
        job = ssn.world.jobs.get(key)
        if job is not None:
            touched[key] = job
    classes.hand_on(ssn.plan, touched)
    for job in touched.values():
        _close_job(ssn, classes, job)
    ssn.plan.verdicts = {key: tuple(notes.verdicts) for key, notes in ssn.notes.items() if notes.verdicts}
    if of_queues:
        ssn.plan.queues = queue_statuses(ssn)
    ssn.world.changed.clear()


def settle_groups(world: World, classes: JobClasses, plan: Plan) -> None:
    """Fill a plan's statuses of the groups that changed, without a session, if no job waits (`has_nothing_pending`)."""
    for job in world.changed.values():
        _settle_group(world, classes, plan, job, None)
    world.changed.clear()


def _settle_group(world: World, classes: JobClasses, plan: Plan, job: Job, condition: GroupCondition | None) -> None:
    if job.group is None or job.solo or job.queue is None or job.queue.view is None:
        return
    status = group_status(job, condition)
    classes.wants(status)
    if status.is_news:
        plan.groups.append(status)
    if job.phase != status.phase:  # even if the API has this phase: it may lack one decided in between
        plan.phases.setdefault(job.key, job.phase)
        world.take_phase(job, status.phase)


def _close_job(ssn: PluginAnswers, classes: JobClasses, job: Job) -> None:
    notes = ssn.notes.get(job.key)
    _settle_group(ssn.world, classes, ssn.plan, job, notes.condition if notes is not None else None)
    if notes is None or not (notes.errors or notes.verdicts or notes.condition):
        return
    counts = job.counts
    if not (job.pending or counts[ALLOCATED] or counts[PIPELINED]):
        job.last_verdicts = None
        return  # no pod waits for a place any more
    ssn.plan.pods.extend(_pod_verdicts(ssn, job, notes))


def _pod_verdicts(ssn: PluginAnswers, job: Job, notes: Notes) -> Sequence[PodVerdict]:
    """Return the verdicts on a job's unplaced pods; the last ones if neither job nor message has changed."""
    if not notes.errors and job.last_verdicts is not None and job.key not in ssn.world.changed:
        fallback = notes.fit_error or ssn.fit_error(job)
        if job.last_verdicts[0] == fallback:
            return job.last_verdicts[1]
    job.last_verdicts = None
    waiting = [task for task in _unplaced(job) if not task.gated]
    if not waiting:
        return ()
    every = all(task.fit_key in notes.errors for task in waiting)
    fallback = "" if every else notes.fit_error or ssn.fit_error(job)
    verdicts = [pod_verdict(ssn, job, task, fallback) for task in waiting]
    is_uniform = not (notes.errors or job.counts[ALLOCATED] or job.counts[PIPELINED])
    if is_uniform and not any(task.key in ssn.transactions for task in waiting):
        job.last_verdicts = fallback, verdicts
    return verdicts


def _unplaced(job: Job) -> list[Task]:
    if job.counts[ALLOCATED] or job.counts[PIPELINED]:
        return [t for t in job.tasks.values() if t.status in (ALLOCATED, PENDING, PIPELINED)]
    return list(job.pending.values())


def queue_statuses(ssn: PluginAnswers) -> list[QueueStatus]:
    """Return what every known queue holds without pipelined tasks; ancestors include what their descendants hold."""
    queues = {name: q for name, q in ssn.world.queues.items() if q.view is not None}
    held = {name: q.used for name, q in queues.items()}
    for task in {task.key: task for task in ssn.temporary if task.status == PIPELINED}.values():
        if task.job is not None and task.job.queue_name in held:
            held[task.job.queue_name] = held[task.job.queue_name] - task.cls.request
    sums = dict(held)
    claims = claims_by_queue(ssn.world.devices, ssn.world.reservations, ssn.world.tasks)
    claimed = {name: set(keys) for name, keys in claims.items()}
    if "root" in queues:
        for queue in queues.values():
            mine, keys = held[queue.name], claims.get(queue.name, set[str]())
            if not mine.any() and not keys:
                continue
            seen = {queue.name}
            parent = queue.parent or ("root" if queue.name != "root" else "")
            while parent and parent in queues and parent not in seen:
                seen.add(parent)
                sums[parent] = sums[parent] + mine
                if keys:
                    claimed.setdefault(parent, set()).update(keys)
                parent = queues[parent].parent or ("root" if parent != "root" else "")
    out = []
    for name in queues:
        facts = ssn.queue_facts.get(name)
        allocated = ssn.world.dims.to_wire(sums[name].tolist())
        if name in claimed:
            allocated = {**allocated, **amounts_in(ssn.world.devices, claimed[name])}
        if facts is None:
            out.append(QueueStatus(name, allocated))
        else:
            out.append(QueueStatus(name, allocated, facts.deserved, facts.share, facts.overused, facts.vectors))
    return out
