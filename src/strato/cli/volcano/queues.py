"""Queues: create, delete, operate, list and get (spec volcano-cli A3), and ``vqueues`` (B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from strato.api import catalog
from strato.cli.volcano.asking import Failed, ask, named, order
from strato.cli.volcano.cobra import Values
from strato.cli.volcano.texts import NOTHING_FOUND, columns
from strato.client.cluster import Cluster, Json

_PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
_NAMELESS = "queue name must be specified"
_ACTIONS = {"open": "OpenQueue", "close": "CloseQueue"}


def create_queue(values: Values) -> None:
    """Create a queue; the state that is given never takes effect, as in Volcano, because status is a subresource."""
    body = {
        "apiVersion": catalog.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": values["name"]},
        "spec": {"weight": values["weight"]},
    }
    ask(values, lambda cluster: cluster.create(catalog.QUEUE, body))


def delete_queue(values: Values) -> None:
    """Delete a queue."""
    name = named(values, _NAMELESS)
    ask(values, lambda cluster: cluster.delete(catalog.QUEUE, name))


def operate_queue(values: Values) -> None:
    """Open or close a queue, or change its weight."""
    name, action, weight = named(values, _NAMELESS), values["action"], values["weight"]
    if action in _ACTIONS:
        order(values, catalog.QUEUE, name, _ACTIONS[action], "default")
    elif not action:
        raise Failed("action can not be null")
    elif action != "update":
        raise Failed(f"action {action} invalid, valid actions are open, close and update")
    elif weight == 0:
        raise Failed(f"when update queue {name}, weight must be specified, the value must be greater than 0")
    else:
        ask(values, lambda cluster: cluster.patch(catalog.QUEUE, name, "", {"spec": {"weight": weight}}))


def list_queues(values: Values) -> None:
    """Print all queues with the number of their pod groups in each phase."""
    _print_counted(values, "")


def get_queue(values: Values) -> None:
    """Print one queue with the number of its pod groups in each phase."""
    _print_counted(values, named(values, "name is mandatory to get the particular queue details"))


def _print_counted(values: Values, name: str) -> None:
    async def work(cluster: Cluster) -> tuple[Sequence[Json], Sequence[Json]]:
        queues = await _read(cluster, name)
        return queues, (await cluster.list(catalog.PODGROUP)).items if queues else ()

    queues, groups = ask(values, work)
    if not queues:
        click.echo(NOTHING_FOUND, nl=False)
        return
    counts = Counter(((g.get("spec") or {}).get("queue"), (g.get("status") or {}).get("phase")) for g in groups)
    rows = [
        [*_first(queue), queue["spec"].get("parent", ""), *(counts[queue["metadata"]["name"], p] for p in _PHASES)]
        for queue in queues
    ]
    click.echo(_table(["Name", "Weight", "State", "Parent", *_PHASES], rows), nl=False)


def list_statuses(values: Values) -> None:
    """Print queues with the counters of their status, which Volcano's controllers no longer update (``vqueues``)."""
    queues = ask(values, lambda cluster: _read(cluster, values["name"]))
    rows = [
        [*_first(queue), *((queue.get("status") or {}).get(phase.lower(), 0) for phase in _PHASES[:4])]
        for queue in queues
    ]
    click.echo(_table(["Name", "Weight", "State", *_PHASES[:4]], rows) if rows else NOTHING_FOUND, nl=False)


async def _read(cluster: Cluster, name: str) -> Sequence[Json]:
    return [await cluster.get(catalog.QUEUE, name)] if name else (await cluster.list(catalog.QUEUE)).items


def _first(queue: Json) -> list[object]:
    return [queue["metadata"]["name"], queue["spec"].get("weight", 0), (queue.get("status") or {}).get("state", "")]


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return columns([25, *(8 for _ in header[1:])], [header, *rows])
