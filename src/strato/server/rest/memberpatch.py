"""Patch one member of an object, and decode, check and encode only that member.

Nodes, controllers and the scheduler mostly patch statuses, and nodes renew their leases. A patch that holds only such a
member, and perhaps the uid as a precondition, cannot change the rest of the object, which was checked when it was
written, and admission has no rules about these members. The new member is a function of two texts, the patch and the
old member, so it is memoised. All other patches (of another member, an invalid one, a terminating object) take the
general path (`Writer.patch`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from strato.api import catalog, cel, defaults
from strato.api.wire import Request, User
from strato.decoding import UNDECODABLE
from strato.errors import ApiError
from strato.http.parser import MAX_BODY_BYTES
from strato.server import preparation
from strato.server.jsonbodies import UNCOUNTED_BYTES, may_be_deep
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest.largewrites import INLINE_UNITS, has_schema_rules
from strato.server.rest.ownership import needs_tracking
from strato.server.rest.state import State
from strato.server.rest.stored import SPEC, STATUS, read_members, read_object
from strato.server.schema import builtin
from strato.server.schema.typed import is_time

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_MEMOISED_BYTES = 2048
"""Longest texts for which results are memoised; larger ones belong to a single pod or node and do not repeat."""
_CHECKED_BYTES = 8192
"""Longest statuses for which the decoded form and the type check are memoised."""


class _Meant(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    uid: str = ""


class _StatusPatch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    status: msgspec.Raw
    metadata: _Meant | None = None


class _Renewal(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    renewTime: str


class _LeasePatch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    spec: _Renewal


class _Operation(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    op: str
    path: str
    value: Any = None


_RULED = frozenset((catalog.CUSTOMRESOURCEDEFINITION, catalog.CERTIFICATESIGNINGREQUEST, *defaults.FIRST_PHASES))
"""Kinds with rules about their status: the server itself sets definitions' conditions, signing needs a right, and some
have a phase whatever is written."""

_read_status_patch = msgspec.json.Decoder(_StatusPatch).decode
_read_lease_patch = msgspec.json.Decoder(_LeasePatch).decode
_read_operations = msgspec.json.Decoder(list[_Operation]).decode


def patched(
    state: State, request: Request, target: ResourcePath, served: Served, media: str, body: bytes
) -> bytes | None:
    """Return the stored ``body`` with the patch applied, at the next revision; the same bytes if nothing changes.

    None means that the caller has to take the general path, for example because CEL rules are costly.
    """
    if request.uncommitted or not has_schema_rules(served):
        return _patched(state, request, target, served, media, body)
    with cel.budget(INLINE_UNITS):
        return _patched(state, request, target, served, media, body)


def _patched(
    state: State, request: Request, target: ResourcePath, served: Served, media: str, body: bytes
) -> bytes | None:
    member = _member(state, served, target, request.user)
    if not member or request.query or len(request.body) > UNCOUNTED_BYTES:
        return None
    if served.is_custom and may_be_deep(request.body):
        return None
    try:
        stored = state.recent.of(body)
        if stored is None or stored.api_version != served.kind.api_version:
            return None
        if stored.is_tracked and needs_tracking(request, body):
            return None
        before = stored.members.get(member, b"")
        make = _lease_spec if member is SPEC else _status
        after = make(served, media, request.body, stored.uid, before)
    except (*UNDECODABLE, ApiError):
        return None
    if after is None:
        return None
    if after == before and after:
        return body
    changed = stored.replaced({member: after})
    result = changed.encode(state.store.next_revision())
    if len(result) > MAX_BODY_BYTES or (media == JSON_PATCH and served.is_custom and may_be_deep(after)):
        return None
    state.recent.note(result, changed, body)
    return result


def _member(state: State, served: Served, target: ResourcePath, user: User | None) -> bytes:
    """Return the only member that a patch of this path may change for the fast path; empty if there is none."""
    kind = served.kind
    if kind is catalog.LEASE:
        return b"" if target.subresource or state.admission.has_rules(kind, "UPDATE") else SPEC
    if not served.is_stored_as_served or (served.is_custom and served.status is None):
        return b""
    if target.subresource == "status":
        return b"" if kind in _RULED or state.admission.has_rules(kind, "UPDATE/status") else STATUS
    # Without a status subresource the status counts as desired state, whose change increments the generation,
    # except for PodGroups.
    is_group = kind is catalog.PODGROUP and not kind.has_status and not target.subresource
    return STATUS if is_group and not state.admission.has_rules_for(user, kind, "UPDATE") else b""


def _lease_spec(_served: Served, media: str, patch: bytes, _uid: str, before: bytes) -> bytes | None:
    """Return the spec of a lease with the patch's renewTime; None if the patch changes more."""
    if media != MERGE_PATCH:
        return None
    time = _read_lease_patch(patch).spec.renewTime
    spec = read_object(before)
    if "renewTime" not in spec or not is_time(time):
        return None
    spec["renewTime"] = time
    return encode(spec)


