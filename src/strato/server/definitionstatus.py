"""The status of CustomResourceDefinitions: names, conditions, stored versions, deletion; pure.

A client may write into the status, but the server decides whether the names are accepted and the definition is
established, and keeps the storage version among the stored ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strato.api.meta import Json
from strato.api.status import invalid_value
from strato.clock import format_time
from strato.errors import Cause

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that a definition has from its deletion until its last object is gone."""
_NAMES = (
    ("plural", "Plural", "resources"),
    ("singular", "Singular", "resources"),
    ("shortNames", "ShortNames", "resources"),
    ("kind", "Kind", "kinds"),
    ("listKind", "ListKind", "kinds"),
)


def condition(crd: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition by type; empty if it is missing."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def is_true(crd: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition exists and is True."""
    return condition(crd, kind).get("status") == "True"


def set_condition(crd: Json, kind: str, status: str, reason: str, message: str, now: float) -> None:
    """Set a condition in place; its transition time changes only with its status."""
    known = condition(crd, kind)
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    made = {"lastTransitionTime": since or format_time(now), "message": message, "reason": reason}
    conditions: list[Any] = crd["status"].setdefault("conditions", [])
    made |= {"status": status, "type": kind}
    if known:
        conditions[:] = [made if one is known else one for one in conditions]
    else:
        conditions.append(made)


def note_storage_version(crd: Json) -> None:
    """Add the storage version to the stored ones, in place."""
    stored = crd.setdefault("status", {}).setdefault("storedVersions", [])
    stored += [one["name"] for one in crd["spec"]["versions"] if one.get("storage") and one["name"] not in stored]


def stored_version_problems(crd: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield a cause for each stored version that the definition no longer has."""
    stored = (crd.get("status") or {}).get("storedVersions") or []
    names = [one.get("name") for one in crd["spec"].get("versions") or ()]
    for index, name in enumerate(stored):
        if name not in names:
            yield invalid_value(
                f"status.storedVersions[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions",
            )


def accept_names(crd: Json, peers: Iterable[Mapping[str, Any]], now: float) -> None:
    """Decide, in place, which names the definition gets and whether it is established (served)."""
    used: dict[str, set[str]] = {"resources": set(), "kinds": set()}
    for peer in peers:
        if peer["metadata"]["name"] != crd["metadata"]["name"]:
            for member, _, space in _NAMES:
                used[space].update(_texts((peer.get("status") or {}).get("acceptedNames", {}).get(member)))
    asked, had = crd["spec"]["names"], crd["status"].get("acceptedNames") or {}
    accepted = {"kind": "", "plural": "", **had, **asked}
    verdict = ("True", "NoConflicts", "no conflicts found")
    for member, word, space in _NAMES:
        own = _texts(had.get(member))
        taken = [text for text in _texts(asked.get(member)) if text not in own and text in used[space]]
        if taken:
            texts = [f'"{text}" is already in use' for text in taken]
            verdict = ("False", f"{word}Conflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
            accepted[member] = had.get(member, "" if member in ("kind", "plural") else None)
        elif member not in asked:
            accepted[member] = None
    crd["status"]["acceptedNames"] = {member: value for member, value in accepted.items() if value is not None}
    set_condition(crd, "NamesAccepted", *verdict, now)
    if not is_true(crd, "Established"):
        if verdict[0] == "True":
            text = "the initial names have been accepted"
            set_condition(crd, "Established", "True", "InitialNamesAccepted", text, now)
        else:
            set_condition(crd, "Established", "False", "NotAccepted", "not all names are accepted", now)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def begin_deletion(crd: Json, now: float) -> None:
    """Mark a definition as terminating, in place, with a finalizer that keeps it until its objects are gone."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        crd["metadata"]["finalizers"] = [*finalizers, CLEANUP]
    crd["status"] = {**(crd.get("status") or {})}
    crd["status"]["conditions"] = list(crd["status"].get("conditions") or ())
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(crd, "Terminating", "True", "InstanceDeletionPending", text, now)


def end_deletion(crd: Json, now: float) -> bool:
    """Remove the finalizer, in place, after the last object is gone; return whether it was the last finalizer."""
    set_condition(crd, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances", now)
    left = [name for name in crd["metadata"].get("finalizers") or () if name != CLEANUP]
    crd["metadata"]["finalizers"] = left
    if not left:
        del crd["metadata"]["finalizers"]
    return not left
