"""What happened in a simulation: when each job started and ended, and how full the cluster was in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strato.api import quantity
from strato.api.core import Pod
from strato.client.informer import Change
from strato.clock import Clock
from strato.sim.traces import TraceJob

JOB_LABEL = "volcano.sh/job-name"


@dataclass(slots=True)
class JobResult:
    """The life of one job; instants are virtual seconds after the start of the trace."""

    job: TraceJob
    started_at: float | None = None
    """When all its pods had begun to run."""
    finished_at: float | None = None
    """When all its pods had ended."""
    failed: bool = False
    begun: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @property
    def wait_seconds(self) -> float | None:
        """From submission to start; None when it never started."""
        return None if self.started_at is None else self.started_at - self.job.submit_seconds


class JobRecorder:
    """Follows the pods of all jobs through an informer's batches.

    Args:
        on_finish: Called after each job that ended.
    """

    def __init__(self, clock: Clock, jobs: Sequence[TraceJob], on_finish: Callable[[JobResult], None]) -> None:
        self._clock = clock
        self._origin = clock.monotonic()
        self._on_finish = on_finish
        self.results = {job.name: JobResult(job) for job in jobs}
        self._amounts = {job.name: amounts_of(job) for job in jobs}
        self.finished = 0
        self.pods_run = 0
        self.running_pods = 0
        self.last_change_at = 0.0
        self.use: list[tuple[float, dict[str, int]]] = [(0.0, {})]
        """Amounts in use from each instant on: cpu in millicores, everything else in units."""

    def begin(self) -> None:
        """Let the trace's time start now."""
        self._origin = self._clock.monotonic()

    @property
    def now_seconds(self) -> float:
        """Virtual seconds after the start of the trace."""
        return self._clock.monotonic() - self._origin

    def on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        """Take a batch of changes; a batch handler of the pod informer."""
        now = self.now_seconds
        for change in changes:
            pod = change.object
            name = pod.metadata.label(JOB_LABEL)
            result = self.results.get(name)
            if result is None:
                continue
            was = change.old is not None and change.old.status.phase == "Running"
            phase = change.new.status.phase if change.new is not None else "Gone"
            is_running = phase == "Running"
            uid = pod.metadata.uid
            if is_running != was:
                self._use(now, name, 1 if is_running else -1)
            if is_running or phase in ("Succeeded", "Failed"):
                self._begin(result, uid, now)
            if phase in ("Succeeded", "Failed"):
                result.failed = result.failed or phase == "Failed"
                self._end(result, uid, now)

    def _begin(self, result: JobResult, uid: str, now: float) -> None:
        if uid in result.begun:
            return
        result.begun.add(uid)
        self.pods_run += 1
        self.last_change_at = now
        if len(result.begun) == result.job.replicas and result.started_at is None:
            result.started_at = now

    def _end(self, result: JobResult, uid: str, now: float) -> None:
        if uid in result.ended:
            return
        result.ended.add(uid)
        self.last_change_at = now
        if len(result.ended) == result.job.replicas and result.finished_at is None:
            result.finished_at = now
            self.finished += 1
            self._on_finish(result)

    def _use(self, now: float, name: str, sign: int) -> None:
        self.running_pods += sign
        at, last = self.use[-1]
        if at != now:
            last = dict(last)
            self.use.append((now, last))
        for resource, amount in self._amounts[name].items():
            last[resource] = last.get(resource, 0) + sign * amount


def amounts_of(job: TraceJob) -> dict[str, int]:
    """Return what one pod of a job requests: cpu in millicores, everything else in units."""
    return {
        name: quantity.milli(amount) if name == "cpu" else quantity.value(amount)
        for name, amount in job.requests.items()
    }
