"""The ``scale`` subresource: replicas by path, for built-in kinds and CRDs alike."""

from __future__ import annotations

from typing import Any

import msgspec

from strato.api.selectors import from_label_selector, from_labels
from strato.api.shapes import LabelSelector
from strato.api.status import INVALID, aggregate, conflict, invalid_value, method_not_supported
from strato.api.wire import Request, Response
from strato.errors import BadRequest, Cause, Invalid, UnsupportedMedia
from strato.server import objects
from strato.server.objects import Json, encode
from strato.server.patch import apply_json_patch, apply_merge_patch
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.state import State
from strato.server.rest.write import Writer


class Scale:
    """Reads and writes scales."""

    def __init__(self, state: State, writer: Writer) -> None:
        self._state, self._writer = state, writer

    def handle(self, request: Request, target: ResourcePath, served: Served, verb: str) -> Response:
        """Answer get, update and patch of a scale."""
        kind = served.kind
        obj = self._state.require(kind, target.namespace, target.name)
        assert kind.scale_paths is not None
        if verb == "get":
            return Response(200, encode(_scale_of(kind.scale_paths, obj)))
        body = objects.read_body(request.body, request.headers.get("content-type", ""))
        if verb == "patch":
            scale = _scale_of(kind.scale_paths, obj)
            media = request.headers.get("content-type", "").split(";", 1)[0]
            if media == "application/json-patch+json":
                body = apply_json_patch(scale, body)
            elif media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
                body = apply_merge_patch(scale, body)
            else:
                raise UnsupportedMedia(f"a scale takes JSON and merge patches, not {media}")
        elif verb != "update":
            raise method_not_supported(kind, verb)
        replicas = (body.get("spec") or {}).get("replicas", 0) if isinstance(body, dict) else None
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            text = f"spec.replicas must be an integer of at least 0, not {replicas!r}"
            if verb == "patch":  # the patch was fine, what it makes of the scale is not
                raise Invalid(f' "" is invalid: patch: {text}', causes=[Cause(INVALID, text, "patch")])
            raise BadRequest(text)
        if replicas < 0:
            cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            details = {"name": target.name, "group": "autoscaling", "kind": "Scale"}
            text = f'Scale.autoscaling "{target.name}" is invalid: {aggregate([cause])}'
            raise Invalid(text, causes=[cause], details=details)
        asked = (body.get("metadata") or {}).get("resourceVersion")
        if asked and asked != obj["metadata"]["resourceVersion"]:
            raise conflict(kind, target.name)
        patch = _nested(kind.scale_paths[0], replicas)
        inner = Request(
            "PATCH",
            request.path.removesuffix("/scale"),
            {name: value for name, value in request.query.items() if name == "dryRun"},
            {"content-type": "application/merge-patch+json"},
            encode(patch),
            request.user,
        )
        scaled = self._writer.patch(inner, target._replace(subresource=""), served)
        return Response(200, encode(_scale_of(kind.scale_paths, msgspec.json.decode(scaled.body))))


def _scale_of(paths: tuple[str, str, str], obj: Json) -> Json:
    spec_path, status_path, selector_path = paths
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": _at(obj, status_path) or 0}
    selector = _selector_text(_at(obj, selector_path) if selector_path else None)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": _at(obj, spec_path) or 0},
        "status": status,
    }


def _at(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _nested(path: str, value: object) -> Json:
    result: Any = value
    for part in reversed(path.strip(".").split(".")):
        result = {part: result}
    return dict(result)


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return str(from_label_selector(msgspec.convert(selector, LabelSelector)))
    return str(from_labels(selector))
