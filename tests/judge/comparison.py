"""What of two sides' objects is compared, and how they differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
_DROPPED: Final = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "lastUpdateTime",
    "lastTransitionTime",
    "lastReconcileTime",
    "lastProbeTime",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
}
_TIMES: Final = {"startTime", "completionTime"}
_GENERATED: Final = re.compile(r"^(train-launcher)-[a-z0-9]{5}$")
_JOBS: Final = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
_KEYED: Final = ("name", "type", "key")
"""Members by which items of lists are told apart."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the sides differ."""

    case: str
    step: int
    path: str
    theirs: Any
    ours: Any

    @property
    def place(self) -> str:
        """Case and path, as rules match them."""
        return f"{self.case}:{self.path}"


def differences(case: str, step: int, theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> Iterator[Difference]:
    """Yield how two snapshots of a case differ."""
    left, right = comparable(theirs), comparable(ours)
    for path, one, other in _differ("", left, right):
        yield Difference(case, step, path, one, other)


def comparable(snapshot: Mapping[str, Json]) -> Json:
    """Return a snapshot without what cannot be equal; events are the reasons on the job."""
    found: Json = {}
    events: set[str] = set()
    for key, body in snapshot.items():
        kind, _, name = key.partition("/")
        if kind == "Event":
            if body.get("involvedObject", {}).get("kind") in _JOBS:
                events.add(f"{body.get('type')} {body.get('reason')}")
            continue
        name = _GENERATED.sub(r"\1-*", name)
        found[f"{kind}/{name}"] = _cleaned(kind, body)
    found["Events"] = dict.fromkeys(sorted(events), True)
    return found


def _cleaned(kind: str, body: Json) -> Json:
    shown: Json = {key: value for key, value in body.items() if key not in ("status", "apiVersion", "kind")}
    if kind in _JOBS:
        shown = {"status": body.get("status") or {}}
    elif kind == "Secret":
        shown["data"] = dict.fromkeys(body.get("data") or {}, "")
    elif kind == "Pod":
        shown["phase"] = (body.get("status") or {}).get("phase")
        if "deletionTimestamp" in body["metadata"]:
            shown["phase"] = "terminating"
    cleaned: Json = _without(shown)
    return cleaned


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: ("set" if key in _TIMES else _without(one))
            for key, one in value.items()
            if key not in _DROPPED and one not in ({}, [], None)
        }
    if isinstance(value, list):
        return [_without(one) for one in value]
    if isinstance(value, str):
        return _GENERATED.sub(r"\1-*", value)
    return value


def _differ(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if left == right:
        return
    if isinstance(left, list) and isinstance(right, list):
        left, right = _by_key(left), _by_key(right)
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _differ(f"{path}.{key}" if path else key, left.get(key), right.get(key))
        return
    yield path, left, right


def _by_key(items: Sequence[Any]) -> Json:
    for member in _KEYED:
        if items and all(isinstance(one, dict) and member in one for one in items):
            names = [str(one[member]) for one in items]
            if len(set(names)) == len(names):
                return {f"[{name}]": one for name, one in zip(names, items, strict=True)}
    return {f"[{at}]": one for at, one in enumerate(items)}
