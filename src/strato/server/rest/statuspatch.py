"""Patches that change nothing but a status, on objects of which the rest stays the bytes it is.

Nodes, controllers and the scheduler write little else. Such a patch is recognised by what it holds: a status, and of
the metadata at most the uid it is meant for. Of the stored object only the status is decoded; its bytes and those of
the resource version are replaced. All that the long way (`Writer.patch`) would look at besides is known to be as it
was: metadata and the other members were checked when they came, and admission has no rules about a status. Whatever
is not plain (another member, a uid that differs, a status that does not fit, an object on its way out) is left to the
long way, which also words every refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.wire import Request
from strato.errors import ApiError
from strato.server import objects
from strato.server.objects import Json, encode
from strato.server.patch import apply_json_patch, apply_merge_patch
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.members import at_revision, read_members, read_metadata, read_object
from strato.server.rest.state import State

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"


class _Meant(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    uid: str = ""


class _Merge(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    status: Json
    metadata: _Meant | None = None


class _Operation(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    op: str
    path: str
    value: Any = None


class _Written(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An operation with its value as it was sent."""

    op: str
    path: str
    value: msgspec.Raw = msgspec.Raw(b"null")


_read_written = msgspec.json.Decoder(list[_Written]).decode
_read_value = msgspec.json.Decoder().decode
_REMEMBERED_BYTES = 4 << 10
"""Larger statuses are checked each time."""
_read_merge = msgspec.json.Decoder(_Merge).decode
_read_operations = msgspec.json.Decoder(list[_Operation]).decode


def patched(
    state: State, request: Request, target: ResourcePath, served: Served, media: str, body: bytes
) -> bytes | None:
    """Return what the patch makes of the stored ``body``, at the next revision; the same bytes when nothing differs.

    None means that the long way has to be taken.
    """
    if request.query or not _concerns(state, served, target) or len(request.body) > objects.MAX_BODY_BYTES:
        return None
    try:
        members = read_members(body)
        if bytes(members["apiVersion"]) != encode(served.kind.api_version):
            return None
        metadata = read_metadata(members["metadata"])
        before = read_object(members["status"]) if "status" in members else {}
        if metadata.deletionTimestamp is not None:
            return None
        whole = _whole(served, media, request.body, metadata.uid)
        if whole:
            status = _checked_alone(served, whole)
        else:
            changed = _changed(media, request.body, before, metadata.uid)
            status = None if changed is None else _checked(served, target.name, changed, before)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ApiError):
        return None
    if status is None:
        return None
    if status == before and "status" in members:
        return body
    revised = at_revision(members["metadata"], metadata.resourceVersion, state.store.next_revision())
    if revised is None:
        return None
    members["metadata"] = revised
    members["status"] = msgspec.Raw(encode(status))
    result = encode(members)
    return result if len(result) <= objects.MAX_BODY_BYTES else None


def _concerns(state: State, served: Served, target: ResourcePath) -> bool:
    """Whether writes like this one may be about the status alone."""
    kind = served.kind
    if served.is_custom and served.status is None:
        return False
    if target.subresource == "status":
        return kind is not catalog.CUSTOMRESOURCEDEFINITION  # its conditions are the server's own
    # Without the subresource a status counts as what is wanted, and makes a new generation; not a pod group's.
    is_group = kind is catalog.PODGROUP and not kind.has_status and not target.subresource
    return is_group and not state.admission.minds(kind, "UPDATE")


def _whole(served: Served, media: str, patch: bytes, uid: str) -> bytes:
    """Return the new status as it was sent, if it replaces all there was whatever that was; otherwise nothing."""
    if media != JSON_PATCH or served.status is None or served.status.schema is None or served.status.schema.has_rules:
        return b""
    *tests, last = _read_written(patch) or [_Written("", "")]
    right = encode(uid)
    if any(one.op != "test" or one.path != "/metadata/uid" or bytes(one.value) != right for one in tests):
        return b""
    value = bytes(last.value) if last.op in ("add", "replace") and last.path == "/status" else b""
    return value if len(value) <= _REMEMBERED_BYTES else b""


@lru_cache(maxsize=1024)
def _checked_alone(served: Served, value: bytes) -> Json | None:
    """Return a status with its defaults, to be looked at only; None when there is anything to say about it.

    Jobs that began and ended in the same second have the same one.
    """
    status = _read_value(value)
    return _checked(served, "", status, {}) if isinstance(status, dict) else None


def _changed(media: str, patch: bytes, before: Mapping[str, Any], uid: str) -> Json | None:
    """Return the patched status; None when the patch is about more, or meant for another object."""
    if media == MERGE_PATCH:
        merge = _read_merge(patch)
        if merge.metadata is not None and merge.metadata.uid not in ("", uid):
            return None
        merged: Json = apply_merge_patch(before, merge.status)
        return merged
    if media != JSON_PATCH:
        return None
    operations = _read_operations(patch)
    if not all(_is_plain(operation, uid) for operation in operations):
        return None
    steps = [{"op": o.op, "path": o.path, "value": o.value} for o in operations if o.path.startswith("/status")]
    if not steps:
        return None  # an object without a status stays without
    result = apply_json_patch({"status": _copied(before, steps)}, steps)
    status = result.get("status")
    return status if isinstance(status, dict) else None


def _is_plain(operation: _Operation, uid: str) -> bool:
    if operation.op == "test" and operation.path == "/metadata/uid":
        return bool(operation.value == uid)
    return operation.op in ("add", "replace") and (operation.path == "/status" or operation.path.startswith("/status/"))


def _copied(status: Mapping[str, Any], steps: Sequence[Json]) -> Any:
    """Return the status for operations to change; one that is replaced as a whole needs no copy."""
    return {} if steps and steps[0]["path"] == "/status" else read_object(encode(status))


def _checked(served: Served, name: str, status: Json, before: Json) -> Json | None:
    """Return the status with its defaults; None when there is anything to say about it."""
    kind = served.kind
    part: Json = {"apiVersion": kind.api_version, "kind": kind.name, "status": status}
    if objects.check_fields(served.status or served, part, "Warn"):
        return None
    if served.status is not None:
        objects.fill_defaults(served.status, part)
        objects.validate_status(served.status, part, {**part, "status": before}, name)
    checked: Json | None = part.get("status")
    if checked is not None:
        objects.keep_class(kind, checked, before)
    return checked
