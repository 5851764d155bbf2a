"""Write large objects in slices, between which the loop serves other requests.

As in Kubernetes, the new state is computed from the stored object; if that was written meanwhile, the write is tried
again. A small write is computed without yielding, so that no other write can come in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from strato.admission import AdmissionRequest
from strato.api import cel
from strato.api.kinds import Kind
from strato.api.status import conflict
from strato.api.wire import Request, Response
from strato.errors import Invalid
from strato.server.bodies import ParsedBody
from strato.server.flowcontrol.dispatch import Steps, at_once
from strato.server.flowcontrol.waiting import Costly, Done, Elsewhere, promptly
from strato.server.jsonbodies import is_long
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.state import State

_ATTEMPTS = 5
"""How often a write is tried; Kubernetes tries a patch as often."""


INLINE_UNITS = 30_000
"""Largest cost of CEL rules that are evaluated without yielding, 2 to 3 ms; costlier ones run in slices."""


class Changed(Exception):
    """The stored object was written since it was read."""


def answered(
    state: State,
    request: Request,
    served: Served,
    name: str,
    stored: bytes | None,
    begin: Callable[[], Steps[Response]],
    *,
    looks_at_many: bool = False,
    calls: bool = False,
) -> Response | Awaitable[Response]:
    """Answer a write: at once if its objects are small and its rules cheap, otherwise in slices.

    Args:
        state: The server's state, whose dispatcher gives the slices.
        request: The write.
        served: The object's kind.
        name: The object's name.
        stored: The stored object.
        begin: Starts to compute the answer, and again after `Changed`.
        looks_at_many: Whether the answer depends on many other objects.
        calls: Whether webhooks or policies may apply to the write.
    """
    kind = served.kind
    if isinstance(request.body, ParsedBody):
        return in_slices(state, request, kind, name, begin)
    takes_long = looks_at_many or (stored is not None and is_long(stored))
    if calls:
        if takes_long or not is_short(request, served):
            return in_slices(state, request, kind, name, begin)
        steps = begin()
        work = promptly(steps)
        return work.result if isinstance(work, Done) else _resumed(state, request, kind, name, (steps, work), begin)
    if takes_long and not request.uncommitted:
        return _with_seat(state, request, kind, name, begin)
    if is_short(request, served):
        return at_once(begin())
    with cel.budget(INLINE_UNITS) as meter:
        try:
            return at_once(begin())
        except Invalid:
            if meter.left >= 0:
                raise
    return _with_seat(state, request, kind, name, begin)


def is_short(request: Request, served: Served) -> bool:
    """Whether an object is checked without yielding: it is small and has no costly rules."""
    return not isinstance(request.body, ParsedBody) and (request.uncommitted or not has_schema_rules(served))


def has_schema_rules(served: Served) -> bool:
    """Tell whether CEL rules are evaluated when an object or its status is written."""
    if served.schema is None:
        return False
    of_status = served.status.schema if served.status is not None else None
    return served.schema.has_rules or (of_status is not None and of_status.has_rules)


async def _with_seat(
    state: State, request: Request, kind: Kind, name: str, begin: Callable[[], Steps[Response]]
) -> Response:
    async with state.flows.dispatcher.seat(state.flows.flow_of(request)):
        return await in_slices(state, request, kind, name, begin)


async def in_slices(
    state: State, request: Request, kind: Kind, name: str, begin: Callable[[], Steps[Response]]
) -> Response:
    """Answer a write in slices, and start again if the object was written meanwhile.

    Raises:
        Conflict: That happened `_ATTEMPTS` times.
    """
    flows = state.flows
    for _ in range(_ATTEMPTS):
        try:
            return await flows.dispatcher.finish(flows.flow_of(request), begin())
        except Changed:
            continue
    raise conflict(kind, name)


async def _resumed(
    state: State,
    request: Request,
    kind: Kind,
    name: str,
    begun: tuple[Steps[Response], Elsewhere[Any] | Costly[Any]],
    begin: Callable[[], Steps[Response]],
) -> Response:
    """Continue a short write that waits for a webhook, say; start again if the object was written meanwhile."""
    flows = state.flows
    flow = flows.flow_of(request)
    steps = begun[0]
    work: Elsewhere[Any] | Costly[Any] | Done[Response] = begun[1]
    for _ in range(_ATTEMPTS):
        try:
            while not isinstance(work, Done):
                work = promptly(steps, await flows.dispatcher.awaited(flow, work))
            return work.result
        except Changed:
            steps = begin()
            work = promptly(steps)
    raise conflict(kind, name)


async def admitted(
    state: State, request: Request, asked: AdmissionRequest, then: Callable[[], Response | Awaitable[Response]]
) -> Response:
    """Answer a request that stores no object of its own, after webhooks and policies have admitted it.

    Args:
        state: The server's state, with the webhooks and policies.
        request: The request.
        asked: The admission request, whose object they may change.
        then: Carries the request out.

    Raises:
        ApiError: One of them refuses it.
    """
    flows = state.flows
    await flows.dispatcher.finish(flows.flow_of(request), state.dynamic.admit(asked, storing.options(asked)))
    answer = then()
    return storing.with_warnings(answer if isinstance(answer, Response) else await answer, asked.warnings)
