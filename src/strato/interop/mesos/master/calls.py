"""Which scheduler calls are valid, in Mesos' words; first failure wins."""

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
"""Calls that must have a body, and its field."""
_UUID_BYTES = 16


class InvalidCall(StratoError):
    """A call that is refused with 400; the text is the body."""


def check_call(call: Json) -> None:
    """Check a scheduler call.

    Raises:
        InvalidCall: It is not valid.
    """
    try:
        message("scheduler.Call").check_required(call)
    except MissingFields as error:
        raise InvalidCall(f"Not initialized: {error}") from error
    kind = call.get("type")
    if kind is None:
        raise InvalidCall("Expecting 'type' to be present")
    if kind == "SUBSCRIBE":
        _check_subscribe(call)
        return
    if "framework_id" not in call:
        raise InvalidCall("Expecting 'framework_id' to be present")
    body = _BODIES.get(kind)
    if body is not None and body not in call:
        raise InvalidCall(f"Expecting '{body}' to be present")
    check = _CHECKS.get(kind)
    if check is not None:
        check(call)


def _check_subscribe(call: Json) -> None:
    if "subscribe" not in call:
        raise InvalidCall("Expecting 'subscribe' to be present")
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
