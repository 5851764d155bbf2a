"""The table of ``strato job list`` (spec volcano-cli A2.2)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.cli.output import fixed_table
from strato.client.cluster import Json

HEADERS = (
    "Name",
    "Creation",
    "Phase",
    "JobType",
    "Replicas",
    "Min",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Unknown",
    "RetryCount",
)
WIDTHS = (15, 12, 12, 12, 6, 10, 10, 12, 10, 12, 10)


def job_table(jobs: Sequence[Json], *, with_namespace: bool) -> str:
    """Lay out one line per job."""
    rows: list[Sequence[object]] = [_row(job) for job in jobs]
    headers: Sequence[str] = HEADERS
    widths: Sequence[int] = (_fitted(HEADERS[0], [row[0] for row in rows]), *WIDTHS)
    if with_namespace:
        namespaces = [job["metadata"].get("namespace", "") for job in jobs]
        rows = [(namespace, *row) for namespace, row in zip(namespaces, rows, strict=True)]
        headers, widths = ("Namespace", *headers), (_fitted("Namespace", namespaces), *widths)
    return fixed_table(headers, widths, rows)


def _fitted(header: str, values: Sequence[object]) -> int:
    return max(len(str(value)) for value in [header, *values]) + 3


def _row(job: Json) -> tuple[object, ...]:
    metadata, status = job["metadata"], job.get("status", {})
    replicas = sum(task.get("replicas", 0) for task in job.get("spec", {}).get("tasks", ()))
    return (
        metadata["name"],
        metadata.get("creationTimestamp", "")[:10],
        status.get("state", {}).get("phase", ""),
        (metadata.get("labels") or {}).get("volcano.sh/job-type", "Batch"),
        replicas,
        status.get("minAvailable", 0),
        *(status.get(counter, 0) for counter in ("pending", "running", "succeeded", "failed", "unknown")),
        status.get("retryCount", 0),
    )
