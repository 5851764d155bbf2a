"""`Status` objects and the errors that they describe, with Kubernetes' messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from strato.api.kinds import Kind
from strato.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
NOT_FOUND = "FieldValueNotFound"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"

_KNOWN: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    TooLarge,
    UnsupportedMedia,
    Invalid,
    TooManyRequests,
    InternalError,
    Unavailable,
)
_BY_REASON: dict[str, type[ApiError]] = {error.default_reason: error for error in _KNOWN} | {"Gone": Gone}

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMedia,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    503: Unavailable,
}

MOST_CAUSES = 1_000
"""Most causes of one error that an answer has."""
_ALWAYS_DETAILED = frozenset((404, 405, 406))
"""Codes of answers with empty details, as from a real server, because they are about a path instead of an object."""

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def to_status(error: ApiError) -> dict[str, Any]:
    """Write an error as a ``Status`` object."""
    details: dict[str, Any] = dict(error.details)
    if error.causes:
        details["causes"] = [_cause_json(cause) for cause in error.causes[:MOST_CAUSES]]
    if error.retry_after_seconds is not None:
        details["retryAfterSeconds"] = error.retry_after_seconds
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        **({"reason": error.reason} if error.reason else {}),
        "code": error.code,
    }
    if details or error.code in _ALWAYS_DETAILED:
        status["details"] = details
    if isinstance(error, Gone) and error.continue_token:
        status["metadata"] = {"continue": error.continue_token}
    return status


def _cause_json(cause: Cause) -> dict[str, str]:
    members = (("reason", cause.reason), ("message", cause.message), ("field", cause.field))
    return {name: text for name, text in members if text}


def from_status(status: Mapping[str, Any], http_code: int = 0) -> ApiError:
    """Return the error that a ``Status`` object, or another body in its place, describes.

    Args:
        status: The decoded body; unknown or missing members are tolerated.
        http_code: The response's status code, used when the body has none.
    """
    code = _int(status.get("code")) or http_code or 500
    reason = str(status.get("reason") or "")
    error_type = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    details = status.get("details")
    members = details if isinstance(details, Mapping) else {}
    raw_causes = members.get("causes")
    causes = [
        Cause(str(item.get("reason", "")), str(item.get("message", "")), str(item.get("field", "")))
        for item in (raw_causes if isinstance(raw_causes, list) else ())
        if isinstance(item, Mapping)
    ]
    return error_type(
        str(status.get("message") or f"the server answered with status {code}"),
        reason=reason or None,
        code=code,
        causes=causes,
        details={key: value for key, value in members.items() if isinstance(value, str)},
        retry_after_seconds=_int(members.get("retryAfterSeconds")),
    )


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _resource_details(kind: Kind, name: str) -> dict[str, str]:
    """``details`` of errors about a resource: Kubernetes puts the plural where it says kind."""
    details = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


def not_found(kind: Kind, name: str) -> NotFound:
    """``pods "x" not found``."""
    return NotFound(f'{kind.resource} "{name}" not found', details=_resource_details(kind, name))


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    """``jobs.batch.volcano.sh "x" already exists``."""
    return AlreadyExists(f'{kind.resource} "{name}" already exists', details=_resource_details(kind, name))


def conflict(kind: Kind, name: str, text: str = _MODIFIED) -> Conflict:
    """``Operation cannot be fulfilled on pods "x": …``; by default, that the object has been modified."""
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {text}', details=_resource_details(kind, name)
    )


def forbidden(kind: Kind, name: str, text: str) -> Forbidden:
    """``pods "x" is forbidden: …``."""
    subject = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    return Forbidden(f"{subject}: {text}", details=_resource_details(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Invalid:
    """``Pod "x" is invalid: spec.containers: Required value``; several causes as ``[a, b]``."""
    qualified = f"{kind.name}.{kind.group}" if kind.group else kind.name
    details = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.name
    return Invalid(
        f'{qualified} "{name}" is invalid: {aggregate(causes)}', causes=causes[:MOST_CAUSES], details=details
    )


def aggregate(causes: Sequence[Cause]) -> str:
    """Join causes as Kubernetes' error aggregates do: without repeats, in brackets when there are several.

    Only the first `MOST_CAUSES` are written, so that an answer does not become many times as long as its request.
    """
    texts = dict.fromkeys(map(_text_of, causes))
    joined = ", ".join(islice(texts, MOST_CAUSES))
    if len(texts) > MOST_CAUSES:
        joined += f", and {len(texts) - MOST_CAUSES} more"
    return joined if len(texts) == 1 else f"[{joined}]"


def _text_of(cause: Cause) -> str:
    return f"{cause.field}: {cause.message}" if cause.field else cause.message


def method_not_supported(kind: Kind, verb: str) -> MethodNotAllowed:
    """``update is not supported on resources of kind "pods"``."""
    return MethodNotAllowed(
        f'{verb} is not supported on resources of kind "{kind.resource}"', details=_resource_details(kind, "")
    )


def required(field: str, detail: str = "") -> Cause:
    """``spec.containers: Required value``."""
    return Cause(REQUIRED, "Required value" + (f": {detail}" if detail else ""), field)


def invalid_value(field: str, value: object, detail: str) -> Cause:
    """``metadata.name: Invalid value: "X": …``."""
    return Cause(INVALID, f"Invalid value: {render(value)}" + (f": {detail}" if detail else ""), field)


def invalid_values(field: str, value: object, details: Iterable[str]) -> Iterator[Cause]:
    """Return `invalid_value` for each of several reasons."""
    return (invalid_value(field, value, detail) for detail in details)


def not_supported(field: str, value: object, supported: Sequence[str]) -> Cause:
    """``Unsupported value: "x": supported values: "a", "b"``, in the order given."""
    known = ", ".join(f'"{item}"' for item in supported)
    return Cause(NOT_SUPPORTED, f"Unsupported value: {render(value)}: supported values: {known}", field)


def not_one_of(field: str, value: object, supported: Sequence[str]) -> Cause:
    """Return `not_supported`, or `required` for an empty value."""
    return not_supported(field, value, supported) if value else required(field)


def duplicate(field: str, value: object) -> Cause:
    """``Duplicate value: "x"``."""
    return Cause(DUPLICATE, f"Duplicate value: {render(value)}", field)


def forbidden_field(field: str, detail: str) -> Cause:
    """``spec: Forbidden: …``."""
    return Cause(FORBIDDEN, f"Forbidden: {detail}", field)


def field_not_found(field: str, value: object) -> Cause:
    """``Not found: "x"``."""
    return Cause(NOT_FOUND, f"Not found: {render(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    """``Too long: may not be more than 63 bytes``."""
    return Cause(TOO_LONG, f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, most: int) -> Cause:
    """``Too many: 101: must have at most 100 items``."""
    return Cause(TOO_MANY, f"Too many: {count}: must have at most {most} items", field)


def render(value: object) -> str:
    """Write an offending value as Kubernetes' messages do."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return _compact(value)


def _compact(value: object) -> str:

    return msgspec.json.encode(value).decode()
