"""``strato queue``: create, list, get, operate and delete queues (spec volcano-cli A3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from strato.api import catalog
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.inputs import NAME
from strato.cli.output import NOTHING_FOUND, fixed_table, output_option, print_objects
from strato.cli.verbs import VerbFailed, VerbGroup
from strato.client.cluster import Cluster, Json

HEADERS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
WIDTHS = (25, 8, 8, 8, 8, 8, 8, 8, 8)


@click.group(cls=VerbGroup)
def queue() -> None:
    """Create, list, get, operate and delete queues."""


@queue.command()
@click.option("-n", "--name", default="test", show_default=True, help="Name of the queue.")
@click.option("-w", "--weight", default=1, show_default=True, type=int, help="Share relative to other queues.")
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
@click.option("-n", "--name", required=True, type=NAME, help="Name of the queue.")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Delete a queue."""
    with_cluster(ctx, lambda cluster: cluster.delete(catalog.QUEUE, name))
    click.echo(f"delete queue {name} successfully")


@queue.command()
@click.option("-n", "--name", required=True, type=NAME, help="Name of the queue.")
@click.option("-a", "--action", required=True, type=click.Choice(["open", "close", "update"]), help="What to do.")
@click.option("-w", "--weight", default=0, type=int, help="New weight, for update.")
@click.pass_context
def operate(ctx: click.Context, name: str, action: str, weight: int) -> None:
    """Open or close a queue, or update its weight."""

    async def work(cluster: Cluster) -> None:
        if action == "update":
            if weight <= 0:
                raise VerbFailed(f"when updating the queue weight, --weight must be greater than 0, got {weight}")
            await cluster.patch(catalog.QUEUE, name, "", {"spec": {"weight": weight}})
            return
        target = await cluster.get(catalog.QUEUE, name)
        await issue_command(cluster, target, "OpenQueue" if action == "open" else "CloseQueue", namespace="default")

    with_cluster(ctx, work)
    click.echo(f"{action} queue {name} successfully")


@queue.command(name="list")
@output_option
@click.pass_context
def list_queues(ctx: click.Context, output: str) -> None:
    """List all queues."""
    queues, counts = with_cluster(ctx, lambda cluster: _read(cluster, None))
    _show(queues, counts, output, single=False)


@queue.command()
@click.option("-n", "--name", required=True, type=NAME, help="Name of the queue.")
@output_option
@click.pass_context
def get(ctx: click.Context, name: str, output: str) -> None:
    """Show one queue."""
    queues, counts = with_cluster(ctx, lambda cluster: _read(cluster, name))
    _show(queues, counts, output, single=True)


async def _read(cluster: Cluster, name: str | None) -> tuple[Sequence[Json], Counter[tuple[str, str]]]:
    """Return queues and the number of pod groups by (queue, phase), counted here as Volcano's tool does."""
    queues = [await cluster.get(catalog.QUEUE, name)] if name else (await cluster.list(catalog.QUEUE)).items
    groups = (await cluster.list(catalog.PODGROUP)).items
    counts = Counter(
        (group.get("spec", {}).get("queue", "default"), group.get("status", {}).get("phase", "Pending"))
        for group in groups
    )
    return queues, counts


def _show(queues: Sequence[Json], counts: Counter[tuple[str, str]], output: str, *, single: bool) -> None:
    if output != "table":
        print_objects(catalog.QUEUE, queues, output, single=single)
    elif not queues:
        click.echo(NOTHING_FOUND)
    else:
        click.echo(fixed_table(HEADERS, WIDTHS, [_row(queue, counts) for queue in queues]))


def _row(queue: Json, counts: Counter[tuple[str, str]]) -> list[Any]:
    name, spec = queue["metadata"]["name"], queue.get("spec", {})
    phases = [counts[name, phase] for phase in ("Inqueue", "Pending", "Running", "Unknown", "Completed")]
    state = queue.get("status", {}).get("state", "")
    return [name, spec.get("weight", 1), state, spec.get("parent", ""), *phases]
