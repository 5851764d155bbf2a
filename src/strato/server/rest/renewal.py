"""Renewals of leases: of a node's heartbeat only the time differs, and only the time is put into the stored bytes.

Every node renews its lease each ten seconds, and says nothing else. Such a patch holds one time. What else the long way
(`Writer.patch`) would look at was looked at when the lease came: nobody has rules about a time that is one.
"""

from __future__ import annotations

import re

import msgspec

from strato.api import catalog
from strato.api.wire import Request
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.layouts import with_spec_text
from strato.server.rest.state import State
from strato.server.rest.statuspatch import MERGE_PATCH
from strato.server.schema.typed import is_time

_renewal = re.compile(rb'\{"spec":\{"renewTime":"([ !#-\[\]-~]+)"\}\}').fullmatch
_KEY = b'"renewTime":"'


def renewed(
    state: State, request: Request, target: ResourcePath, served: Served, media: str, body: bytes
) -> bytes | None:
    """Return the stored lease ``body`` renewed, at the next revision; the same bytes when nothing differs.

    None means that the long way has to be taken.
    """
    if served.kind is not catalog.LEASE or target.subresource or request.query or media != MERGE_PATCH:
        return None
    match = _renewal(request.body)
    if match is None or not is_time(match[1].decode()) or state.admission.minds(served.kind, "UPDATE"):
        return None
    try:
        at = state.layouts.of(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if at is None or not at.spec or at.api_version != served.kind.api_version:
        return None
    start = body.find(_KEY, at.spec, at.spec_end) + len(_KEY)
    if start < len(_KEY):
        return None
    end = body.index(b'"', start)
    if body[start:end] == match[1]:
        return body
    result, now_at = with_spec_text(body, at, state.store.next_revision(), (start, end), match[1])
    state.layouts.note(result, now_at, body)
    return result
