"""The field manager of one kind and subresource: computes ``metadata.managedFields`` after writes, and applies.

Source: apimachinery, ``pkg/util/managedfields``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import ApiError, BadRequest
from strato.server.fieldmanager.entries import (
    APPLY,
    MAX_UPDATERS,
    UPDATE,
    Entry,
    Identity,
    InvalidEntries,
    capped,
    conflict_error,
    identity,
    is_reset,
    read_entries,
    write_entries,
)
from strato.server.fieldmanager.paths import LEAF, FieldSet, difference, has, iterate, text_of, union
from strato.server.fieldmanager.typed import Misfit, check, compare, field_set, same
from strato.server.fieldmanager.updater import Conflicts, Json, Managed, Owned, Updater

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which client-side apply keeps the last applied configuration."""
KUBECTL = "kubectl"
"""The manager whose server-side apply takes over fields that client-side apply owned."""
_BEFORE = "before-first-apply"
_MAX_ANNOTATIONS_BYTES = 256 << 10
_UNOWNED: FieldSet = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {
        **LEAF,
        **{
            f"f:{name}": LEAF
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        },
    },
}
"""Paths that have no owner themselves, though paths below them may."""


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Computes the owners of fields of one kind's objects, for writes through one subresource (or none)."""

    updater: Updater
    api_version: str
    """API version of the requests."""
    kind: str
    subresource: str = ""
    max_updaters: int = MAX_UPDATERS

    def update(self, live: Json | None, new: Json, name: str, now: str) -> list[Entry]:
        """Return the entries after a write; none for an object whose fields are not tracked.

        Args:
            live: The stored object with its entries; None if ``new`` is created.
            new: The written object with the entries that the client has sent.
            name: The manager's name.
            now: The time, in RFC 3339.
        """
        managed = self._starting(live, new)
        if not managed and live is not None:
            return []
        return write_entries(self._updated(without_entries(live or {}), without_entries(new), managed, name, now))

    def _starting(self, live: Json | None, new: Json) -> Managed:
        """Return the owners before a write; a client may edit them, but not through a subresource."""
        before = (live or {}).get("metadata", {}).get("managedFields")
        if not self.subresource:
            sent = new.get("metadata", {}).get("managedFields")
            if is_reset(sent):
                return {}
            managed = _read(sent)
            if managed:
                return managed
        return _read(before)

    def _updated(self, live: Json, new: Json, managed: Managed, name: str, now: str) -> Managed:
        managed, changed = self.updater.update(live, new, self.api_version, managed)
        gained = difference(changed, _UNOWNED)
        if gained:
            me = identity(name, UPDATE, self.api_version, self.subresource)
            mine = managed.get(me)
            fields = union(gained, mine.fields) if mine is not None else gained
            managed[me] = Owned(fields, self.api_version, now)
        return capped(managed, self.max_updaters)

    def apply(self, live: Json | None, config: Json, name: str, now: str, *, force: bool) -> Json:
        """Return the object after applying a configuration, with its entries. Changes neither argument.

        Raises:
            BadRequest: The configuration is of another kind, or has entries.
            Conflict: It would change fields that others own, and ``force`` is not set.
            ApiError: It does not fit its type, or the stored entries cannot be parsed (500).
        """
        metadata = config.get("metadata")
        before = (live or {}).get("metadata", {})
        try:
            managed = read_entries(before.get("managedFields"))
        except InvalidEntries as error:
            raise _failure(f"failed to decode managed fields: {error}") from error
        if (config.get("apiVersion"), config.get("kind")) != (self.api_version, self.kind):
            raise BadRequest(f"invalid object type: {type_text(config)}")
        base = without_entries(live) if live is not None else {"apiVersion": self.api_version, "kind": self.kind}
        if not managed and live is not None:
            managed = self._updated({}, base, {}, _BEFORE, now)
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise BadRequest("metadata.managedFields must be nil")
        config = without_entries(config)
        self._check(config)
        me = identity(name, APPLY, self.api_version, self.subresource)
        new, managed = self._applied(base, config, managed, me, force=force)
        fields = difference(managed[me].fields, _UNOWNED) if me in managed else {}
        managed.pop(me, None)
        if fields:
            mine = Owned(fields, self.api_version, now if not same(base, new) else before_time(before, me))
            managed[me] = mine
        if name == KUBECTL:
            new = _with_last_applied(new, config)
        entries = write_entries(managed)
        return {**new, "metadata": {**(new.get("metadata") or {}), **({"managedFields": entries} if entries else {})}}

    def _check(self, config: Json) -> None:
        kind = self.updater.versions.type_of(self.api_version)
        assert kind is not None, "requests are of a version that is served"
        try:
            check(kind, config, with_duplicates=False)
        except Misfit as error:
            metadata = config.get("metadata")
            names = metadata if isinstance(metadata, dict) else {}
            place = f"{names.get('namespace') or ''}/{names.get('name') or ''}; {type_text(config)}"
            raise _failure(f"failed to create typed patch object ({place}): {error}") from error

    def _applied(
        self, live: Json, config: Json, managed: Managed, me: Identity, *, force: bool
    ) -> tuple[Json, Managed]:
        try:
            return self.updater.apply(live, config, self.api_version, managed, me, force=force)
        except Misfit as error:
            raise _failure(f"failed to merge what is applied: {error}") from error
        except Conflicts as found:
            conflicts = [(owner, path) for owner, paths in found.conflicts.items() for path in iterate(paths)]
        if me.manager == KUBECTL:
            allowed = self._of_client_side_apply(live)
            conflicts = [conflict for conflict in conflicts if not has(allowed, conflict[1])]
            if not conflicts:
                return self.updater.apply(live, config, self.api_version, managed, me, force=True)
        raise conflict_error([(owner, text_of(path)) for owner, path in conflicts])

    def _of_client_side_apply(self, live: Json) -> FieldSet:
        """Return the fields that client-side apply wrote last and that have not changed since."""
        text = _annotations(live).get(LAST_APPLIED)
        kind = self.updater.versions.type_of(self.api_version)
        try:
            applied = msgspec.json.decode(text) if isinstance(text, str) else None
            if kind is None or not isinstance(applied, dict) or applied.get("apiVersion") != self.api_version:
                return {}
            check(kind, applied, with_duplicates=False)
        except (*UNDECODABLE, UnicodeError, Misfit):
            return {}
        owned = field_set(kind, applied)
        for changed in compare(kind, applied, live):
            owned = difference(owned, changed)
        return owned


