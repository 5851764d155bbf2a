"""Metrics of the job controller, by Volcano's names (spec volcano-cli E5)."""

from __future__ import annotations

from functools import lru_cache

from strato.api.volcano.batch import Job
from strato.clock import parse_time
from strato.controllers.job.terms import Phase
from strato.metrics import Registry

_LATENCY_BUCKETS_MS = tuple(50.0 + step * (60000.0 - 50.0) / 29 for step in range(30))


_read_time = lru_cache(maxsize=64)(parse_time)  # hundreds of jobs created in one second have the same time


class JobMetrics:
    """Counts ends of jobs and times the creation of pods."""

    def __init__(self, registry: Registry) -> None:
        labels = ("job_name", "queue_name")
        self._completed = registry.counter(
            "volcano_job_completed_phase_count", "Jobs that completed", labels, plain=True
        )
        self._failed = registry.counter("volcano_job_failed_phase_count", "Jobs that failed", labels, plain=True)
        self._latency = registry.histograms(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "From the creation of a job to that of each of its pods",
            (),
            _LATENCY_BUCKETS_MS,
        ).of()
        self._series: dict[str, set[str]] = {}

    def ended(self, job: Job, phase: str) -> None:
        """Count a transition to Completed or Failed."""
        counter = {Phase.COMPLETED: self._completed, Phase.FAILED: self._failed}.get(phase)
        if counter is not None:
            name = str(job.key)
            self._series.setdefault(name, set()).add(job.spec.queue)
            counter.labels(name, job.spec.queue).inc()

    def created(self, job: Job, pods: int, now: float) -> None:
        """Observe pods that were created together."""
        if not job.metadata.creation_timestamp:
            return
        waited_ms = max(0.0, now - _read_time(job.metadata.creation_timestamp)) * 1000.0
        for _ in range(pods):
            self._latency.observe(waited_ms)

    def forget(self, name: str) -> None:
        """Drop the series of a deleted job."""
        for queue in self._series.pop(name, ()):
            for counter in (self._completed, self._failed):
                try:
                    counter.remove(name, queue)
                except KeyError:
                    continue
