"""``POST /api/v1/scheduler``: the scheduler API of frameworks. The checks are in Mesos' order."""

from __future__ import annotations

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints.negotiation import answer_type, not_acceptable, read, refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master.calls import InvalidCall, check_call
from strato.interop.mesos.master.frameworks import UpdateRefused
from strato.interop.mesos.master.model import Framework, value_of
from strato.interop.mesos.wire import message

STREAM_ID = "Mesos-Stream-Id"
_STREAM_ID = STREAM_ID.lower()


async def handle(serving: Serving, request: Request, principal: str) -> Response:
    """Answer a request of a framework.

    Raises:
        Refused: Holds the response to send.
    """
    call, _ = read(request, message("scheduler.Call"))
    try:
        check_call(call)
    except InvalidCall as error:
        raise refused(400, f"Failed to validate scheduler::Call: {error}") from error
    kind = call["type"]
    content_type = answer_type(request)
    if content_type is None and kind in ("SUBSCRIBE", "RECONCILE_OPERATIONS"):
        raise not_acceptable()
    if kind == "SUBSCRIBE":
        return await _subscribe(serving, request, call, content_type or "", principal)
    framework = _framework(serving, request, call, principal)
    if kind == "UNKNOWN":
        raise refused(501, "")
    now = serving.now()
    if kind == "UPDATE_FRAMEWORK":
        try:
            serving.master.frameworks.update(framework, call["update_framework"], now)
        except UpdateRefused as error:
            raise refused(400, str(error)) from error
        await serving.flush()
        return Response(200)
    serving.master.call(framework, call, now)
    await serving.flush()
    return Response(202, content_type="text/plain")


async def _subscribe(serving: Serving, request: Request, call: Json, content_type: str, principal: str) -> Response:
    if _STREAM_ID in request.headers:
        raise refused(400, f"Subscribe calls should not include the '{STREAM_ID}' header")
    info: Json = call["subscribe"]["framework_info"]
    given = info.get("principal", principal)
    if principal and given != principal:
        raise refused(400, _other_principal(principal, given))
    stream = serving.stream("scheduler.Event", content_type, principal)
    stream_id = str(serving.master.state.new_uuid())
    serving.master.frameworks.subscribe(call, stream, stream_id, principal, serving.now())
    await serving.flush()
    return Response(200, content_type=content_type, headers={STREAM_ID: stream_id}, stream=stream)


def _framework(serving: Serving, request: Request, call: Json, principal: str) -> Framework:
    """Return the framework that makes a call."""
    framework = serving.master.state.frameworks.get(value_of(call, "framework_id"))
    if framework is None:
        raise refused(400, "Framework cannot be found")
    if principal and framework.principal and principal != framework.principal:
        raise refused(400, _other_principal(principal, framework.principal))
    if not framework.is_connected:
        raise refused(403, "Framework is not subscribed")
    stream_id = request.headers.get(_STREAM_ID)
    if stream_id is None:
        raise refused(400, f"All non-subscribe calls should include the '{STREAM_ID}' header")
    if stream_id != framework.stream_id:
        raise refused(
            400,
            f"The stream ID '{stream_id[:128]}' included in this request didn't match the stream ID currently "
            f"associated with framework ID {framework.id}",
        )
    return framework


def _other_principal(given: str, expected: str) -> str:
    return f"Authenticated principal '{given}' does not match principal '{expected}' set in `FrameworkInfo`"
