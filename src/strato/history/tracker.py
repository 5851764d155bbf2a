"""`Tracker`: keeps the state of live runs and replicas from jobs, pods and usage, and returns rows for changed ones.

It reads no clock and watches nothing itself: a recorder calls it with changes and the present instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from strato.advice.histogram import CPU
from strato.advice.roles import START_SECONDS
from strato.api import trainer
from strato.api.core import Container, Pod
from strato.api.metrics import PodMetrics, amounts
from strato.api.quantity import milli, value
from strato.api.suppression import suppression_entries
from strato.clock import parse_time
from strato.history.jobs import JobFacts
from strato.history.rows import ABORTED, FAILED, RUNNING, JobRun, PodContainer
from strato.history.statistics import is_ended

ROLE_LABELS: Final = ("volcano.sh/task-spec", "training.kubeflow.org/replica-type", trainer.REPLICATED_JOB)
INDEX_LABELS: Final = (
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
)
_SAVED_SECONDS: Final = 1800.0
"""Time until the row of a running replica is written again; the first samples are written sooner (`_is_early`)."""
_EARLY_SAMPLES: Final = 16
_Place = tuple[str, str]
"""Uid of a pod and name of one of its containers."""


class Tracker:
    """The live runs and replicas, as the module says."""

    def __init__(self) -> None:
        self._runs: dict[str, JobRun] = {}
        """Uid of a job → its newest attempt."""
        self._pods: dict[str, dict[str, _Times]] = {}
        """Uid of a job → uid of a pod of this attempt → its times."""
        self._replicas: dict[_Place, PodContainer] = {}
        self._attempts: dict[str, dict[tuple[str, str], list[str]]] = {}
        """Run → role and index → uids of the pods that had these, the oldest first."""
        self._least: dict[str, int] = {}
        """Uid of a job → number of pods that it needs to start."""
        self._rows: dict[Any, JobRun | PodContainer] = {}
        self._saved: dict[str, dict[str, float]] = {}
        """Uid of a pod → name of a container → when its latest row was made.

        A replica that is in here but not in ``_replicas`` has ended.
        """

    def restore(self, runs: Iterable[JobRun], replicas: Iterable[PodContainer], now: float) -> None:
        """Restore the state from the rows of an earlier process.

        Args:
            runs: Runs whose job exists, and runs that had not ended.
            replicas: The replicas of these runs; others are ignored.
            now: The present instant.
        """
        for run in runs:
            self._runs[run.job_uid] = run
            self._pods[run.job_uid] = {}
        known = {run.run_id for run in self._runs.values()}
        for one in replicas:
            place = (one.pod, one.container)
            if one.run_id in known:
                self._saved.setdefault(one.pod, {})[one.container] = now
                self._take_place(one.run_id, one.role, one.index, one.pod)
                if one.ended is None:
                    self._replicas[place] = one

    def see_job(self, job: JobFacts, now: float) -> None:
        """Take the facts of a new or changed job; a new attempt ends the one before as failed."""
        run_id = f"{job.uid}/{job.attempt}"
        before = self._runs.get(job.uid)
        if before is not None and before.run_id != run_id and not is_ended(before):
            self._set(msgspec.structs.replace(before, ended=now, phase=FAILED))
        if before is None or before.run_id != run_id:
            self._pods[job.uid] = {}
            if before is not None:
                self._attempts.pop(before.run_id, None)
            before = JobRun(
                run_id=run_id,
                job_uid=job.uid,
                namespace=job.namespace,
                job=job.name,
                kind=job.kind,
                template=job.template,
                queue=job.queue,
                submitted=job.submitted if not job.attempt else now,
            )
            self._set(before)
        self._least[job.uid] = job.min_available
        if job.phase and not is_ended(before):
            self._set(msgspec.structs.replace(before, phase=job.phase, ended=job.ended or now))

    def see_group(self, job_uid: str, at: float) -> None:
        """Record when the pod group of a job was admitted to its queue."""
        run = self._runs.get(job_uid)
        if run is not None and run.inqueue is None and not is_ended(run):
            self._set(msgspec.structs.replace(run, inqueue=max(at, run.submitted)))

    def see_prediction(self, job_uid: str, start: float, low: float, high: float) -> None:
        """Record the predicted start of a waiting job; only the first prediction is kept."""
        run = self._runs.get(job_uid)
        if run is not None and run.predicted < 0 and run.ready is None and not is_ended(run):
            self._set(msgspec.structs.replace(run, predicted=start, predicted_low=low, predicted_high=high))

    def forget_job(self, uid: str, now: float) -> None:
        """Forget a deleted job. If it had not ended, it is recorded as aborted; its live replicas end now."""
        run = self._runs.pop(uid, None)
        for pods in self._attempts.pop(run.run_id, {}).values() if run is not None else ():
            for pod in pods:
                for container in self._saved.pop(pod, ()):
                    one = self._replicas.pop((pod, container), None)
                    if one is not None:
                        ended = one.ended if one.ended is not None else now
                        self._rows[_key(one)] = msgspec.structs.replace(one, ended=ended, seen=max(one.seen, ended))
        if run is not None and not is_ended(run):
            self._rows[_key(run)] = msgspec.structs.replace(run, ended=now, phase=ABORTED)
        self._pods.pop(uid, None)
        self._least.pop(uid, None)

    def knows(self, uid: str) -> bool:
        """Return whether a job is known."""
        return uid in self._runs

    def see_pod(self, pod: Pod, *, is_gone: bool, now: float) -> None:
        """Record when a pod was bound, ran and ended."""
        self._take_pod(pod, is_gone=is_gone, now=now)
        if is_gone:
            self._saved.pop(pod.metadata.uid, None)

    def _take_pod(self, pod: Pod, *, is_gone: bool, now: float) -> None:
        owner = pod.metadata.controller
        uid = pod.metadata.label(trainer.JOBSET_UID) or (owner.uid if owner is not None else "")
        run = self._runs.get(uid)
        if run is None:
            return
        times = _Times.of(pod, is_gone=is_gone, now=now)
        self._pods.setdefault(run.job_uid, {})[pod.metadata.uid] = times
        self._advance(run)
        if times.bound is None:
            return
        role, index = _label(pod, ROLE_LABELS), _label(pod, INDEX_LABELS)
        for container in pod.spec.containers:
            place = (pod.metadata.uid, container.name)
            one = self._replicas.get(place)
            if one is None:
                if container.name in self._saved.get(pod.metadata.uid, ()):
                    continue  # the replica has ended and its last row has been returned
                one = PodContainer(
                    run_id=run.run_id,
                    role=role,
                    index=index,
                    pod=pod.metadata.uid,
                    container=container.name,
                    containers=len(pod.spec.containers),
                    attempt=self._take_place(run.run_id, role, index, pod.metadata.uid),
                    cpu_req=milli(_request(container, "cpu")),
                    mem_req=value(_request(container, "memory")),
                )
            changed = msgspec.structs.replace(
                one,
                node=pod.spec.node_name,
                bound=times.bound,
                started=times.started,
                ended=times.ended,
                seen=max(one.seen, times.ended or 0.0),
                **_ending(pod, container.name, one),
            )
            if changed != one:  # as always when it is new, because it was bound
                self._save(place, changed, now)

    def sample(self, pods: Iterable[tuple[Pod, PodMetrics]], seconds: float, now: float) -> None:
        """Add the usage of containers in the last ``seconds``."""
        for pod, metrics in pods:
            # the usage of a container whose quota the agent has cut does not show how much it needs
            suppressed = suppression_entries(pod.metadata.annotations, msgspec.Raw)
            for measured in metrics.containers:
                place = (pod.metadata.uid, measured.name)
                one = self._replicas.get(place)
                used = amounts(measured.usage)
                if one is None or one.started is None or used is None:
                    continue
                cores, used_bytes = used
                samples = one.cpu_samples
                if now - one.started >= START_SECONDS and measured.name not in suppressed:
                    bucket = CPU.find(cores)
                    samples = {**samples, bucket: samples.get(bucket, 0) + 1}
                is_early = not one.seen or (samples is not one.cpu_samples and _is_early(sum(samples.values())))
                self._replicas[place] = one = msgspec.structs.replace(
                    one,
                    cpu_samples=samples,
                    cpu_core_s=one.cpu_core_s + cores * seconds,
                    mem_peak=max(one.mem_peak, used_bytes),
                    seen=now,
                )
                saved = self._saved.get(pod.metadata.uid, {}).get(measured.name, now)
                if is_early or now - saved >= _SAVED_SECONDS:
                    self._save(place, one, now)

    def take_rows(self) -> list[JobRun | PodContainer]:
        """Return the rows of the runs and replicas that changed since the last call."""
        rows, self._rows = self._rows, {}
        for one in rows.values():
            if isinstance(one, PodContainer) and one.ended is not None:
                self._replicas.pop((one.pod, one.container), None)
        return list(rows.values())

    def put_back(self, rows: Iterable[JobRun | PodContainer]) -> None:
        """Put rows back that could not be written; newer rows of the same run or replica win."""
        self._rows = {_key(row): row for row in rows} | self._rows

    def save_all(self, now: float) -> None:
        """Make rows of all live replicas; to be called before the process ends."""
        for place, one in self._replicas.items():
            self._save(place, one, now)

    def _set(self, run: JobRun) -> JobRun:
        self._runs[run.job_uid] = run
        self._rows[_key(run)] = run
        return run

    def _save(self, place: _Place, one: PodContainer, now: float) -> None:
        self._replicas[place] = one
        self._saved.setdefault(one.pod, {})[one.container] = now
        self._rows[_key(one)] = one

    def _take_place(self, run_id: str, role: str, index: str, pod: str) -> int:
        uids = self._attempts.setdefault(run_id, {}).setdefault((role, index), [])
        if pod not in uids:
            uids.append(pod)
        return uids.index(pod)

    def _advance(self, run: JobRun) -> None:
        """Set when a run was ready and started: when enough of its pods, without those of earlier attempts, were."""
        if is_ended(run) and run.started is not None:
            return
        least = max(self._least.get(run.job_uid, 1), 1)
        pods = [pod for pod in self._pods[run.job_uid].values() if pod.bound is not None and pod.bound >= run.submitted]
        changed = run
        if run.ready is None:
            changed = msgspec.structs.replace(changed, ready=_nth(least, (pod.bound for pod in pods)))
        if run.started is None:
            changed = msgspec.structs.replace(changed, started=_nth(least, (pod.started for pod in pods)))
        if changed.started is not None and not is_ended(changed):
            changed = msgspec.structs.replace(changed, phase=RUNNING)
        if changed != run:
            self._set(changed)


class _Times(msgspec.Struct, frozen=True):
    """When a pod was bound, started and ended; None before that."""

    bound: float | None
    started: float | None
    ended: float | None

    @classmethod
    def of(cls, pod: Pod, *, is_gone: bool, now: float) -> _Times:
        states = [status.state for status in pod.status.container_statuses]
        ended = [state.terminated for state in states if state.terminated is not None]
        begun = [state.running.started_at for state in states if state.running is not None]
        started = [_instant(text) for text in (*begun, *(end.started_at for end in ended)) if text]
        scheduled = pod.status.condition("PodScheduled")
        bound = _instant(scheduled.last_transition_time) if scheduled is not None else None
        finish = None
        if is_gone or pod.status.phase in ("Succeeded", "Failed"):
            finished = [_instant(end.finished_at) for end in ended if end.finished_at]
            finish = max(finished) if finished else now
        if not pod.spec.node_name:
            return cls(None, None, None)
        has_run = pod.status.phase in ("Running", "Succeeded", "Failed") and started
        return cls(bound if bound is not None else now, max(started) if has_run else None, finish)


def _is_early(count: int) -> bool:
    """Whether to write a row after so many samples: 1, 2, 4, 8 and 16; later `_SAVED_SECONDS` decides."""
    return count <= _EARLY_SAMPLES and count.bit_count() == 1


def _instant(text: str | None) -> float:
    try:
        return parse_time(text or "")
    except ValueError:
        return 0.0


def _nth(count: int, instants: Iterable[float | None]) -> float | None:
    known = sorted(instant for instant in instants if instant is not None)
    return known[count - 1] if len(known) >= count else None


def _key(row: JobRun | PodContainer) -> Any:
    return row.run_id if isinstance(row, JobRun) else (row.pod, row.container)


def _label(pod: Pod, names: Iterable[str]) -> str:
    return next((found for name in names if (found := pod.metadata.label(name))), "")


def _request(container: Container, name: str) -> str | int | float:
    resources = container.resources
    return resources.requests.get(name, resources.limits.get(name, 0))


def _ending(pod: Pod, container: str, before: PodContainer) -> dict[str, int | None]:
    for status in pod.status.container_statuses:
        if status.name != container:
            continue
        states = (status.state.terminated, status.last_state.terminated)
        killed = sum(one is not None and one.reason == "OOMKilled" for one in states)
        code = status.state.terminated.exit_code if status.state.terminated is not None else before.exit
        return {"exit": code, "oom": max(before.oom, min(killed, 1) * max(status.restart_count, 1))}
    return {}
