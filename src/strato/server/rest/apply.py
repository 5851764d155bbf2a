"""Server-side apply: what a request wants, merged into what there is."""

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
    """Return what is applied, and what is wrong with it as YAML: keys that stand twice.

    Raises:
        BadRequest: It is no object in YAML or JSON.
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
    """Return the object that results, with its entries.

    Raises:
        ApiError: It is in conflict with what others own, or is none of this kind.
    """
    manager = state.field_managers.of(kind, target.subresource)
    now = format_time(state.clock.now())
    return manager.apply(live, config, request.param("fieldManager"), now, force=request.flag("force"))


def check_creation(kind: Kind, target: ResourcePath, obj: Json) -> None:
    """Refuse to create what was meant for an object that is not there.

    Raises:
        Conflict: The configuration names the uid of another object.
    """
    uid = obj["metadata"].get("uid")
    if uid:
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(kind, target.name, text)
