"""The ``scale`` subresource: read and write the replicas at a kind's path, for built-in and custom kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from strato.api.kinds import Kind
from strato.api.selectors import from_label_selector, from_labels
from strato.api.shapes import LabelSelector
from strato.api.status import INVALID, conflict, invalid, invalid_value, method_not_supported
from strato.api.validation.metadata import validate_metadata
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import BadRequest, Cause, Invalid, UnsupportedMedia
from strato.server import pathidentity, preparation
from strato.server.bodies import read_body
from strato.server.fieldmanager.entries import read_entries, write_entries
from strato.server.fieldmanager.manager import owners_of
from strato.server.fieldmanager.scale import from_scale, to_scale
from strato.server.patch import apply_json_patch, apply_merge_patch
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import apply, ownership, storing
from strato.server.rest.largewrites import admitted
from strato.server.rest.representations import shown, wanted
from strato.server.rest.state import State
from strato.server.rest.write import Writer
from strato.server.schema import builtin
from strato.server.schema.violations import json_type

_SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_SERVED = Served(_SCALE)


class Scale:
    """Reads and writes the scale of objects."""

    def __init__(self, state: State, writer: Writer) -> None:
        self._state, self._writer = state, writer

    def handle(
        self, request: Request, target: ResourcePath, served: Served, verb: str
    ) -> Response | Awaitable[Response]:
        """Answer get, update or patch of a scale."""
        kind = served.kind
        assert kind.scale_paths is not None
        wanted(request, _SERVED)  # raises if the client takes no form of a scale
        if verb == "get":
            found = encode(_scale_of(kind.scale_paths, self._required(target, kind)))
            return shown(request, _SERVED, found, now=self._state.clock.now())
        body = read_body(request.body, request.headers.get("content-type", ""))
        media = request.headers.get("content-type", "").split(";", 1)[0]
        if verb == "patch":
            problems = ownership.problems(request, is_apply=media == ownership.APPLY_PATCH)
            storing.check_options(request, "PatchOptions", problems)
        elif verb == "update":
            storing.check_options(request, "UpdateOptions")
            _check_type(body)
        else:
            raise method_not_supported(kind, verb)
        obj = self._required(target, kind)
        applied: Json | None = None
        if verb == "patch":
            scale = _scale_of(kind.scale_paths, obj)
            if media == ownership.APPLY_PATCH:
                config, _ = apply.configuration(request)
                body = applied = self._applied(request, served, obj, config)
            elif media == "application/json-patch+json":
                body = apply_json_patch(scale, body)
            elif media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
                body = apply_merge_patch(scale, body)
            else:
                raise UnsupportedMedia(f"a scale takes JSON, merge and apply patches, not {media}")
        metadata, replicas, warnings = _read(body, request.param("fieldValidation"), is_patched=verb == "patch")
        sent = {"metadata": metadata}
        pathidentity.check_name(sent, target.name)
        pathidentity.check_namespace(kind, sent, target.namespace)
        pathidentity.check_uid(kind, target.name, metadata.get("uid") or "", obj["metadata"]["uid"])
        _check(kind, metadata, replicas)
        asked = metadata.get("resourceVersion")
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
        paths = kind.scale_paths

        def write() -> Response | Awaitable[Response]:
            scaled = self._writer.patch(
                inner,
                target._replace(subresource=""),
                served,
                lambda old: self._owners(request, served, old, replicas, applied),
            )
            return answer(scaled) if isinstance(scaled, Response) else _awaited(scaled, answer)

        def answer(scaled: Response) -> Response:
            scale = encode(_scale_of(paths, msgspec.json.decode(scaled.body)))
            now = self._state.clock.now()
            return storing.with_warnings(shown(request, _SERVED, scale, now=now), warnings)

        if not self._state.dynamic.concerns(kind, "UPDATE", "scale"):
            return write()
        before = _scale_of(paths, obj)
        asked = storing.admission_request(
            request, target, kind, "UPDATE", {**before, "spec": {"replicas": replicas}}, before
        )
        return admitted(self._state, request, asked, write)

    def _required(self, target: ResourcePath, kind: Kind) -> Json:
        """Return the object whose scale is asked for."""
        return self._state.require(kind, target.namespace, target.name)

    def _applied(self, request: Request, served: Served, obj: Json, config: Json) -> Json:
        """Return the scale after applying a configuration, with its ``managedFields``."""
        manager = self._state.field_managers.of_scale()
        now, force = format_time(self._state.clock.now()), request.flag("force")
        return manager.apply(self._tracked(served, obj), config, request.param("fieldManager"), now, force=force)

    def _tracked(self, served: Served, obj: Json) -> Json:
        """Return the scale of an object, with the ``managedFields`` entries that concern its replicas."""
        assert served.kind.scale_paths is not None
        scale = _scale_of(served.kind.scale_paths, obj)
        managed = owners_of(obj)
        entries = write_entries(to_scale(managed, self._state.field_managers.replicas(served.kind)))
        return {**scale, "metadata": {**scale["metadata"], "managedFields": entries}}

    def _owners(
        self, request: Request, served: Served, old: Json, replicas: int, applied: Json | None
    ) -> list[Json] | None:
        """Return the ``managedFields`` of an object after a write of its scale; None if it has none."""
        managed = owners_of(old)
        if applied is not None:
            entries = applied["metadata"].get("managedFields") or []
        elif managed:
            scale = self._tracked(served, old)
            new = {**scale, "spec": {"replicas": replicas}}
            name, now = ownership.manager_name(request), format_time(self._state.clock.now())
            entries = self._state.field_managers.of_scale().update(scale, new, name, now)
        else:
            return None
        paths = self._state.field_managers.replicas(served.kind)
        return write_entries(from_scale(managed, read_entries(entries), paths, served.kind.api_version))


async def _awaited(scaled: Awaitable[Response], answer: Callable[[Response], Response]) -> Response:
    return answer(await scaled)


def _read(scale: Any, mode: str, *, is_patched: bool) -> tuple[Json, int, list[str]]:
    """Return metadata and replicas of a scale that a client has sent, or that a patch has made, and warnings.

    ``mode`` is ``fieldValidation``: what becomes of unknown fields.

    Raises:
        BadRequest: The body is not a scale.
        Invalid: The patch's result is not a scale.
    """
    warnings: list[str] = []
    if isinstance(scale, dict):
        unknown, wrong = builtin.typed(_SCALE, scale)
        try:
            warnings = preparation.strict(sorted(unknown) if is_patched else unknown, mode)
        except BadRequest as error:
            wrong.append(error.message)
    else:
        wrong = [f"json: cannot unmarshal {json_type(scale)} into Go value of type autoscaling.Scale"]
    if not wrong:
        return scale.get("metadata") or {}, (scale.get("spec") or {}).get("replicas") or 0, warnings
    if is_patched:  # the patch itself is valid, its result is not
        raise Invalid(f' "" is invalid: patch: {wrong[0]}', causes=[Cause(INVALID, wrong[0], "patch")])
    raise BadRequest(preparation.unhandled(_SCALE, wrong[0]))


def _check_type(body: Any) -> None:
    """Check that what a client sent says of itself that it is a scale, or nothing.

    Raises:
        BadRequest: It is something else.
    """
    version, name = (body.get("apiVersion"), body.get("kind")) if isinstance(body, dict) else (None, None)
    if (name or _SCALE.name, version or _SCALE.api_version) != (_SCALE.name, _SCALE.api_version):
        text = f'{name} in version "{str(version).rpartition("/")[2]}" cannot be handled as a Scale: unknown conversion'
        raise BadRequest(text)


def _check(kind: Kind, metadata: Json, replicas: int) -> None:
    """Check a scale of the right types, of an object of a kind.

    Raises:
        Invalid: With every cause.
    """
    causes = validate_metadata(metadata, namespaced=kind.namespaced)
    if replicas < 0:
        causes.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
    if causes:
        raise invalid(_SCALE, metadata["name"], causes)


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
