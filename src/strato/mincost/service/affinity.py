"""Converts affinity as Poseidon sends it to rules and preferences of a task. Every topology is the machine."""

from __future__ import annotations

from typing import Any, TypedDict

from strato.mincost.world import Beside, Liking, Preferred, Selector

Values = dict[str, Any]


class Rules(TypedDict):
    """Fields of `Task` that affinity fills."""

    one_of: tuple[tuple[Selector, ...], ...]
    preferred: tuple[Preferred, ...]
    near: tuple[Beside, ...]
    apart: tuple[Beside, ...]
    likes: tuple[Liking, ...]


def of(affinity: Values | None, namespace: str) -> Rules:
    """Read an Affinity message; terms without namespaces mean the task's own."""
    affinity = affinity or {}
    nodes, pods, anti = ((affinity.get(part) or {}) for part in ("nodes", "pods", "anti_pods"))
    liked = [Liking(_weight(w), _beside(w["term"], namespace)) for w in pods.get("preferred", ()) if w["term"]]
    kept_from = [Liking(-_weight(w), _beside(w["term"], namespace)) for w in anti.get("preferred", ()) if w["term"]]
    return Rules(
        one_of=tuple(_selectors(term) for term in (nodes.get("required") or {}).get("terms", ())),
        preferred=tuple(
            Preferred(_weight(p), _selectors(p["term"])) for p in nodes.get("preferred", ()) if p["term"] is not None
        ),
        near=tuple(_beside(term, namespace) for term in pods.get("required", ())),
        apart=tuple(_beside(term, namespace) for term in anti.get("required", ())),
        likes=(*liked, *kept_from),
    )


def _weight(weighted: Values) -> int:
    value = int(weighted["weight"])
    return value - (1 << 64) if value >> 63 else value


def _selectors(term: Values) -> tuple[Selector, ...]:
    return tuple(Selector(e["key"], e["operator"], tuple(e["values"])) for e in term["expressions"])


def _beside(term: Values, namespace: str) -> Beside:
    selector = term["selector"] or {"labels": None, "expressions": []}
    label = selector["labels"]
    wanted = (Selector(label["key"], "In", (label["value"],)),) if label and label["key"] else ()
    return Beside((*wanted, *_selectors(selector)), tuple(term["namespaces"]) or (namespace,))
