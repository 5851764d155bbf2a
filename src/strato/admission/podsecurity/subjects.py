"""The parts of a pod that the checks of pod security read, and how messages name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from strato.api.meta import Json as Json


def containers(spec: Json) -> Iterator[Json]:
    """Yield all containers of a pod."""
    for member in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(member) or ()


def security(subject: Json) -> Json:
    """Return the security context of a pod or a container."""
    return subject.get("securityContext") or {}


def quoted(items: Collection[str]) -> str:
    """Return items as they are listed in messages."""
    return ", ".join(f'"{item}"' for item in items)


def plural(one: str, items: Collection[str], many: str = "") -> str:
    """Return a word for one item, or for several."""
    return one if len(items) == 1 else many or f"{one}s"


def named(what: str, items: Collection[str]) -> str:
    """Return items with what they are."""
    return f"{plural(what, items)} {quoted(items)}"


def who_sets(in_pod: bool, containers: Sequence[str]) -> str:
    """Return what sets a field, for messages: the pod, or which containers."""
    found = ["pod"] if in_pod else []
    if containers:
        found.append(named("container", containers))
    return " and ".join(found)
