"""``strato queue``: create, list, get, operate and delete queues (spec volcano-cli A3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.api import catalog
from strato.api.quantity import resource_text
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.inputs import INPUT_FILE, NEW_NAME
from strato.cli.listing import Listing, Moment, listing_options, show_list, show_page, watch_option
from strato.cli.objectnames import object_name
from strato.cli.output import fitted_table, output_option, text_of
from strato.cli.statesource import StateSource
from strato.cli.verbs import VerbGroup
from strato.cli.watching import Source
from strato.client.cluster import Cluster, Json
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.scheduler.dryrun.trial import Copy

HEADERS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 8)


@click.group(cls=VerbGroup)
def queue() -> None:
    """Create, list, get, operate and delete queues."""


@queue.command()
@click.option("-n", "--name", default="test", show_default=True, type=NEW_NAME, help="Name of the queue.")
@click.option(
    "-w", "--weight", default=1, show_default=True, type=click.IntRange(1), help="Share relative to other queues."
)
@click.option("-S", "--state", default="Open", show_default=True, hidden=True)
@click.pass_context
def create(ctx: click.Context, name: str, weight: int, state: str) -> None:
    """Create a queue."""
    del state  # status is a subresource: a state given at creation never took effect, here or in Volcano
    body = _queue_body(name, weight)
    with_cluster(ctx, lambda cluster: cluster.create(catalog.QUEUE, body))
    click.echo(f"create queue {name} successfully")


def _queue_body(name: str, weight: int) -> Json:
    return {
        "apiVersion": catalog.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight},
    }


@queue.command()
@object_name("-n", help="Name of the queue.")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Delete a queue."""
    with_cluster(ctx, lambda cluster: cluster.delete(catalog.QUEUE, name))
    click.echo(f"delete queue {name} successfully")


@queue.command()
@object_name("-n", help="Name of the queue.")
@click.option("-a", "--action", required=True, type=click.Choice(["open", "close", "update"]), help="What to do.")
@click.option("-w", "--weight", default=0, type=int, help="New weight, for update.")
@click.pass_context
def operate(ctx: click.Context, name: str, action: str, weight: int) -> None:
    """Open or close a queue, or update its weight."""
    if action == "update" and weight <= 0:
        raise UsageError(f"when updating the queue weight, --weight must be greater than 0, got {weight}")

    async def work(cluster: Cluster) -> None:
        if action == "update":
            await cluster.patch(catalog.QUEUE, name, "", {"spec": {"weight": weight}})
            return
        target = await cluster.get(catalog.QUEUE, name)
        await issue_command(cluster, target, "OpenQueue" if action == "open" else "CloseQueue", namespace="default")

    with_cluster(ctx, work)
    click.echo(f"{action} queue {name} successfully")


@queue.command(name="list")
@listing_options
@click.option("--totals", "of_totals", is_flag=True, help="Show what queues share instead: nodes that count, by group.")
@click.option(
    "--scheduler-name", "names", multiple=True, help="With --totals: whose pods share; others' are taken off."
)
@click.option("--when", "of_starts", is_flag=True, help="Show instead when the jobs that wait in them are to start.")
@click.pass_context
def list_queues(
    ctx: click.Context, output: str, watching: bool, of_totals: bool, names: tuple[str, ...], of_starts: bool
) -> None:
    """List all queues."""
    if of_starts:
        if watching or of_totals or output not in ("table", "json", "yaml"):
            raise UsageError("--when is a table of this moment; leave out -w and --totals, -o is table, json or yaml")
        click.echo(_starts(ctx, output))
        return
    if not of_totals:
        show_list(ctx, QUEUES, output, watching=watching)
        return
    if watching or output != "table":
        raise UsageError("--totals is a table of this moment; leave out -w and -o")
    from strato.cli.totals import HEADERS as TOTALS
    from strato.cli.totals import totals
    from strato.scheduler.options import SchedulerOptions

    rows = with_cluster(ctx, lambda cluster: totals(cluster, names or SchedulerOptions().names))
    click.echo("\n".join("".join(f"{cell!s:<20}" for cell in row).rstrip() for row in (TOTALS, *rows)))


