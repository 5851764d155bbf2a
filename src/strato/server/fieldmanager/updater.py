"""Compute ownership after an update, which takes over the fields it changes, or an apply, which may conflict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from strato.api.meta import Json as Json
from strato.server.fieldmanager.merge import merge, reconcile, remove, with_named_fields
from strato.server.fieldmanager.paths import FieldSet, difference, intersection, union
from strato.server.fieldmanager.typed import Comparison, compare, field_set
from strato.server.fieldmanager.types import Type

Filter = Callable[[FieldSet], FieldSet]


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields that one manager owns."""

    fields: FieldSet
    api_version: str
    """The API version of the paths."""
    time: str = ""
    """When the set last changed, in RFC 3339; empty if unknown."""


Managed = dict[Any, Owned]
"""Owned fields by identity."""


class Versions(Protocol):
    """The versions of one kind."""

    def type_of(self, api_version: str) -> Type | None:
        """Return the type of a version; None if there is no such version."""

    def convert(self, obj: Any, api_version: str, to: str) -> Any:
        """Return a copy of an object converted between two existing versions."""


class Conflicts(Exception):
    """An applied configuration has other values in fields that others own."""

    def __init__(self, conflicts: Mapping[Any, FieldSet]) -> None:
        super().__init__(f"{len(conflicts)} managers own what would change")
        self.conflicts = conflicts
        """The conflicting paths by owner."""


def _everything(fields: FieldSet) -> FieldSet:
    return fields


@dataclass(frozen=True, slots=True)
class Updater:
    """Computes ownership for one kind and subresource."""

    versions: Versions
    filter_of: Callable[[str], Filter | None] = lambda _: None
    """Returns the filter of paths that a write in a version can change; None if it can change all."""

    def update(self, live: Any, new: Any, version: str, managed: Managed) -> tuple[Managed, FieldSet]:
        """Return the other owners after a write that changed ``live`` into ``new``, and the changed fields."""
        return self._taken_over(live, new, version, self._reconciled(managed), me=None, may_force=True)

    def apply(
        self, live: Any, applied: Any, version: str, managed: Managed, me: Hashable, *, force: bool
    ) -> tuple[Any, Managed]:
        """Return the merged object and its owners.

        Raises:
            Conflicts: The apply would change fields that others own, and ``force`` is not set.
            Misfit: The objects do not fit their type.
        """
        managed = self._reconciled(managed)
        kind = self._type(version)
        last = managed.get(me)
        managed = {**managed, me: Owned(self._filter(version)(field_set(kind, applied)), version)}
        if last is not None:
            managed[me] = replace(managed[me], time=last.time)
        merged = merge(kind, live, applied)
        new = self._pruned(merged, version, managed, last)
        managed, _ = self._taken_over(live, new, version, managed, me=me, may_force=force)
        return new, managed

    def _type(self, version: str) -> Type:
        kind = self.versions.type_of(version)
        assert kind is not None, "requests are of a version that is served"
        return kind

    def _filter(self, version: str) -> Filter:
        return self.filter_of(version) or _everything

    def _reconciled(self, managed: Managed) -> Managed:
        """Return the owners with sets adapted to the current schemas, without owners in versions that are gone."""
        result: Managed = {}
        for identity, owned in managed.items():
            kind = self.versions.type_of(owned.api_version)
            if kind is not None:
                changed = reconcile(owned.fields, kind)
                result[identity] = owned if changed is None else replace(owned, fields=changed)
        return result

    def _taken_over(
        self, live: Any, new: Any, version: str, managed: Managed, *, me: Hashable, may_force: bool
    ) -> tuple[Managed, FieldSet]:
        """Remove the changed fields from all owners but ``me``, and return these fields."""
        changes: dict[str, tuple[FieldSet, FieldSet]] = {}
        conflicts: dict[Any, FieldSet] = {}
        result: Managed = {}
        compared = self._compared(live, new, version, version)
        changes[version] = union(compared.modified, compared.added), compared.removed
        for identity, owned in managed.items():
            there = owned.api_version
            if identity == me:
                result[identity] = owned
                continue
            if there not in changes:
                other = self._compared(live, new, version, there)
                changes[there] = union(other.modified, other.added), other.removed
            changed, removed = changes[there]
            taken = intersection(owned.fields, changed)
            if taken:
                conflicts[identity] = taken
            result[identity] = replace(owned, fields=difference(difference(owned.fields, taken), removed))
        if conflicts and not may_force:
            raise Conflicts(conflicts)
        return {identity: owned for identity, owned in result.items() if owned.fields}, changes[version][0]

    def _compared(self, live: Any, new: Any, version: str, there: str) -> Comparison:
        if there != version:
            live, new = (self.versions.convert(obj, version, there) for obj in (live, new))
        counts = self._filter(there)
        return Comparison(*map(counts, compare(self._type(there), live, new)))

    def _pruned(self, merged: Any, version: str, managed: Managed, last: Owned | None) -> Any:
        """Return the merged object without fields that ``last`` applied, this apply omits, and no one else owns."""
        if last is None or not last.fields:
            return merged
        there = last.api_version
        kind = self._type(there)
        converted = self.versions.convert(merged, version, there)
        before = with_named_fields(last.fields, kind)
        pruned = remove(kind, converted, before)
        pruned = self._with_owned_items(converted, pruned, there, managed)
        left, all_of_it = (with_named_fields(field_set(kind, obj), kind) for obj in (pruned, converted))
        pruned = remove(kind, converted, intersection(difference(all_of_it, left), before))
        return self.versions.convert(pruned, there, version)

    def _with_owned_items(self, merged: Any, pruned: Any, version: str, managed: Managed) -> Any:
        """Return the pruned object (of a version) with removed items restored that someone owns."""
        owned_at: dict[str, FieldSet] = {version: {}}
        for owned in managed.values():
            owned_at[owned.api_version] = union(owned_at.get(owned.api_version, {}), owned.fields)
        at = version
        for there, fields in owned_at.items():
            kind = self._type(there)
            merged, pruned = (self.versions.convert(obj, at, there) for obj in (merged, pruned))
            at = there
            sets = (field_set(kind, merged), field_set(kind, pruned), fields)
            all_of_it, left, owned_there = (with_named_fields(one, kind) for one in sets)
            pruned = remove(kind, merged, difference(all_of_it, union(left, owned_there)))
        return self.versions.convert(pruned, at, version)
