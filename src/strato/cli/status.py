"""``strato status``: the cluster's process, nodes, pods and queues, and how full they are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import click

from strato.api import catalog, quantity
from strato.cli.connect import NoCluster, home_of
from strato.cli.home import Home
from strato.cli.listing import show_page, watch_option
from strato.cli.output import fitted_table, output_option, text_of
from strato.cli.watching import Source
from strato.client.cluster import Cluster, Json
from strato.units import human_bytes

_SHOWN_NODES = 10
_ISOLATION = {
    "root": "processes in namespaces of their own (mount, PID, host name, IPC, network)",
    "user": "processes in user namespaces (mount, PID, host name, IPC)",
    "plain": "plain processes",
}


@click.command()
@output_option
@watch_option
@click.pass_context
def status(ctx: click.Context, output: str, watching: bool) -> None:
    """Show the cluster's nodes, pods, queues and anything that deserves a look."""
    home = home_of(ctx)
    pid = home.running_pid()
    if pid is None and not ctx.find_root().obj["kubeconfig"]:
        raise NoCluster(f"no cluster runs in {home.path}; start one with 'strato up'")

    def page(read: _Objects) -> str:
        report = _report(home, pid, *read)
        return "\n".join(_written(report)) if output == "table" else text_of(report, output)

    show_page(
        ctx, [Source(kind) for kind in (catalog.NODE, catalog.POD, catalog.QUEUE)], _read, page, watching=watching
    )


_Objects = tuple[Sequence[Json], Sequence[Json], Sequence[Json], Sequence[Json]]


def _report(
    home: Home,
    pid: int | None,
    nodes: Sequence[Json],
    pods: Sequence[Json],
    queues: Sequence[Json],
    events: Sequence[Json],
) -> Json:
    """Return the status as the data that ``-o json`` prints."""
    report: Json = {} if pid is None else {"process": pid, "home": str(home.path), "sandbox": home.ready().get("node")}
    report |= {
        "nodes": _nodes(nodes, pods),
        "pods": dict(sorted(Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods).items())),
        "queues": {q["metadata"]["name"]: q.get("status", {}).get("state") or "new" for q in queues},
        "substituted": dict(Counter(event.get("message", "") for event in events).most_common()),
    }
    return report


def _written(report: Json) -> Iterator[str]:
    if "process" in report:
        yield f"cluster: process {report['process']}, state in {report['home']}"
    sandbox = report.get("sandbox")
    if sandbox:
        yield f"pods on {sandbox['name']}: {_ISOLATION[sandbox['isolation']]}; addresses in {sandbox['pod_network']}"
        if sandbox["isolation"] == "root":
            users = "their own" if sandbox.get("own_users") else "this machine's, unless it says hostUsers: false"
            yield f"users of a pod on {sandbox['name']}: {users}"
        if sandbox.get("gpus"):
            models = Counter(sandbox["gpus"])
            yield f"gpus of {sandbox['name']}: " + ", ".join(f"{count} {model}" for model, count in models.items())
        yield from (f"warning: {warning}" for warning in sandbox["warnings"])
    yield _node_table(report["nodes"])
    yield "pods: " + (", ".join(f"{count} {phase}" for phase, count in report["pods"].items()) or "none")
    yield "queues: " + ", ".join(f"{name} ({state})" for name, state in report["queues"].items())
    if report["substituted"]:
        yield "images that ran on this machine's own root (strato/host), as --no-strict-images allows:"
        for message, count in list(report["substituted"].items())[:10]:
            yield f"  {message} (x{count})" if count > 1 else f"  {message}"


async def _read(cluster: Cluster) -> _Objects:
    pages = await asyncio.gather(
        cluster.list(catalog.NODE),
        cluster.list(catalog.POD),
        cluster.list(catalog.QUEUE),
        cluster.list(catalog.EVENT, field_selector="reason=ImageSubstituted"),
    )
    nodes, pods, queues, events = (page.items for page in pages)
    return nodes, pods, queues, events


def _nodes(nodes: Sequence[Json], pods: Sequence[Json]) -> list[Json]:
    used = _used_by_node(pods)
    rows = []
    for node in nodes:
        name, allocatable = node["metadata"]["name"], node.get("status", {}).get("allocatable", {})
        cpu, memory = used.get(name, (0, 0))
        rows.append(
            {
                "name": name,
                "ready": _is_ready(node),
                "cpuMillicores": quantity.milli(allocatable.get("cpu", "0")),
                "cpuMillicoresRequested": cpu,
                "memoryBytes": quantity.value(allocatable.get("memory", "0")),
                "memoryBytesRequested": memory,
            }
        )
    return rows


def _node_table(nodes: Sequence[Json]) -> str:
    rows = [
        (
            node["name"],
            "Ready" if node["ready"] else "NotReady",
            f"{node['cpuMillicoresRequested'] / 1000:g} of {node['cpuMillicores'] / 1000:g}",
            f"{human_bytes(node['memoryBytesRequested'])} of {human_bytes(node['memoryBytes'])}",
        )
        for node in nodes[:_SHOWN_NODES]
    ]
    table = fitted_table(("Node", "Status", "Cpu requested", "Memory requested"), rows)
    more = len(nodes) - _SHOWN_NODES
    ready = sum(node["ready"] for node in nodes)
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
