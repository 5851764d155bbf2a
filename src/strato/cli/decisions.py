"""Decisions of a dry run as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from strato.api.counted import names_text
from strato.api.meta import Json
from strato.api.quantity import resource_text
from strato.cli.output import fitted_table


def decisions_text(decided: Json) -> str:
    """Return the decisions of each cycle as text; kinds of decisions that a cycle did not make are left out."""
    parts = []
    for number, cycle in enumerate(decided["cycles"], 1):
        parts.append(f"Cycle {number}: {_summary(cycle)}")
        parts += _tables(cycle)
    return "\n\n".join(parts)


def _summary(cycle: Json) -> str:
    counts = [
        (len(cycle["binds"]), "bound"),
        (len(cycle["evictions"]), "evicted"),
        (len(cycle["pipelined"]), "promised a place"),
        (len(cycle["unschedulable"]), "waiting"),
    ]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing to decide"


def _tables(cycle: Json) -> Iterator[str]:
    yield from _table(("POD", "NODE"), [(b["pod"], b["node"]) for b in cycle["binds"]])
    yield from _table(("EVICTED", "FOR", "ACTION"), [(e["pod"], e["by"], _action(e)) for e in cycle["evictions"]])
    yield from _table(("PROMISED", "NODE"), [(p["pod"], p["node"]) for p in cycle["pipelined"]])
    waiting: dict[str, list[str]] = {}
    for pod in cycle["unschedulable"]:
        waiting.setdefault(_why(pod["reasons"]), []).append(pod["pod"])
    yield from _table(("WAITING", "WHY"), [(_pods(pods), why) for why, pods in waiting.items()])
    groups = [(g["name"], g["phase"], _condition(g["conditions"])) for g in cycle["podGroups"]]
    yield from _table(("PODGROUP", "PHASE", "CONDITION"), groups)
    rows = [
        (q["name"], _amounts(q["allocated"]), _amounts(q["deserved"]) or "-", f"{q['share']:.2f}", _yes(q["overused"]))
        for q in cycle["queues"]
    ]
    yield from _table(("QUEUE", "ALLOCATED", "DESERVED", "SHARE", "OVERUSED"), rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    if rows:
        yield fitted_table(headers, rows)


def _pods(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} pods: {names_text(names)}"


def _action(eviction: Json) -> str:
    to = eviction.get("movesTo")
    return f"{eviction['action']}, moves to {to}" if to else str(eviction["action"])


def _why(reasons: Sequence[Json]) -> str:
    by_text: Counter[str] = Counter()
    for reason in reasons:
        by_text[reason["reason"]] += reason["nodes"]
    return "; ".join(f"{nodes} node(s): {text}" if nodes else text for text, nodes in by_text.items())


def _condition(conditions: Sequence[Json]) -> str:
    return ", ".join(f"{c['type']}: {c['reason']}" for c in conditions if c["status"] == "True")


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {resource_text(name, amount)}" for name, amount in amounts.items())


def _yes(value: bool) -> str:
    return "yes" if value else "no"
