"""Server-side apply: merge an applied configuration into the stored object."""

from __future__ import annotations

from strato.api.kinds import Kind
from strato.api.status import conflict
from strato.api.wire import Request
from strato.clock import format_time
from strato.errors import BadRequest
from strato.server.bodies import duplicate_keys, read_body
from strato.server.path import ResourcePath
from strato.server.preparation import Json
from strato.server.rest.ownership import APPLY_PATCH
from strato.server.rest.state import State


def configuration(request: Request) -> tuple[Json, list[str]]:
    """Return the applied configuration, and problems with its YAML: duplicate keys.

    Raises:
        BadRequest: The body is not an object in YAML or JSON.
    """
    try:
        config = read_body(request.body, APPLY_PATCH)
    except BadRequest as error:
        raise BadRequest(f"error decoding YAML: {error.message}") from error
    if not isinstance(config, dict):
        raise BadRequest("error decoding YAML: what is applied must be an object")
    repeated = duplicate_keys(request.body, APPLY_PATCH)
    return config, [f"error converting YAML to JSON: {text}" for text in repeated]


def merged(state: State, request: Request, kind: Kind, target: ResourcePath, live: Json | None, config: Json) -> Json:
    """Return the merged object, with its ``managedFields``.

    Raises:
        ApiError: The configuration sets fields that other managers own, or is not of this kind.
    """
    manager = state.field_managers.of(kind, target.subresource)
    now = format_time(state.clock.now())
    return manager.apply(live, config, request.param("fieldManager"), now, force=request.flag("force"))


def check_creation(kind: Kind, target: ResourcePath, obj: Json) -> None:
    """Check that an apply which would create an object was not meant for an existing one.

    Raises:
        Conflict: The configuration has a uid, whose object no longer exists.
    """
    uid = obj["metadata"].get("uid")
    if uid:
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(kind, target.name, text)
