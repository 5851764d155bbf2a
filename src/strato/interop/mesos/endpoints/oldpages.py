"""The old JSON pages and forms, with and without ``/master`` before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.decoding import UNDECODABLE
from strato.interop.mesos.endpoints.negotiation import refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master import pages, views
from strato.interop.mesos.master.operators import OperatorRefused, old_quota
from strato.interop.mesos.wire import MalformedMessage, message

Page = Callable[[Serving, Request], Json | list[Json]]
_MOST_FIELDS = 100
_FORMS = {"/reserve": "RESERVE_RESOURCES", "/unreserve": "UNRESERVE_RESOURCES", "/create-volumes": "CREATE_VOLUMES",
          "/destroy-volumes": "DESTROY_VOLUMES"}  # fmt: skip


def json_response(value: object, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(status, msgspec.json.encode(value))


def _weights(serving: Serving, request: Request) -> list[Json]:
    del request
    found: list[Json] = views.weights_view(serving.master.state).get("weight_infos", [])
    return found


PAGES: dict[str, Page] = {
    "/state": lambda serving, _: pages.whole_state(serving.master.state),
    "/state.json": lambda serving, _: pages.whole_state(serving.master.state),
    "/state-summary": lambda serving, _: pages.summary(serving.master.state),
    "/slaves": lambda serving, _: pages.slaves(serving.master.state),
    "/frameworks": lambda serving, _: pages.frameworks(serving.master.state),
    "/tasks": lambda serving, request: pages.tasks(serving.master.state, request.query),
    "/tasks.json": lambda serving, request: pages.tasks(serving.master.state, request.query),
    "/roles": lambda serving, _: pages.roles(serving.master.state),
    "/flags": lambda serving, _: {"flags": dict(views.flags_view(serving.master.state))},
    "/metrics/snapshot": lambda serving, _: dict(views.metrics_view(serving.master.state, serving.now())),
    "/weights": _weights,
    "/quota": lambda serving, _: views.quota_view(serving.master.state)["status"],
    "/maintenance/schedule": lambda serving, _: serving.master.state.schedule,
    "/maintenance/status": lambda serving, _: views.maintenance_status(serving.master.state)["status"],
}
WRITES = frozenset(
    ("/weights", "/quota", "/teardown", "/maintenance/schedule", "/machine/down", "/machine/up", *_FORMS)
)
"""Paths of forms by which operators change state."""


async def handle(serving: Serving, path: str, request: Request) -> Response:
    """Answer a page or a form.

    Raises:
        Refused: Holds the response to send.
    """
    if request.method in ("GET", "HEAD") and path in PAGES:
        return json_response(PAGES[path](serving, request))
    if path not in WRITES:
        raise refused(405, f"Expecting one of {{ 'GET' }}, but received '{request.method}'")
    try:
        serving.master.operators.call(_call(path, request), serving.now())
    except OperatorRefused as error:
        raise refused(error.status, str(error)) from error
    await serving.flush()
    return Response(202 if path in _FORMS else 200, content_type="text/plain")


def _call(path: str, request: Request) -> Json:
    """Return the v1 call equivalent to a form.

    Raises:
        Refused: The form is incomplete or malformed.
    """
    if path == "/quota" and request.method == "DELETE":
        return {"type": "REMOVE_QUOTA", "remove_quota": {"role": request.path.rpartition("/quota/")[2]}}
    if request.method not in ("POST", "PUT"):
        raise refused(405, f"Expecting one of {{ 'POST', 'PUT' }}, but received '{request.method}'")
    if path == "/teardown":
        return {"type": "TEARDOWN", "teardown": {"framework_id": {"value": _form(request).get("frameworkId", "")}}}
    if path in _FORMS:
        form = _form(request)
        listed = "volumes" if "volumes" in path else "resources"
        body = {"agent_id": {"value": form.get("slaveId", "")}, listed: _json(form.get(listed, "").encode())}
        return _checked({"type": _FORMS[path], _FORMS[path].lower(): body})
    given = _json(request.body)
    if path == "/weights":
        return _checked({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": given}})
    if path == "/quota":
        if not isinstance(given, dict):
            raise refused(400, "Failed to parse set quota request JSON: an object is expected")
        checked = _checked({"type": "SET_QUOTA", "set_quota": {"quota_request": given}})
        quota = old_quota(checked["set_quota"]["quota_request"])
        body = {"quota_configs": [quota], "force": bool(given.get("force", False))}
        return {"type": "UPDATE_QUOTA", "update_quota": body}
    if path == "/maintenance/schedule":
        return _checked({"type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": {"schedule": given}})
    kind = "START_MAINTENANCE" if path == "/machine/down" else "STOP_MAINTENANCE"
    return _checked({"type": kind, kind.lower(): {"machines": given}})


def _checked(call: Json) -> Json:
    try:
        checked = message("master.Call").from_value(call)
        missing = list(message("master.Call").missing(checked, ""))
    except MalformedMessage as error:
        raise refused(400, f"Failed to parse the request: {error}") from error
    if missing:
        raise refused(400, f"Failed to parse the request: missing {', '.join(missing)}")
    return checked


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNDECODABLE as error:
        raise refused(400, f"Failed to parse the request as JSON: {error}") from error


def _form(request: Request) -> dict[str, str]:
    try:
        fields = parse_qs(request.body.decode(), max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise refused(400, "Unable to decode query string") from error
    return {name: values[0] for name, values in fields.items()}
