"""``POST /api/v1``: the operator API: reads, changes and the event stream."""

from __future__ import annotations

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints import files
from strato.interop.mesos.endpoints.negotiation import answer_type, not_acceptable, read, refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master import views
from strato.interop.mesos.master.calls import InvalidCall, check_body, kind_of
from strato.interop.mesos.master.operators import OperatorRefused
from strato.interop.mesos.master.state import HEARTBEAT_SECONDS
from strato.interop.mesos.wire import message


async def handle(serving: Serving, request: Request, principal: str) -> Response:
    """Answer an operator's request.

    Raises:
        Refused: Holds the response to send.
    """
    call, _ = read(request, message("master.Call"))
    _check(call)
    content_type = answer_type(request)
    if content_type is None:
        raise not_acceptable()
    master = serving.master
    if call["type"] == "SUBSCRIBE":
        return _subscribe(serving, content_type, principal)
    shown = views.answer(master.state, call, serving.now()) or await files.answer(serving.files, master.state, call)
    if shown is not None:
        return Response(200, message("master.Response").encode(shown, content_type), content_type)
    try:
        master.operators.call(call, serving.now())
    except OperatorRefused as error:
        raise refused(error.status, str(error)) from error
    await serving.flush()
    is_later = call["type"].endswith(("RESOURCES", "VOLUMES", "VOLUME"))
    return Response(202 if is_later else 200, content_type=content_type)


def _check(call: Json) -> None:
    try:
        kind = kind_of("master.Call", call)
        if not kind.startswith("GET_") and kind not in ("SUBSCRIBE", "UNKNOWN"):
            check_body(call, kind.lower())
    except InvalidCall as error:
        raise refused(400, f"Failed to validate master::Call: {error}") from error


def _subscribe(serving: Serving, content_type: str, principal: str) -> Response:
    state = serving.master.state
    stream = serving.stream("master.Event", content_type, principal)
    subscribed = {"get_state": views.state_view(state), "heartbeat_interval_seconds": HEARTBEAT_SECONDS}
    stream.send({"type": "SUBSCRIBED", "subscribed": subscribed})
    stream.send({"type": "HEARTBEAT"})
    state.listeners[stream] = None
    return Response(200, content_type=content_type, stream=stream)
