"""`ActiveJob`: the state of one submitted job; `PodFactory`: its pods as objects at each stage, from bound to ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from strato.api.core import ContainerState, ContainerStatus, Pod, PodSpec, PodStatus, StateTerminated
from strato.api.volcano.scheduling import PodGroup, PodGroupCondition, PodGroupStatus
from strato.controllers.job.group import is_admitted
from strato.node.hollow.distributions import Draws
from strato.node.hollow.runplan import RUN_SECONDS, has_run_annotations, plan_run, start_seconds, stop_seconds
from strato.scheduler.model.plan import GroupStatus
from strato.sim.decisions.templates import SubmissionTemplate
from strato.sim.submission import CONTAINER, NAMESPACE, TASK
from strato.sim.traces import TraceJob

_MOST_SPECS: Final = 65_536
_NEVER: Final = "Never"
_NO_CHANCE: Final = Draws()
"""The random numbers of jobs without run annotations: their plan draws none."""


class Course(NamedTuple):
    """When a bound pod begins and ends, and with which exit code."""

    start_seconds: float
    """From the bind to the beginning of the work: image pull and start of containers."""
    run_seconds: float
    exit_code: int


class ActiveJob:
    """A job that was submitted and has not ended.

    Attributes:
        row: The job's row in the trace.
        job: The trace's job.
        template: Makes its pod group and pods.
        group: Its pod group, as it would be in the API now.
        key: The pod group's key, ``namespace/name``.
        missing: Indexes of the pods that are to be made, for the first time or after an eviction.
        succeeded: Number of pods that have ended with exit code 0.
        failed: Number of pods that have ended with another exit code.
    """

    __slots__ = ("_meta", "_prefix", "failed", "group", "job", "key", "missing", "row", "succeeded", "template")

    def __init__(self, row: int, job: TraceJob, template: SubmissionTemplate, group: PodGroup, uid: str) -> None:
        self.row = row
        self.job = job
        self.template = template
        self.group = group
        self.key = f"{group.metadata.namespace}/{group.metadata.name}"
        self.missing: Collection[int] = range(job.replicas)
        self.succeeded = 0
        self.failed = 0
        self._meta = template.metadata_of(job.name, uid)
        self._prefix = f"{job.name}-{TASK}-"

    @property
    def may_have_pods(self) -> bool:
        """Whether the job controller would make its pods now."""
        return is_admitted(self.group)

    @property
    def is_over(self) -> bool:
        """Whether all its pods have ended, other than by eviction."""
        return self.succeeded + self.failed >= self.job.replicas

    def stop_seconds(self, uid: str) -> float:
        """Return how long an evicted pod takes to stop; at most its grace period."""
        pod = self.template.pod
        longest = max(stop_seconds(pod.metadata.annotations, container, uid) for container in pod.spec.containers)
        return min(longest, pod.spec.termination_grace_period_seconds)

    def pod_key(self, number: int) -> str:
        """Return the key of the pod with an index."""
        return f"{NAMESPACE}/{self._prefix}{number}"

    def pods(self, numbers: Iterable[int], uids: Iterator[str], created: str) -> Iterator[Pod]:
        """Yield new pods with these indexes."""
        made, meta, prefix = self.template.pod, self._meta, self._prefix
        for number in numbers:
            name = f"{prefix}{number}"
            yield replace(made, metadata=replace(meta, name=name, uid=next(uids), creation_timestamp=created))

    def runs(self, uids: Sequence[str]) -> list[Course]:
        """Return the course of pods, in the order of their uids, which seed what is random about it."""
        notes = {RUN_SECONDS: f"{self.job.run_seconds:.6f}"}
        if not has_run_annotations(self.job.annotations):
            return [Course(0.0, *plan_run(notes, (), _NEVER, _NO_CHANCE))] * len(uids)
        notes = {**self.job.annotations, **notes}
        return [Course(start_seconds(notes, uid), *plan_run(notes, (), _NEVER, Draws(uid, 0, 0))) for uid in uids]


class PodFactory:
    """Makes the Pod objects of each stage, from bound to ended; pods share specs and statuses that are equal."""

    def __init__(self) -> None:
        self._specs: dict[tuple[int, str], tuple[PodSpec, PodSpec]] = {}
        self._started: tuple[tuple[str, bool], PodStatus] = ("", False), PodStatus()
        self._ended: tuple[tuple[str | None, str, int], PodStatus] = (None, "", 0), PodStatus()

    def started(self, time: str, *, is_running: bool) -> PodStatus:
        """Return the status of a pod on its node: Running since a time, or Pending."""
        if self._started[0] != (time, is_running):
            status = PodStatus(phase="Running", start_time=time) if is_running else PodStatus(phase="Pending")
            self._started = (time, is_running), status
        return self._started[1]

    def on_node(self, pod: Pod, node: str, status: PodStatus) -> Pod:
        """Return a pod with a node and a status."""
        return replace(pod, spec=self._placed(pod.spec, node), status=status)

    def _placed(self, spec: PodSpec, node: str) -> PodSpec:
        """Return a spec with a node; pods of one template on one node share the result."""
        key = id(spec), node
        found = self._specs.get(key)
        if found is not None and found[0] is spec:
            return found[1]
        if len(self._specs) >= _MOST_SPECS:
            self._specs.clear()
        placed = replace(spec, node_name=node)
        self._specs[key] = spec, placed
        return placed

    def ended(self, pod: Pod, time: str, exit_code: int) -> Pod:
        """Return a pod whose containers have ended."""
        key = pod.status.start_time, time, exit_code
        if self._ended[0] != key:
            terminated = StateTerminated(exit_code=exit_code, finished_at=time)
            container = ContainerStatus(name=CONTAINER, state=ContainerState(terminated=terminated))
            phase = "Succeeded" if exit_code == 0 else "Failed"
            status = PodStatus(phase=phase, start_time=key[0] or time, container_statuses=(container,))
            self._ended = key, status
        return replace(pod, status=self._ended[1])

    def terminating(self, pod: Pod, time: str) -> Pod:
        """Return a pod with a deletion timestamp."""
        return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=time))

    def without_gates(self, pod: Pod) -> Pod:
        """Return a pod without its queue-admission gate."""
        meta = replace(pod.metadata, generation=pod.metadata.generation + 1)
        return replace(pod, metadata=meta, spec=replace(pod.spec, scheduling_gates=()))


def with_status(group: PodGroup, wanted: GroupStatus) -> PodGroup:
    """Return a pod group with the status that a cycle decided."""
    conditions, condition = group.status.conditions, wanted.condition
    if condition is not None:
        news = PodGroupCondition(
            type=condition.type, status=condition.status, reason=condition.reason, message=condition.message
        )
        conditions = (*(one for one in conditions if one.type != news.type), news)
    status = PodGroupStatus(
        phase=wanted.phase,
        conditions=conditions,
        running=wanted.running,
        succeeded=wanted.succeeded,
        failed=wanted.failed,
    )
    return replace(group, status=status)
