"""Explanations of why jobs and pods wait, as text; pure.

They are made from the verdicts of the last `Plan`; the PodGroup's condition ``Unschedulable`` and each pod's condition
``PodScheduled`` say the same. `diagnosis` uses the verdicts that a running scheduler has kept,
`strato.scheduler.dryrun.examine` those of one cycle on a copy of any state; both return a `Diagnosis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from strato.api.counted import counted
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import counts, to_text


@dataclass(frozen=True, slots=True)
class Fix:
    """A change with which a job starts, as tried on a copy of the state.

    Attributes:
        kind: Its family: ``members``, ``queue``, ``quota``, ``rule``, ``nodes``; several joined by ``+``.
        text: What to change, from what to what.
        evictions: Pods that are evicted for it.
    """

    kind: str
    text: str
    evictions: int = 0

    def render(self) -> str:
        """Return the change as one line of text."""
        return f"{self.text} (evicts {self.evictions} pods)" if self.evictions else self.text


_CODE_ORDER = (
    "Error",
    "QueueClosed",
    "TooLarge",
    "ClusterFull",
    "QueueQuota",
    "Overcommit",
    "QueueOverused",
    "QueueShare",
    "Topology",
    "NotEnoughTasks",
    "NotEnoughPodsOfTask",
)
"""Codes in the order in which verdicts are shown: a verdict must be resolved before those after it matter."""

_LAST_CODES = ("NodeFit", "NotEnoughResources", "FlowPrice")
"""Codes shown last, as they follow from other verdicts unless they are the only ones."""


_IN_WORDS = ("NodeFit", "NotEnoughResources")
"""Codes of verdicts whose text contains all their numbers."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job or a pod waits, or that it does not.

    Attributes:
        key: ``namespace/name`` asked for.
        state: One word: a PodGroup phase or pod phase.
        summary: The sentence with the binding constraint.
        verdicts: All reasons why it waits, the binding constraint first.
        pods: By name, the message of each waiting pod; for a queue, of each waiting PodGroup.
        fixes: Changes with which it starts now, the smallest first; None when none were searched.
        goes_on: Whether it starts without any change.
        part: Kind of the keys of ``pods``: ``pod`` or ``podgroup``.
    """

    key: str
    state: str
    summary: str
    verdicts: Sequence[Verdict] = ()
    pods: dict[str, str] = field(default_factory=dict)
    fixes: Sequence[Fix] | None = None
    goes_on: bool = False
    part: str = "pod"

    def render(self) -> str:
        """Return the text a person reads."""
        lines = [f"{self.key} ({self.state}): {self.summary}"]
        lines += [f"  {verdict.plugin}: {sentence(verdict)}" for verdict in self._further()]
        messages = {name: text for name, text in self.pods.items() if text != self.summary and not self._restates(text)}
        parts = counted(messages, self.part)
        if len(parts) > 1 or not any(verdict.plugin == "nodes" for verdict in self.verdicts):
            lines += [f"  {part}" for part in parts]  # else the verdict already says what is the same for all pods
        if self.fixes is not None:
            lines.append("each of these starts it now, tried on a copy:" if self.fixes else "no change was found")
            lines += [f"  {fix.render()}" for fix in self.fixes]
        return "\n".join(lines)

    def _restates(self, text: str) -> bool:
        """Whether a pod's message is that of its gang, which the verdicts say in more detail."""
        return bool(self.verdicts) and text.startswith("pod group is not ready")

    def _further(self) -> Sequence[Verdict]:
        """Return the verdicts that the summary does not contain, without the gang's, which follows from the others."""
        further = [verdict for verdict in self.verdicts if sentence(verdict) != self.summary]
        return [verdict for verdict in further if verdict.plugin != "gang" or len(self.verdicts) == 1]

    def to_json(self) -> dict[str, object]:
        """Return the diagnosis as plain data; with ``fixes`` only if they were searched."""
        out: dict[str, object] = {
            "key": self.key,
            "state": self.state,
            "summary": self.summary,
            "verdicts": [
                {
                    "plugin": v.plugin,
                    "code": v.code,
                    "text": v.text,
                    "numbers": {name: float(number) for name, number in v.numbers.items()},
                }
                for v in self.verdicts
            ],
            f"{self.part}s": self.pods,
        }
        if self.fixes is not None:
            out["fixes"] = [{"kind": fix.kind, "change": fix.text, "evictions": fix.evictions} for fix in self.fixes]
        return out


def sentence(verdict: Verdict) -> str:
    """Return a verdict's text with its numbers."""
    numbers = ", ".join(
        f"{name} {_number(name, value)}" for name, value in verdict.numbers.items() if verdict.code not in _IN_WORDS
    )
    return f"{verdict.text} [{numbers}]" if numbers else verdict.text


def _number(name: str, value: float) -> str:
    """Write a number; amounts of a resource, named last (``used cpu``), are in internal units."""
    resource = name.rpartition(" ")[2]
    if counts(resource):
        return to_text(resource, value)
    return str(int(value)) if float(value).is_integer() else f"{value:.2f}"


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts with the binding constraint first, without duplicates."""
    unique = {(v.plugin, v.code, v.text): v for v in verdicts}
    rank = {code: i for i, code in enumerate(_CODE_ORDER)}
    rank |= {code: len(_CODE_ORDER) + 1 + i for i, code in enumerate(_LAST_CODES)}
    return sorted(unique.values(), key=lambda v: rank.get(v.code, len(_CODE_ORDER)))


def with_numbers_of(verdicts: Sequence[Verdict], others: Sequence[Verdict]) -> Sequence[Verdict]:
    """Return a job's verdicts with the newer numbers of another job of its class; unchanged if the verdicts differ."""
    if [(v.plugin, v.code) for v in verdicts] != [(v.plugin, v.code) for v in others]:
        return verdicts
    return [replace(mine, numbers=theirs.numbers) for mine, theirs in zip(verdicts, others, strict=True)]


def diagnosis(world: World, key: str, verdicts: Sequence[Verdict], pods: dict[str, PodVerdict]) -> Diagnosis | None:
    """Explain a job or a pod by its key from the verdicts of the last cycles; None when it is unknown."""
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
    """Return why a cycle has not tried a waiting pod."""
    job = task.job
    if task.gated and not task.pod.spec.scheduling_gates:
        return "it could not be bound, and is tried again after a while"
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
