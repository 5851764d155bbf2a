"""Validate calls with Mesos' messages; the first failure counts. Scheduler calls get further checks."""

from __future__ import annotations

import base64
from collections.abc import Callable

from strato.api.meta import Json
from strato.errors import StratoError
from strato.interop.mesos.wire import MissingFields, message

_BODIES = {
    name: name.lower()
    for name in (
        "ACCEPT", "DECLINE", "ACCEPT_INVERSE_OFFERS", "DECLINE_INVERSE_OFFERS", "KILL", "SHUTDOWN", "ACKNOWLEDGE",
        "ACKNOWLEDGE_OPERATION_STATUS", "RECONCILE", "RECONCILE_OPERATIONS", "MESSAGE", "REQUEST", "UPDATE_FRAMEWORK",
        "SUBSCRIBE",
    )
}  # fmt: skip
"""Field of the body for each call that must have one."""
_UUID_BYTES = 16


class InvalidCall(StratoError):
    """A call that is refused with 400; the text is the body."""


def kind_of(name: str, call: Json) -> str:
    """Return the type of a call.

    Args:
        name: Name of the message, such as ``scheduler.Call``.
        call: The message.

    Raises:
        InvalidCall: Required fields are missing.
    """
    try:
        message(name).check_required(call)
    except MissingFields as error:
        raise InvalidCall(f"Not initialized: {error}") from error
    kind = call.get("type")
    if kind is None:
        raise InvalidCall("Expecting 'type' to be present")
    return str(kind)


def check_body(call: Json, field: str) -> None:
    """Check that a call has its body.

    Raises:
        InvalidCall: The body is missing.
    """
    if field not in call:
        raise InvalidCall(f"Expecting '{field}' to be present")


def check_call(call: Json) -> None:
    """Check a scheduler call.

    Raises:
        InvalidCall: It is not valid.
    """
    kind = kind_of("scheduler.Call", call)
    if kind == "SUBSCRIBE":
        _check_subscribe(call)
        return
    check_body(call, "framework_id")
    if kind in _BODIES:
        check_body(call, _BODIES[kind])
    check = _CHECKS.get(kind)
    if check is not None:
        check(call)


def _check_subscribe(call: Json) -> None:
    check_body(call, "subscribe")
    if call["subscribe"]["framework_info"].get("id") != call.get("framework_id"):
        raise InvalidCall("'framework_id' differs from 'subscribe.framework_info.id'")


def _check_update(call: Json) -> None:
    if call["update_framework"]["framework_info"].get("id") != call["framework_id"]:
        raise InvalidCall("'framework_id' differs from 'update_framework.framework_info.id'")


def _check_uuid(call: Json) -> None:
    if not is_uuid(call[call["type"].lower()]["uuid"]):
        raise InvalidCall("Not a valid UUID")


def _check_operation(call: Json) -> None:
    _check_uuid(call)
    if "agent_id" not in call["acknowledge_operation_status"]:
        raise InvalidCall("Expecting 'agent_id' to be present")


def is_uuid(text: str) -> bool:
    """Whether base64 holds the 16 bytes of a UUID."""
    return len(base64.b64decode(text)) == _UUID_BYTES


_CHECKS: dict[str, Callable[[Json], None]] = {
    "ACKNOWLEDGE": _check_uuid,
    "ACKNOWLEDGE_OPERATION_STATUS": _check_operation,
    "UPDATE_FRAMEWORK": _check_update,
}
