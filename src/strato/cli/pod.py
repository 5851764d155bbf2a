"""``strato pod list``: the pods of jobs and queues (spec volcano-cli A4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from strato.api import catalog
from strato.api.volcano.scheduling import QUEUE_ANNOTATION
from strato.cli.connect import with_cluster
from strato.cli.listing import Listing, Rows, Ticking, listing_options, show_list
from strato.cli.output import NOTHING_FOUND, all_namespaces_option, fixed_table
from strato.cli.verbs import VerbFailed, VerbGroup
from strato.cli.watching import Objects, Source, watch
from strato.client.cluster import Cluster, Json

JOB_LABEL = "volcano.sh/job-name"
QUEUE_LABEL = "volcano.sh/queue-name"
HEADERS = ("Name", "Ready", "Status", "Restart", "Age")
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod as the server prints it."""

    metadata: Json
    cells: tuple[str, ...]
    """Cells in the order of `HEADERS`."""


@click.group(cls=VerbGroup)
def pod() -> None:
    """List the pods of jobs and queues."""


@pod.command(name="list")
@click.option("-q", "--queue", default="", help="Only pods of this queue.")
@click.option("-j", "--job", "job_name", default="", help="Only pods of this job.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@all_namespaces_option("Pods of every namespace.")
@listing_options
@click.pass_context
def list_pods(
    ctx: click.Context, queue: str, job_name: str, namespace: str, all_namespaces: bool, output: str, watching: bool
) -> None:
    """List pods of jobs; without --job and --queue of all jobs."""
    scope = "" if all_namespaces else namespace
    labels = _selector(queue, job_name)
    if output not in ("table", "wide"):
        pods = Listing(kind=catalog.POD, headers=HEADERS, row=lambda *_: ())

        def keep(item: Json) -> bool:
            return bool(select([PodRow(item["metadata"], ())], queue, job_name))

        show_list(ctx, pods, output, watching=watching, namespace=scope, labels=labels, keep=keep)
    elif watching:
        with_cluster(ctx, lambda cluster: _go_on(cluster, scope, queue, job_name))
    else:
        rows = select(with_cluster(ctx, lambda cluster: read_rows(cluster, scope, labels)), queue, job_name)
        click.echo(pod_table(rows, with_namespace=all_namespaces) if rows else NOTHING_FOUND)


async def _go_on(cluster: Cluster, scope: str, queue: str, job_name: str) -> None:
    """Print pods, then those that change, as rows of the server's table."""
    labels = _selector(queue, job_name)
    lines = Rows(HEADERS if scope else ("Namespace", *HEADERS), phase="Status", gap=8)

    async def show(_: Sequence[Objects]) -> bool:
        rows = select(await read_rows(cluster, scope, labels), queue, job_name)
        found = {}
        for row in rows:
            place = row.metadata.get("namespace", "")
            cells = (*row.cells[:-1], Ticking(row.cells[-1]))
            found[place, row.metadata["name"]] = cells if scope else (place, *cells)
        lines.show(found)
        return False

    await watch(cluster, [Source(catalog.POD, scope, labels)], show)


def _selector(queue: str, job_name: str) -> str:
    """Return the label selector for the server, without the queue, which an annotation may name instead."""
    if job_name:
        return f"{JOB_LABEL}={job_name}"
    return "" if queue else JOB_LABEL


def select(rows: Sequence[PodRow], queue: str, job_name: str) -> list[PodRow]:
    """Return the rows asked for, by namespace and name.

    Raises:
        VerbFailed: A pod of the job is in another queue.
    """
    kept = []
    for row in rows:
        labels, annotations = row.metadata.get("labels") or {}, row.metadata.get("annotations") or {}
        if job_name and queue and labels.get(QUEUE_LABEL, queue) != queue:
            raise VerbFailed(f"the job {job_name} is in queue {labels[QUEUE_LABEL]!r}, not in queue {queue!r}")
        if queue and not job_name and queue not in (labels.get(QUEUE_LABEL), annotations.get(QUEUE_ANNOTATION)):
            continue
        kept.append(row)
    return sorted(kept, key=lambda row: (row.metadata.get("namespace", ""), row.metadata["name"]))


async def read_rows(cluster: Cluster, namespace: str, selector: str) -> list[PodRow]:
    """Request pods as a server-side table, whose cells (``Init:0/1``, ``Terminating``) the server computes."""
    query = {"labelSelector": selector, "includeObject": "Metadata"}
    body: dict[str, Any] = json.loads(await cluster.raw("GET", catalog.POD.path(namespace), query=query, accept=_TABLE))
    names = [column["name"] for column in body["columnDefinitions"]]
    places = [names.index(name) for name in ("Name", "Ready", "Status", "Restarts", "Age")]
    return [
        PodRow(row["object"]["metadata"], tuple(str(row["cells"][place]) for place in places))
        for row in body.get("rows") or ()
    ]


def pod_table(rows: Sequence[PodRow], *, with_namespace: bool) -> str:
    """Lay out one line per pod; a column is as wide as its longest value and eight more."""
    headers: tuple[str, ...] = HEADERS
    cells = [row.cells for row in rows]
    if with_namespace:
        headers = ("Namespace", *headers)
        cells = [(row.metadata.get("namespace", ""), *row.cells) for row in rows]
    widths = [max(max(len(cell[index]) for cell in cells) + 8, len(header) + 2) for index, header in enumerate(headers)]
    return fixed_table(headers, widths, cells)
