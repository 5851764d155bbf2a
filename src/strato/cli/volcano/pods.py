"""``vcctl pod list``: the pods of jobs and of queues (spec volcano-cli A4)."""

from __future__ import annotations

import click

from strato.api.volcano.scheduling import QUEUE_ANNOTATION
from strato.cli.pod import JOB_LABEL, QUEUE_LABEL, PodRow, read_rows
from strato.cli.volcano.asking import Failed, ask
from strato.cli.volcano.cobra import Values
from strato.cli.volcano.texts import NOTHING_FOUND, columns

_HEADER = ("Name", "Ready", "Status", "Restart", "Age")


def list_pods(values: Values) -> None:
    """Print pods by job or queue; without either, of all jobs."""
    job, queue = values["job"], values["queue"]
    scope = "" if values["all-namespaces"] else values["namespace"]
    selector = f"{JOB_LABEL}={job}" if job else "" if queue else JOB_LABEL
    rows = ask(values, lambda cluster: read_rows(cluster, scope, selector))
    if job and queue and any(_label(row, QUEUE_LABEL) != queue for row in rows):
        raise Failed(f"the input vcjob {job} does not match the queue {queue}")
    if queue and not job:
        rows = [row for row in rows if queue in (_label(row, QUEUE_LABEL), _queue_annotation(row))]
    rows = sorted(rows, key=lambda row: (row.metadata.get("namespace", ""), row.metadata["name"]))
    if not rows:
        click.echo(NOTHING_FOUND, nl=False)
        return
    widths = [
        max(max(len(row.cells[index]) for row in rows) + 8, len(title) + 2) for index, title in enumerate(_HEADER)
    ]
    click.echo(columns(widths, [_HEADER, *(row.cells for row in rows)]), nl=False)


def _label(row: PodRow, key: str) -> str | None:
    labels: dict[str, str] = row.metadata.get("labels") or {}
    return labels.get(key)


def _queue_annotation(row: PodRow) -> str | None:
    annotations: dict[str, str] = row.metadata.get("annotations") or {}
    return annotations.get(QUEUE_ANNOTATION)