def type_text(obj: Mapping[str, Any]) -> str:
    """Return version and kind of an object as Go prints them: ``apps/v1, Kind=Deployment``."""
    version, kind = (obj.get(name) if isinstance(obj.get(name), str) else "" for name in ("apiVersion", "kind"))
    return f"{version if version and '/' in version else '/' + str(version)}, Kind={kind}"


def without_entries(obj: Json) -> Json:
    """Return an object without its entries, sharing the other members."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def differ_in_times_only(entries: Any, others: Any) -> bool:
    """Return whether two lists of entries have the same owners and fields."""
    if not isinstance(entries, list) or not isinstance(others, list) or len(entries) != len(others):
        return False
    mine, theirs = (
        {owner: replace(owned, time="") for owner, owned in _read(each).items()} for each in (entries, others)
    )
    return mine == theirs


def before_time(metadata: Mapping[str, Any], me: Identity) -> str:
    """Return the time of the entry of ``me``; empty if there is none."""
    owned = _read(metadata.get("managedFields")).get(me)
    return owned.time if owned is not None else ""


def owners_of(obj: Mapping[str, Any]) -> Managed:
    """Return the owners of an object's fields; none if its entries cannot be parsed."""
    return _read(obj["metadata"].get("managedFields"))


def _read(entries: Any) -> Managed:
    try:
        return read_entries(entries if isinstance(entries, list) else None)
    except InvalidEntries:
        return {}


def _annotations(obj: Mapping[str, Any]) -> Json:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _with_last_applied(obj: Json, config: Json) -> Json:
    """Return the object with the applied configuration in the annotation of client-side apply, if it has that."""
    annotations = _annotations(obj)
    if not annotations.get(LAST_APPLIED):
        return obj
    if LAST_APPLIED in _annotations(config):
        kept = {name: value for name, value in _annotations(config).items() if name != LAST_APPLIED}
        config = {**config, "metadata": {**config["metadata"], "annotations": kept}}
    text = msgspec.json.Encoder(order="sorted").encode(config).decode() + "\n"
    annotations = {**annotations, LAST_APPLIED: text}
    if (
        sum(len(str(name).encode()) + len(str(value).encode()) for name, value in annotations.items())
        > _MAX_ANNOTATIONS_BYTES
    ):
        del annotations[LAST_APPLIED]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _failure(text: str) -> ApiError:
    """Return Kubernetes' error for a failure here, which has no reason."""
    return ApiError(text, code=500, reason="")
