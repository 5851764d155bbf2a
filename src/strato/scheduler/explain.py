"""Explanations: from the scheduler's records to words; pure.

The record of why something waits lives in three places that say the same: the last `Plan` (in process, with numbers),
the PodGroup's condition ``Unschedulable`` and each pod's condition ``PodScheduled`` (durable, readable by any process).
`diagnosis` answers from the first, `from_conditions` from the others; both render alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup
from strato.scheduler.jobs import Job
from strato.scheduler.plan import PodVerdict
from strato.scheduler.reasons import Verdict
from strato.scheduler.tasks import Task
from strato.scheduler.world import World

_CODE_ORDER = (
    "QueueClosed",
    "QueueQuota",
    "Overcommit",
    "QueueOverused",
    "QueueShare",
    "NotEnoughTasks",
    "NotEnoughPodsOfTask",
    "NotEnoughResources",
)
"""What is said first when several things hold a job back: the one that must be cured before the others matter."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job or a pod waits, or that it does not.

    Attributes:
        key: ``namespace/name`` asked for.
        state: One word: a PodGroup phase or pod phase.
        summary: The sentence with the binding constraint.
        verdicts: Everything that holds it back, the binding constraint first.
        pods: Pod by pod, the message of each that waits.
    """

    key: str
    state: str
    summary: str
    verdicts: Sequence[Verdict] = ()
    pods: dict[str, str] = field(default_factory=dict)

    def render(self) -> str:
        """Return the text a person reads."""
        lines = [f"{self.key} ({self.state}): {self.summary}"]
        for verdict in self.verdicts:
            numbers = ", ".join(f"{name} {_number(value)}" for name, value in verdict.numbers.items())
            lines.append(f"  {verdict.plugin}: {verdict.text}" + (f" [{numbers}]" if numbers else ""))
        for pod, message in sorted(self.pods.items()):
            lines.append(f"  pod {pod}: {message}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "key": self.key,
            "state": self.state,
            "summary": self.summary,
            "verdicts": [
                {"plugin": v.plugin, "code": v.code, "text": v.text, "numbers": dict(v.numbers)} for v in self.verdicts
            ],
            "pods": self.pods,
        }


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.2f}"


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts with the binding constraint first; equal ones once."""
    unique = {(v.plugin, v.code, v.text): v for v in verdicts}
    rank = {code: i for i, code in enumerate(_CODE_ORDER)}
    return sorted(unique.values(), key=lambda v: rank.get(v.code, len(rank)))


def diagnosis(world: World, key: str, verdicts: Sequence[Verdict], pods: dict[str, PodVerdict]) -> Diagnosis | None:
    """Explain a job or a pod by its key from what the last cycles recorded; None when it is unknown."""
    task = world.tasks.get(key)
    job = world.jobs.get(key)
    if job is None and task is not None:
        if task.job is None:
            return Diagnosis(key, task.pod.status.phase or "Pending", "it belongs to no PodGroup yet")
        job = task.job
    if job is None:
        return None
    chosen = ranked(verdicts)
    messages = {k: pods[k].message for k in job.pending if k in pods}
    if task is not None and task.row >= 0:
        return Diagnosis(key, task.pod.status.phase or "Pending", f"placed on {world.nodes.names[task.row]}")
    return Diagnosis(key, job.phase or "Pending", summary(job, chosen, messages), chosen, messages)


def summary(job: Job, verdicts: Sequence[Verdict], messages: dict[str, str]) -> str:
    """Return the one sentence that says what is missing."""
    if job.group is None and not job.solo:
        return "its PodGroup does not exist yet"
    if job.queue is None or job.queue.view is None:
        return f"its queue {job.queue_name!r} does not exist"
    if verdicts:
        return verdicts[0].text
    if not job.pending:
        return f"nothing waits: {job.describe_counts()}"
    first = next(iter(messages.values()), "")
    return first or f"waiting for the next cycle: {job.describe_counts()}"


def untried(task: Task) -> str:
    """Say why a cycle never tried a waiting pod."""
    job = task.job
    if task.gated:
        return "it has scheduling gates: " + ", ".join(gate.name for gate in task.pod.spec.scheduling_gates)
    if job is None:
        return "it belongs to no PodGroup yet"
    if job.group is None and not job.solo:
        return f"its PodGroup {job.key} does not exist"
    if job.queue is None or job.queue.view is None:
        return f"its queue {job.queue_name!r} does not exist"
    if job.is_waiting_for_queue:
        return f"its PodGroup has not been admitted to queue {job.queue_name}"
    return "no action of this cycle got to it"


def from_conditions(group: PodGroup | None, pods: Sequence[Pod]) -> Diagnosis:
    """Explain from what any process can read: the PodGroup's and the pods' conditions."""
    messages = {}
    for pod in pods:
        condition = pod.status.condition("PodScheduled")
        if condition is not None and condition.status == "False":
            messages[str(pod.key)] = condition.message
    if group is None:
        key = str(pods[0].key) if pods else ""
        state = pods[0].status.phase if pods else "Unknown"
        return Diagnosis(key, state, next(iter(messages.values()), "nothing was recorded"), (), messages)
    waiting = [c for c in group.status.conditions if c.type == "Unschedulable" and c.status == "True"]
    verdicts = [Verdict("gang", c.reason, c.message) for c in waiting]
    if group.status.phase in ("Running", "Completed"):
        text = f"{group.status.running} running, {group.status.succeeded} succeeded, {group.status.failed} failed"
        return Diagnosis(str(group.key), group.status.phase, text, (), messages)
    text = verdicts[0].text if verdicts else next(iter(messages.values()), "nothing was recorded yet")
    return Diagnosis(str(group.key), group.status.phase or "Pending", text, verdicts, messages)