def _starts(ctx: click.Context, output: str) -> str:
    """Return when the waiting jobs of all queues start, by queue and then by time."""
    from strato.cli.foresight import duration, look
    from strato.clock import format_time

    foresight = look(ctx, (), None, None, seed=0)
    found = [(one, foresight.interval(one)) for one in foresight.starts(draws=7).values()]
    found.sort(key=lambda pair: (pair[0].queue, pair[1].middle, pair[0].name))
    if output != "table":
        items = [
            {
                "queue": one.queue,
                "job": one.name,
                **dict(zip(("startSeconds", "earliestSeconds", "latestSeconds"), map(_finite, interval), strict=True)),
                "reason": one.reason,
            }
            for one, interval in found
        ]
        return text_of({"items": items}, output)
    now = foresight.copy.now
    rows = [
        (
            one.queue,
            one.name,
            *map(duration, interval),
            format_time(now + interval.middle) if _finite(interval.middle) is not None else "-",
            one.reason,
        )
        for one, interval in found
    ]
    return (
        fitted_table(("Queue", "Job", "Start", "Earliest", "Latest", "At", "Reason"), rows) if rows else "no job waits"
    )


def _finite(seconds: float) -> float | None:
    return round(seconds) if math.isfinite(seconds) else None


@queue.command()
@object_name("-n", help="Name of the queue.")
@listing_options
@click.pass_context
def get(ctx: click.Context, name: str, output: str, watching: bool) -> None:
    """Show one queue."""
    show_list(ctx, QUEUES, output, watching=watching, name=name)


@queue.command()
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Take the state from manifests instead.")
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@output_option
@watch_option
@click.pass_context
def tree(ctx: click.Context, paths: tuple[str, ...], config: Path | None, output: str, watching: bool) -> None:
    """Show the queues as a tree, with what each holds and deserves.

    The scheduler's engine decides one cycle on a copy of the state; the table is what it leaves. Nothing is changed
    anywhere. DESERVED and SHARE (what is held of it) are those of the plugin that shares the cluster, such as
    proportion, capacity, yarnfair or yarncapacity. With -w it is decided and shown again when queues, pod groups or
    nodes change.
    """
    from strato.cli import states
    from strato.scheduler.dryrun.queuetree import HEADERS as TREE
    from strato.scheduler.dryrun.queuetree import queue_tree

    if watching and paths:
        raise UsageError("-w follows the cluster, -f takes the state from manifests: leave out one of them")
    source = StateSource(paths, config)

    def render(copy: Copy) -> str:
        found = queue_tree(copy)
        if output == "table":
            return fitted_table(TREE, [one.row() for one in found])
        document = "---\n" if watching and output == "yaml" else ""
        return document + text_of({"queues": [one.to_json() for one in found]}, output)

    if not watching:
        click.echo(render(states.copy_for(ctx, source)[1]))
        return

    async def read(cluster: Cluster) -> Copy:
        return states.copy_of(*await states.read_cluster(cluster, config), source.base)

    sources = [Source(kind) for kind in (catalog.QUEUE, catalog.PODGROUP, catalog.NODE)]
    show_page(ctx, sources, read, render, watching=True)


async def _counts(_: Cluster, __: str, ___: Sequence[Json], groups: Sequence[Json]) -> Counter[tuple[str, str]]:
    """Return the number of pod groups by queue and phase, counted from the pod groups as ``vcctl`` does."""
    return Counter(
        (group.get("spec", {}).get("queue", "default"), group.get("status", {}).get("phase", "Pending"))
        for group in groups
    )


def _cells(queue: Json, moment: Moment) -> list[Any]:
    name, spec = queue["metadata"]["name"], queue.get("spec", {})
    phases = [moment.summary[name, phase] for phase in ("Inqueue", "Pending", "Running", "Unknown", "Completed")]
    state = queue.get("status", {}).get("state", "")
    return [name, spec.get("weight", 1), state, spec.get("parent", ""), *phases]


def _wide_cells(queue: Json, moment: Moment) -> list[Any]:
    spec, status = queue.get("spec", {}), queue.get("status", {})
    lists = (spec.get("capability"), spec.get("deserved"), spec.get("guarantee", {}).get("resource"))
    amounts = [_amounts(one) for one in (*lists, status.get("allocated"))]
    return [moment.age(queue), spec.get("reclaimable", True), *amounts]


def _amounts(resources: Json | None) -> str:
    return ",".join(f"{name}={resource_text(name, amount)}" for name, amount in sorted((resources or {}).items()))


QUEUES = Listing(
    kind=catalog.QUEUE,
    headers=HEADERS,
    row=_cells,
    wide_headers=("Age", "Reclaimable", "Capability", "Deserved", "Guarantee", "Allocated"),
    wide_row=_wide_cells,
    phase="State",
    also=catalog.PODGROUP,
    summarize=_counts,
    widths=WIDTHS,
)
"""Queues as ``strato queue list`` shows them."""
