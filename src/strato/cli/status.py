"""``strato status``: what runs, and how full it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import click

from strato.api import catalog, quantity
from strato.cli.connect import home_of, with_cluster
from strato.cli.output import fitted_table
from strato.client.cluster import Cluster, Json
from strato.errors import UsageError
from strato.units import human_bytes

_SHOWN_NODES = 10


@click.command()
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show the cluster's nodes, pods, queues and anything that deserves a look."""
    home = home_of(ctx)
    pid = home.running_pid()
    if pid is None and not ctx.find_root().obj["kubeconfig"]:
        raise UsageError(f"no cluster runs in {home.path}; start one with 'strato up'")
    if pid is not None:
        click.echo(f"cluster: process {pid}, state in {home.path}")
    nodes, pods, queues, events = with_cluster(ctx, _read)
    click.echo(_nodes(nodes, pods))
    phases = Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods)
    click.echo("pods: " + (", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none"))
    states = [f"{queue['metadata']['name']} ({queue.get('status', {}).get('state') or 'new'})" for queue in queues]
    click.echo("queues: " + ", ".join(states))
    for line in _substitutions(events):
        click.echo(line)


async def _read(cluster: Cluster) -> tuple[Sequence[Json], Sequence[Json], Sequence[Json], Sequence[Json]]:
    pages = await asyncio.gather(
        cluster.list(catalog.NODE),
        cluster.list(catalog.POD),
        cluster.list(catalog.QUEUE),
        cluster.list(catalog.EVENT, field_selector="reason=ImageSubstituted"),
    )
    nodes, pods, queues, events = (page.items for page in pages)
    return nodes, pods, queues, events


def _nodes(nodes: Sequence[Json], pods: Sequence[Json]) -> str:
    used = _used_by_node(pods)
    rows = []
    for node in nodes[:_SHOWN_NODES]:
        name, allocatable = node["metadata"]["name"], node.get("status", {}).get("allocatable", {})
        cpu, memory = used.get(name, (0, 0))
        rows.append(
            (
                name,
                "Ready" if _is_ready(node) else "NotReady",
                f"{cpu / 1000:g} of {quantity.milli(allocatable.get('cpu', '0')) / 1000:g}",
                f"{human_bytes(memory)} of {human_bytes(quantity.value(allocatable.get('memory', '0')))}",
            )
        )
    table = fitted_table(("Node", "Status", "Cpu requested", "Memory requested"), rows)
    more = len(nodes) - _SHOWN_NODES
    ready = sum(_is_ready(node) for node in nodes)
    return table + (f"\n… and {more} more; {ready} of {len(nodes)} are Ready" if more > 0 else "")


def _is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _used_by_node(pods: Sequence[Json]) -> Mapping[str, tuple[int, int]]:
    """Return requested millicores and bytes per node, of pods that have not ended."""
    used: dict[str, tuple[int, int]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        cpu, memory = used.get(node, (0, 0))
        for container in pod["spec"]["containers"]:
            requests = container.get("resources", {}).get("requests", {})
            cpu += quantity.milli(requests.get("cpu", "0"))
            memory += quantity.value(requests.get("memory", "0"))
        used[node] = (cpu, memory)
    return used


def _substitutions(events: Sequence[Json]) -> list[str]:
    if not events:
        return []
    messages = Counter(event.get("message", "") for event in events)
    return ["images that ran on this machine's own root (strato/host), off with --strict-images:"] + [
        f"  {message} (x{count})" if count > 1 else f"  {message}" for message, count in messages.most_common(10)
    ]
