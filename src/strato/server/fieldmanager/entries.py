"""``metadata.managedFields``: convert entries to owners and back, order and cap them, and identify managers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from strato.errors import Cause, Conflict
from strato.server.fieldmanager.paths import InvalidFields, read_set, union, write_set
from strato.server.fieldmanager.updater import Managed, Owned

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
"""Most entries of updates in an object; the oldest are merged if there are more."""
_MAX_ENTRIES = 500
"""Most entries that a client may send, as every write compares each of them."""
ANCIENT = "ancient-changes"
CONFLICT = "FieldManagerConflict"
Entry = dict[str, Any]


class Identity(NamedTuple):
    """An owner of fields. A manager that applies has one identity, whatever version it applied last."""

    manager: str
    operation: str
    api_version: str = ""
    """API version of an update; empty for an apply."""
    subresource: str = ""

    def text(self) -> str:
        """Return the identity as text, by which owners are sorted."""
        members = (
            ("manager", self.manager),
            ("operation", self.operation),
            ("apiVersion", self.api_version),
            ("subresource", self.subresource),
        )
        return msgspec.json.encode({name: value for name, value in members if value}).decode()

    def described(self, time: str = "") -> str:
        """Return the owner's description in the message of a conflict."""
        text = json.dumps(self.manager, ensure_ascii=False)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource, ensure_ascii=False)}"
        if self.operation == UPDATE:
            text += f" using {self.api_version}" + (f" at {time}" if time else "")
        return text


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """Return the identity of a writer."""
    return Identity(manager or "unknown", operation, api_version if operation == UPDATE else "", subresource)


class InvalidEntries(ValueError):
    """Entries cannot be parsed."""


def is_reset(entries: Any) -> bool:
    """Return whether the entries that a client has sent ask to drop all entries."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not any(_values(entries[0]))))


def _values(entry: Any) -> Sequence[Any]:
    return list(entry.values()) if isinstance(entry, dict) else [entry]


def conflict_error(conflicts: Sequence[tuple[Identity, str]], times: Mapping[Identity, str] | None = None) -> Conflict:
    """Return the error for applied fields that others own, given as pairs of an owner and the text of a path."""
    described = {owner: owner.described((times or {}).get(owner, "")) for owner, _ in conflicts}
    causes = [Cause(CONFLICT, f"conflict with {described[owner]}", path) for owner, path in conflicts]
    if len(conflicts) == 1:
        return Conflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes=causes)
    lines = {owner: [f"conflicts with {described[owner]}:"] for owner in sorted(described, key=Identity.text)}
    for owner, path in conflicts:
        lines[owner].append(f"- {path}")
    text = "\n".join(line for each in lines.values() for line in each)
    return Conflict(f"Apply failed with {len(conflicts)} conflicts: {text}", causes=causes)


def read_entries(entries: Any) -> Managed:
    """Return the owners in entries; of two entries with one identity the later counts.

    Raises:
        InvalidEntries: An entry cannot be parsed.
    """
    managed: Managed = {}
    if len(entries or ()) > _MAX_ENTRIES:
        raise InvalidEntries(f"{len(entries)} managed fields entries are more than {_MAX_ENTRIES}")
    for at, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            raise InvalidEntries(f"managed fields entry {at} is no object")
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise InvalidEntries(f'invalid operation "{operation or ""}" in managed fields entry {at}')
        if not isinstance(version, str) or not version:
            raise InvalidEntries(f"missing apiVersion in managed fields entry {at}")
        kind = entry.get("fieldsType")
        if kind != "FieldsV1":
            problem = f'invalid fieldsType "{kind}"' if kind else "missing fieldsType"
            raise InvalidEntries(f"{problem} in managed fields entry {at}")
        names = [entry.get(name) or "" for name in ("manager", "subresource", "time")]
        if not all(isinstance(name, str) for name in names):
            raise InvalidEntries(f"manager, subresource and time of managed fields entry {at} must be strings")
        try:
            fields = read_set(entry.get("fieldsV1"))
        except InvalidFields as error:
            raise InvalidEntries(f"error decoding set of managed fields entry {at}: {error}") from error
        owner = Identity(names[0], operation, version if operation == UPDATE else "", names[1])
        managed[owner] = Owned(fields, version, names[2])
    return managed


def write_entries(managed: Mapping[Identity, Owned]) -> list[Entry]:
    """Return owners as entries, in their order in an object."""
    entries = []
    for owner, owned in managed.items():
        entry: Entry = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owned.api_version}
        if owned.time:
            entry["time"] = owned.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": write_set(owned.fields)}
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append({name: value for name, value in entry.items() if value != ""})
    return sorted(entries, key=order)


def order(entry: Entry) -> tuple[Any, ...]:
    """Return the sort key of an entry in an object."""
    manager, operation, version, sub, time = (
        entry.get(name, "") for name in ("manager", "operation", "apiVersion", "subresource", "time")
    )
    return operation, _seconds(time), manager, version, sub


def _seconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp()) if text else 0
    except ValueError:
        return 0


def capped(managed: Managed, most: int = MAX_UPDATERS) -> Managed:
    """Return the owners after merging the oldest updates, by version, until at most ``most`` are left."""
    updaters = [owner for owner in managed if owner.operation == UPDATE]
    count = len(updaters)
    if count <= most:
        return managed
    result = {**managed}
    first: dict[str, Identity] = {}
    for owner in sorted(updaters, key=lambda owner: (_seconds(managed[owner].time), owner.text())):
        if count <= most:
            break
        owned = result[owner]
        version = owned.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Identity(ANCIENT, UPDATE, version)
        if bucket not in result:
            result[bucket] = result.pop(first[version])
        fields = union(owned.fields, result[bucket].fields)
        result.pop(owner, None)
        result[bucket] = Owned(fields, version, owned.time)
        count -= 1
    return result
