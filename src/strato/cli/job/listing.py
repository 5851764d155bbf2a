"""The table of ``strato job list``."""

from __future__ import annotations

from collections.abc import Sequence

from strato.api import catalog
from strato.cli.listing import Listing, Moment, Ticking
from strato.cli.reasons.reading import reports_of_jobs
from strato.client.cluster import Cluster, Json
from strato.clock import parse_time
from strato.units import human_duration

_FINISHED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


def _cells(job: Json, moment: Moment) -> tuple[object, ...]:
    spec, status = job.get("spec", {}), job.get("status", {})
    return (
        job["metadata"]["name"],
        spec.get("queue", ""),
        status.get("state", {}).get("phase", ""),
        moment.age(job),
        duration(job, moment.now),
        sum(task.get("replicas", 0) for task in spec.get("tasks", ())),
        spec.get("minAvailable", 0),
        *(status.get(counter, 0) for counter in ("pending", "running", "succeeded", "failed")),
        (moment.summary or {}).get(job["metadata"].get("uid", ""), ""),
    )


def _wide_cells(job: Json, moment: Moment) -> tuple[object, ...]:
    metadata, spec, status = job["metadata"], job.get("spec", {}), job.get("status", {})
    return (
        spec.get("priorityClassName", ""),
        status.get("retryCount", 0),
        status.get("unknown", 0),
        spec.get("schedulerName", ""),
        (metadata.get("labels") or {}).get("volcano.sh/job-type", "Batch"),
        metadata.get("creationTimestamp", ""),
    )


def duration(job: Json, now: float) -> str:
    """Return the time from a job's creation to its end, or until now; "" before its pods run."""
    state, metadata = job.get("status", {}).get("state", {}), job["metadata"]
    phase = state.get("phase", "")
    if phase in ("", "Pending"):
        return ""
    began = parse_time(metadata["creationTimestamp"])
    if phase in _FINISHED:
        ended = state.get("lastTransitionTime")
        return human_duration(max(0.0, parse_time(ended) - began)) if ended else ""
    return Ticking(human_duration(now - began))


async def _reasons(cluster: Cluster, namespace: str, jobs: Sequence[Json], _: Sequence[Json]) -> dict[str, str]:
    """Return, by uid, a word that says why the job waits or has failed."""
    return {uid: report.code for uid, report in (await reports_of_jobs(cluster, namespace, jobs)).items()}


JOBS = Listing(
    kind=catalog.VCJOB,
    headers=("Name", "Queue", "Phase", "Age", "Duration", "Pods", "Min", "Pending", "Running", "Succeeded", "Failed",
             "Reason"),
    row=_cells,
    wide_headers=("Priority", "Retries", "Unknown", "Scheduler", "Type", "Created"),
    wide_row=_wide_cells,
    phase="Phase",
    summarize=_reasons,
)  # fmt: skip
"""Jobs as ``strato job list`` shows them."""
