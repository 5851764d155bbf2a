"""Patches that change nothing but a status, on objects of which the rest stays the bytes it is.

Nodes, controllers and the scheduler write little else. Such a patch is recognised by what it holds: a status, and of
the metadata at most the uid it is meant for. Of the stored object only the status is decoded, and of objects alike only
once; its bytes and those of the resource version are replaced. All that the long way (`Writer.patch`) would look at
besides is known to be as it was: metadata and the other members were checked when they came, and admission has no rules
about a status. Whatever is not plain (another member, a uid that differs, a status that does not fit, an object on its
way out) is left to the long way, which also words every refusal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.wire import Request
from strato.errors import ApiError
from strato.http.parser import MAX_BODY_BYTES
from strato.server import objects
from strato.server.bodies import UNCOUNTED_BYTES, may_be_deep
from strato.server.objects import Json, encode
from strato.server.patch import apply_json_patch, apply_merge_patch
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.layouts import rewritten
from strato.server.rest.members import read_object
from strato.server.rest.state import State
from strato.server.schema import builtin

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"


class _Meant(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    uid: str = ""


class _Merge(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    status: msgspec.Raw
    metadata: _Meant | None = None


class _Operation(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    op: str
    path: str
    value: Any = None


_REMEMBERED_BYTES = 2048
"""What larger statuses make of an object is found out each time: they are of one pod, or one node."""
_CHECKED_BYTES = 8192
"""Statuses up to this length are kept as they were read and found right."""
_read_merge = msgspec.json.Decoder(_Merge).decode
_read_operations = msgspec.json.Decoder(list[_Operation]).decode


def patched(
    state: State, request: Request, target: ResourcePath, served: Served, media: str, body: bytes
) -> bytes | None:
    """Return what the patch makes of the stored ``body``, at the next revision; the same bytes when nothing differs.

    None means that the long way has to be taken.
    """
    if request.query or not _concerns(state, served, target) or len(request.body) > UNCOUNTED_BYTES:
        return None
    if served.is_custom and may_be_deep(request.body):
        return None
    try:
        at = state.layouts.of(body)
        if at is None or at.api_version != served.kind.api_version:
            return None
        before = body[at.status : at.status_end]
        status = _status(served, media, request.body, at.uid, before)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ApiError):
        return None
    if status is None:
        return None
    if status is before:
        return body
    result, now_at = rewritten(body, at, state.store.next_revision(), status)
    if len(result) > MAX_BODY_BYTES or (media == JSON_PATCH and served.is_custom and may_be_deep(status)):
        return None
    state.layouts.note(result, now_at, body)
    return result


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


def _status(served: Served, media: str, patch: bytes, uid: str, before: bytes) -> bytes | None:
    """Return the status that a patch makes of the one ``before`` (nothing: there is none), as it will be stored.

    The very bytes ``before`` when nothing differs; None when the patch is about more, is meant for another object, or
    when there is anything to say about what it makes.
    """
    if media == MERGE_PATCH:
        merge = _read_merge(patch)
        if merge.metadata is not None and merge.metadata.uid not in ("", uid):
            return None
        value = bytes(merge.status)
        is_small = len(value) <= _REMEMBERED_BYTES and len(before) <= _REMEMBERED_BYTES
        result = (_merged_lately if is_small else _merged)(served, value, before)
    elif media == JSON_PATCH:
        lead = _REPLACES % uid.encode()
        if patch.startswith(lead) and patch.endswith(b"}]") and len(patch) <= len(lead) + _REMEMBERED_BYTES:
            replaced = _replaced_lately if len(before) <= _REMEMBERED_BYTES else _replaced
            result = replaced(served, patch[len(lead) : -2], before)
        else:
            result = _changed(served, patch, uid, before)
    else:
        return None
    return before if result and result == before else result


_REPLACES = b'[{"op":"test","path":"/metadata/uid","value":"%b"},{"op":"add","path":"/status","value":'
"""How our controllers begin a patch that puts a whole status."""


def _merged(served: Served, value: bytes, before: bytes) -> bytes | None:
    """Return what merging makes, by `_status`'s rules."""
    if served.status is None and len(before) <= _CHECKED_BYTES:
        fits = builtin.status_check(served.kind)
        if fits(value) and _fits_lately(served, before):
            # types that fit fit after merging: each member is of the one or the other
            old = _read_lately(before)
            merged: Json = apply_merge_patch(old, read_object(value))
            objects.keep_class(served.kind, merged, old)
            return before if before and merged == old else encode(merged)
    old = _read(before)
    return _outcome(served, apply_merge_patch(old, read_object(value)), old, before)


def _replaced(served: Served, value: bytes, before: bytes) -> bytes | None:
    """Return what putting a whole status makes, by `_status`'s rules."""
    return _outcome(served, read_object(value), _read(before), before)


_merged_lately = lru_cache(maxsize=1024)(_merged)
_replaced_lately = lru_cache(maxsize=1024)(_replaced)
"""Jobs that began and ended in the same second have the same statuses."""


def _changed(served: Served, patch: bytes, uid: str, before: bytes) -> bytes | None:
    """Return what operations make, by `_status`'s rules."""
    operations = _read_operations(patch)
    if not all(_is_plain(operation, uid) for operation in operations):
        return None
    steps = [{"op": o.op, "path": o.path, "value": o.value} for o in operations if o.path.startswith("/status")]
    if not steps or (steps[0]["op"] == "replace" and not before):
        return None  # an object without a status stays without
    status = apply_json_patch({"status": _read(before)}, steps).get("status")
    return _outcome(served, status, _read(before), before) if isinstance(status, dict) else None


def _is_plain(operation: _Operation, uid: str) -> bool:
    if operation.op == "test" and operation.path == "/metadata/uid":
        return bool(operation.value == uid)
    return operation.op in ("add", "replace") and (operation.path == "/status" or operation.path.startswith("/status/"))


def _read(status: bytes) -> Json:
    return read_object(status) if status else {}


_read_lately = lru_cache(maxsize=256)(_read)
"""The statuses that many objects have before they change; to be looked at only."""


@lru_cache(maxsize=256)
def _fits_lately(served: Served, status: bytes) -> bool:
    return not status or builtin.status_check(served.kind)(status)


def _outcome(served: Served, status: Json, old: Json, before: bytes) -> bytes | None:
    """Return the status with its defaults as it will be stored, by `_status`'s rules; ``old`` is ``before`` decoded."""
    kind = served.kind
    part: Json = {"apiVersion": kind.api_version, "kind": kind.name, "status": status}
    if objects.check_fields(served.status or served, part, "Warn"):
        return None
    if served.status is not None:
        objects.fill_defaults(served.status, part)
        objects.validate_status(served.status, part, {**part, "status": old}, "")
    checked: Json | None = part.get("status")
    if checked is None:
        return None
    objects.keep_class(kind, checked, old)
    return before if before and checked == old else encode(checked)