def _status(served: Served, media: str, patch: bytes, uid: str, before: bytes) -> bytes | None:
    """Return the status to store after a patch of ``before``, which is empty if there is no status.

    None if the patch changes more, is meant for another object, or its result has an error or a warning.
    """
    if media in (MERGE_PATCH, STRATEGIC_PATCH):
        merge = _read_status_patch(patch)
        if merge.metadata is not None and merge.metadata.uid not in ("", uid):
            return None
        value = bytes(merge.status)
        if media == STRATEGIC_PATCH:
            return _strategic(served, value, before)
        is_small = len(value) <= _MEMOISED_BYTES and len(before) <= _MEMOISED_BYTES
        return (_merged_memo if is_small else _merged)(served, value, before)
    if media != JSON_PATCH:
        return None
    lead = _PUTS % uid.encode()
    if patch.startswith(lead) and patch.endswith(b"}]") and len(patch) <= len(lead) + _MEMOISED_BYTES:
        put = _put_memo if len(before) <= _MEMOISED_BYTES else _put
        return put(served, patch[len(lead) : -2], before)
    return _operated(served, patch, uid, before)


_PUTS = b'[{"op":"test","path":"/metadata/uid","value":"%b"},{"op":"add","path":"/status","value":'
"""The beginning of the JSON patch with which our controllers replace a whole status."""


def _merged(served: Served, value: bytes, before: bytes) -> bytes | None:
    """Return the status after a merge patch, as `_status` does."""
    if served.status is None and len(before) <= _CHECKED_BYTES:
        fits = builtin.status_check(served.kind)
        if fits(value) and _fits_memo(served, before):
            # if both statuses have the right types, so has the merged one: each member is from one of them
            old = _read_memo(before)
            merged: Json = apply_merge_patch(old, read_object(value))
            preparation.complete_status(served.kind, merged, old)
            return before if before and merged == old else encode(merged)
    old = _read(before)
    return _outcome(served, apply_merge_patch(old, read_object(value)), old, before)


def _strategic(served: Served, value: bytes, before: bytes) -> bytes | None:
    """Return the status after a strategic merge patch, as `_status` does."""
    info = builtin.merge_info(served.kind)
    if info is None:
        return None
    if served.status is None and len(before) <= _CHECKED_BYTES:
        text = _strategic_text(served, info, value, before)
        if text and builtin.status_check(served.kind)(text):
            return before if text == before else text
    old = _read(before)
    merged = apply_strategic_patch(old, read_object(value), info.list_strategy, _AT_STATUS)
    return _outcome(served, merged, old, before)


_AT_STATUS = ("status",)


