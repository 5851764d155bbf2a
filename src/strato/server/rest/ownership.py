"""Keep the owners of fields (``metadata.managedFields``) up to date in writes.

Tracking compares the whole object in each write, so only objects that have entries are tracked. An object gets its
first entry when a client that names its field manager creates it, or by an apply. Objects that the cluster's own parts
create have none until then, nor have pods and jobs of clients that send no field manager
(docs/design/field-ownership.md).
"""

from __future__ import annotations

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import forbidden_field, required
from strato.api.wire import Request
from strato.clock import format_time
from strato.errors import Cause
from strato.server.fieldmanager.entries import Entry
from strato.server.fieldmanager.manager import FieldManager, differ_in_times_only
from strato.server.fieldmanager.typed import Misfit
from strato.server.preparation import Json
from strato.server.rest.pipeline import Draft
from strato.server.rest.state import State

APPLY_PATCH = "application/apply-patch+yaml"
_OWN_AGENT = "strato"
_MAX_NAME_BYTES = 128
_BY_THE_THOUSAND = (catalog.POD, catalog.VCJOB, catalog.PODGROUP, catalog.LEASE, catalog.EVENT)
_STATUS_OWNED = b'"f:status":'


def manager_name(request: Request) -> str:
    """Return the field manager's name: the request's ``fieldManager``, else the program in its User-Agent."""
    name = request.param("fieldManager")
    if not name:
        agent = request.headers.get("user-agent", "").partition("/")[0]
        text = "".join(filter(str.isprintable, agent)).encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
        name = text or (_OWN_AGENT if request.uncommitted else "")
    return name


def names_itself(request: Request) -> bool:
    """Return whether a request names a field manager or a program; the cluster's own parts and commands do not."""
    agent = request.headers.get("user-agent", "")
    return "fieldManager" in request.query or (agent != "" and not agent.startswith(_OWN_AGENT + "/"))


def is_tracked_from_creation(request: Request, kind: Kind) -> bool:
    """Return whether an object that this request creates gets entries at once."""
    return "fieldManager" in request.query or (kind not in _BY_THE_THOUSAND and names_itself(request))


def needs_tracking(request: Request, body: bytes) -> bool:
    """Return whether a write of a tracked object's status may change its entries.

    Fields of the status that the cluster's own parts write stay without an owner until another client owns some.
    """
    return names_itself(request) or _STATUS_OWNED in body


def problems(request: Request, *, is_apply: bool) -> list[Cause]:
    """Return the problems with a patch's options ``fieldManager`` and ``force``."""
    if is_apply:
        return [] if request.param("fieldManager") else [required("fieldManager", "is required for apply patch")]
    if "force" in request.query:
        return [forbidden_field("force", "may not be specified for non-apply patch")]
    return []


def track(state: State, draft: Draft) -> None:
    """Compute the entries after a write, and keep them in the draft until `put_entries`."""
    request, old, subresource = draft.request, draft.old, draft.target.subresource
    if draft.entries is not None:
        return
    if old is None:
        is_tracked = is_tracked_from_creation(request, draft.served.kind)
    else:
        is_tracked = "managedFields" in old["metadata"] or bool(draft.obj["metadata"].get("managedFields"))
    if is_tracked:
        manager = state.field_managers.of(draft.served.kind, subresource)
        now = format_time(state.clock.now())
        draft.entries = entries_after(manager, old, draft.obj, manager_name(request), now)


def entries_after(manager: FieldManager, old: Json | None, new: Json, name: str, now: str) -> list[Entry]:
    """Return the entries after a write; none if list items have duplicate keys, as paths cannot name them then."""
    try:
        return manager.update(old, new, name, now)
    except Misfit:
        return []


def put_entries(draft: Draft) -> None:
    """Write the draft's entries into its metadata, or the stored ones if this write is not tracked."""
    metadata = draft.obj["metadata"]
    metadata.pop("managedFields", None)
    if draft.entries:
        metadata["managedFields"] = draft.entries


def keep_times(obj: Json, old: Json) -> None:
    """Keep the old times of entries if nothing else has changed, in place, so that a no-op write stays one."""
    metadata = obj["metadata"]
    entries, before = metadata.get("managedFields"), old["metadata"].get("managedFields")
    if entries and entries != before and differ_in_times_only(entries, before):
        metadata["managedFields"] = before
        if obj != old:
            metadata["managedFields"] = entries
