"""Messages of spec scheduler-core 7.4: why a job does not fit, and the reason for each of its pods."""

from __future__ import annotations

from collections import Counter

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.reasons import ALL_UNAVAILABLE, FitErrors
from strato.scheduler.model.tasks import ALLOCATED, PENDING, PIPELINED

UNSCHEDULABLE = "Unschedulable"
SCHEDULABLE = "Schedulable"


def pod_verdict(ssn: PluginAnswers, job: Job, task: Task, fallback: str) -> PodVerdict:
    """Return the verdict on a pod that was not placed; ``fallback`` is the job's own reason."""
    last = ssn.transactions.get(task.key)
    if last is None and task.status == PENDING:
        return PodVerdict(task, UNSCHEDULABLE, *_why(ssn, job, task, fallback))
    status = last.status if last is not None and task.status == PENDING else task.status
    row = last.row if last is not None and task.status == PENDING else task.row
    evicted = last.evicted if last is not None else task.key in ssn.nominated
    node = ssn.world.nodes.names[row] if row >= 0 else ""
    possibly = f"Pod {task.key} can possibly be assigned to {node}"
    if status == ALLOCATED:
        text = f"{possibly}, once minAvailable is satisfied"
        return PodVerdict(task, SCHEDULABLE, text)
    if status == PIPELINED:
        text = f"{possibly}, once resource is released and minAvailable is satisfied"
        return PodVerdict(task, UNSCHEDULABLE, text, nominated=node if evicted else "")
    return PodVerdict(task, UNSCHEDULABLE, *_why(ssn, job, task, fallback))


def _why(ssn: PluginAnswers, job: Job, task: Task, fallback: str) -> tuple[str, FitErrors | None]:
    notes = ssn.notes.get(job.key)
    errors = notes.errors.get(task.fit_key) if notes is not None and notes.errors else None
    message = errors.message(task.name) if errors is not None else fallback
    return message or ALL_UNAVAILABLE, errors


def fit_error(ssn: PluginAnswers, job: Job) -> str:
    """Return the job's fit error: readiness, counts, reasons of its pending tasks, and the original reason."""
    head = "pod group is ready" if ssn.job_ready(job) else "pod group is not ready"
    text = f"{head}, {job.describe_counts()}"
    if job.pending:
        text += f"; Pending: {_count_pending(ssn, job)}"
    origin = _origin(ssn, job)
    return f"{text}. {origin}" if origin else text


def _count_pending(ssn: PluginAnswers, job: Job) -> str:
    """Return how many pending tasks had a place in a statement that was discarded, and how many had none."""
    transactions = ssn.transactions
    if not transactions:
        return f"{len(job.pending)} {UNSCHEDULABLE}"
    reasons: Counter[str] = Counter()
    for key in job.pending:
        last = transactions.get(key)
        reasons[SCHEDULABLE if last is not None and last.status == ALLOCATED else UNSCHEDULABLE] += 1
    return ", ".join(sorted(f"{n} {reason}" for reason, n in reasons.items()))


def _origin(ssn: PluginAnswers, job: Job) -> str:
    notes = ssn.notes.get(job.key)
    if notes is None:
        return ""
    if notes.verdicts and not notes.errors:
        return f"Origin reason is: {notes.verdicts[0].text}"
    if not notes.errors:
        return ""
    failed = [t for t in job.pending.values() if t.fit_key in notes.errors]
    real = [t for t in failed if notes.errors[t.fit_key].counts]
    if not failed:
        return ""
    task = min(real or failed, key=lambda t: t.order)
    errors: FitErrors = notes.errors[task.fit_key]
    return f"Origin reason is {task.name}: {errors.message(task.name)}"