def _strategic_text(served: Served, info: builtin.MergeInfo, value: bytes, before: bytes) -> bytes:
    """Merge a strategic patch member by member, memoised; empty if a directive concerns the whole status."""
    old = _members_memo(before)
    merged = dict(old)
    for name, raw in read_members(value).items():
        text = bytes(raw)
        if name[:1] == "$":
            return b""
        if text == old.get(name) and text != b"null":
            continue
        merge = _strategic_member if name in _OF_ONE_POD or len(text) > _MEMOISED_BYTES else _strategic_member_memo
        made = merge(info, name, text, old.get(name, b""))
        if made:
            merged[name] = made
        else:
            merged.pop(name, None)
    preparation.complete_status(served.kind, merged, old)
    return encode({name: msgspec.Raw(text) for name, text in merged.items()})


def _strategic_member(info: builtin.MergeInfo, name: str, text: bytes, before: bytes) -> bytes:
    """Return the text of one member of a status after a strategic patch; empty if the patch removes it."""
    value = msgspec.json.decode(text)
    if value is not None and not isinstance(value, dict | list):
        return encode(value)
    old = {name: msgspec.json.decode(before)} if before else {}
    merged = apply_strategic_patch(old, {name: value}, info.list_strategy, _AT_STATUS)
    return encode(merged[name]) if name in merged else b""


_strategic_member_memo = lru_cache(maxsize=1024)(_strategic_member)
"""Memoised, as many pods of a job get the same conditions in the same second."""
_OF_ONE_POD = frozenset(("podIP", "podIPs", "containerStatuses"))
"""Members that differ between pods, so that memoising them would be useless."""


def _members_of(status: bytes) -> dict[str, bytes]:
    """Split a status into the texts of its members."""
    return {name: bytes(text) for name, text in read_members(status).items()} if status else {}


_members_memo = lru_cache(maxsize=256)(_members_of)
"""Memoised statuses before a change, which many objects share. Must not be changed."""


def _put(served: Served, value: bytes, before: bytes) -> bytes | None:
    """Return the status after a patch that replaces all of it, as `_status` does."""
    return _outcome(served, read_object(value), _read(before), before)


_merged_memo = lru_cache(maxsize=1024)(_merged)
_put_memo = lru_cache(maxsize=1024)(_put)
"""Memoised, as jobs that began and ended in the same second have the same status."""


def _operated(served: Served, patch: bytes, uid: str, before: bytes) -> bytes | None:
    """Return the status after a JSON patch, as `_status` does."""
    operations = _read_operations(patch)
    if not all(_is_plain(operation, uid) for operation in operations):
        return None
    steps = [{"op": o.op, "path": o.path, "value": o.value} for o in operations if o.path.startswith("/status")]
    if not steps or (steps[0]["op"] == "replace" and not before):
        return None  # a JSON patch cannot change a status that does not exist
    status = apply_json_patch({"status": _read(before)}, steps).get("status")
    return _outcome(served, status, _read(before), before) if isinstance(status, dict) else None


def _is_plain(operation: _Operation, uid: str) -> bool:
    if operation.op == "test" and operation.path == "/metadata/uid":
        return bool(operation.value == uid)
    return operation.op in ("add", "replace") and (operation.path == "/status" or operation.path.startswith("/status/"))


def _read(status: bytes) -> Json:
    return read_object(status) if status else {}


_read_memo = lru_cache(maxsize=256)(_read)
"""Decoded statuses that many objects have before they change. Read only."""


@lru_cache(maxsize=256)
def _fits_memo(served: Served, status: bytes) -> bool:
    return not status or builtin.status_check(served.kind)(status)


def _outcome(served: Served, status: Json, old: Json, before: bytes) -> bytes | None:
    """Fill defaults into a status and check it, as `_status` returns it; ``old`` is ``before`` decoded."""
    kind = served.kind
    part: Json = {"apiVersion": kind.api_version, "kind": kind.name, "status": status}
    if preparation.check_fields(served.status or served, part, "Warn"):
        return None
    if served.status is not None:
        preparation.fill_defaults(served.status, part)
        preparation.validate_status(served.status, part, {**part, "status": old}, "")
    checked: Json | None = part.get("status")
    if checked is None:
        return None
    preparation.complete_status(kind, checked, old)
    return before if before and checked == old else encode(checked)
