"""create, update and patch.

A write is decided against the newest state and handed to the store in the same step, so that nothing can come between;
only its answer waits for the commit (`ApiServer.handle`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import (
    INVALID,
    aggregate,
    conflict,
    invalid_value,
    not_found,
    render,
)
from strato.api.wire import Request, Response
from strato.errors import BadRequest, Cause, Invalid, UnsupportedMedia
from strato.server import crd, preparation
from strato.server.bodies import duplicate_keys, is_json, is_yaml, read_body
from strato.server.flowcontrol.dispatch import Steps
from strato.server.jsonbodies import UNCOUNTED_BYTES, check_shape, stored_steps
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import memberpatch, quotas, storing
from strato.server.rest.create import Creation, Draft
from strato.server.rest.createcache import Cached, CreateCache, Miss
from strato.server.rest.largewrites import Changed, answered, is_short
from strato.server.rest.rights import ANONYMOUS, attributes_of, authorize
from strato.server.rest.state import State, object_key
from strato.server.schema import builtin
from strato.server.strategies import strategy_of

_STATUS_MEMBERS = ("apiVersion", "kind", "metadata", "status")
_JSON_PATCH, _MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
_PATCH_TYPES = (_JSON_PATCH, _MERGE_PATCH, "application/strategic-merge-patch+json")


class Writer:
    """The writing verbs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._memo, self._creation = CreateCache(state), Creation(state)

    # create

    def create(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Create an object and answer it."""
        with_quotas = quotas.are_any(self._state)
        counts = with_quotas and self._looks_at_many(request, target, served)
        known = None
        if not counts and self._is_cacheable(request, served):
            known = self._memo.look_up(request, target, served)
        if not isinstance(known, Cached):
            if counts or not is_short(request, served):
                begin = partial(self._creating, request, target, served, known)
                return answered(self._state, request, served, "", None, begin, looks_at_many=counts)
            draft = Draft(request, target, served, *self._read(request, served, "CreateOptions"))
            response = self._creation.at_once(draft, with_quotas=with_quotas)
            self._learn(known, draft)
            return response
        obj = {**known.accepted.rest, "metadata": known.metadata}
        draft = Draft(request, target, served, obj, [], known)
        response = self._creation.at_once(draft, with_quotas=with_quotas)
        if not known.begin:
            self._memo.fill_template(target.namespace, request.body, known)
        return response

    def _creating(
        self, request: Request, target: ResourcePath, served: Served, unknown: Miss | None
    ) -> Steps[Response]:
        """Create an object of which nothing is known; ``unknown`` is there when others like it shall be."""
        obj, warnings = yield lambda: self._read(request, served, "CreateOptions")
        draft = Draft(request, target, served, obj, warnings)
        response = yield from self._creation.sliced(draft)
        self._learn(unknown, draft)
        return response

    def _learn(self, unknown: Miss | None, draft: Draft) -> None:
        if unknown is not None and not draft.warnings:
            self._memo.fill(unknown, draft.body)

    def _is_cacheable(self, request: Request, served: Served) -> bool:
        return (
            self._state.memoises
            and not request.query
            and request.headers.get("content-type") == "application/json"
            and len(request.body) <= UNCOUNTED_BYTES
            and not self._state.rights.restrict(request.user, served.kind)
        )

    # update and patch

    def update(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Replace an object; some kinds are created when there is none."""
        body = self._state.bucket(served.kind).latest(object_key(served.kind, target.namespace, target.name))
        return answered(
            self._state,
            request,
            served,
            target.name,
            body,
            lambda: self._updating(request, target, served),
            looks_at_many=self._looks_at_many(request, target, served),
        )

    def _updating(self, request: Request, target: ResourcePath, served: Served) -> Steps[Response]:
        kind = served.kind
        obj, warnings = yield lambda: self._read(request, served, "UpdateOptions")
        preparation.check_namespace(kind, obj, target.namespace)
        warnings += preparation.unique_owners(obj["metadata"])
        _check_name(obj, target)
        strategy = strategy_of(served)
        stored = self._state.bucket(kind).latest(object_key(kind, target.namespace, target.name))
        if stored is None:
            if not strategy.created_by_update or target.subresource or obj["metadata"].get("uid"):
                raise not_found(kind, target.name)
            if self._state.authorizer is not None:
                user = request.user or ANONYMOUS
                authorize(self._state.authorizer, user, attributes_of(request, "create", target))
            obj["metadata"].pop("resourceVersion", None)
            return (yield from self._creation.sliced(Draft(request, target, served, obj, warnings)))
        old = yield from stored_steps(stored)
        if not strategy.updates_blindly and not obj["metadata"].get("resourceVersion"):
            raise _needs_revision(kind, target.name)
        uid = obj["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(kind, target.name, text)
        body = yield from self._replace(request, target, served, obj, old, warnings, stored)
        return storing.answer(self._state, request, kind, body, warnings)

    def patch(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Change an object by a patch."""
        kind = served.kind
        media = request.headers.get("content-type", "")
        if media not in _PATCH_TYPES:
            media = media.split(";", 1)[0].strip()
        if media not in _PATCH_TYPES:
            raise UnsupportedMedia(
                f"the body of the request was in an unknown format - accepted media types include: "
                f"{', '.join(_PATCH_TYPES)}"
            )
        key = object_key(kind, target.namespace, target.name)
        body = self._state.bucket(kind).latest(key)
        result = None
        if body is not None and self._state.memoises and not self._state.rights.restrict(request.user, kind):
            result = memberpatch.patched(self._state, request, target, served, media, body)
        if result is not None:
            if result is not body:
                self._state.store.write(kind.resource, key, result)
            return storing.answer(self._state, request, kind, result, [])
        if request.query:
            storing.check_options(request, "PatchOptions")
        return answered(
            self._state,
            request,
            served,
            target.name,
            body,
            lambda: self._patching(request, target, served, media),
            looks_at_many=self._looks_at_many(request, target, served),
        )

    def _patching(self, request: Request, target: ResourcePath, served: Served, media: str) -> Steps[Response]:
        kind = served.kind
        body = self._state.bucket(kind).latest(object_key(kind, target.namespace, target.name))
        base: Json | None = None
        old: Json | None = None
        if body is not None:
            old = yield from stored_steps(body)
            # a merge patch shares what it leaves as it was, the others work in place
            base = old if media == _MERGE_PATCH else (yield from stored_steps(body))
        obj, warnings = yield lambda: self._patched(request, target, served, media, old, base)
        assert old is not None
        _check_name(obj, target)
        stored = yield from self._replace(request, target, served, obj, old, warnings, body)
        return storing.answer(self._state, request, kind, stored, warnings)

    def _patched(
        self, request: Request, target: ResourcePath, served: Served, media: str, old: Json | None, base: Json | None
    ) -> tuple[Json, list[str]]:
        """Return what the patch makes of ``base``, which is what is stored (``old``), and warnings."""
        kind = served.kind
        try:
            patch = read_body(request.body, media)
        except BadRequest as error:
            raise BadRequest(f"error decoding patch: {error}") from error
        if old is None:
            raise not_found(kind, target.name)
        obj = _apply(kind, media, base, patch)
        try:
            obj = preparation.check_type(served, obj)
            preparation.check_namespace(kind, obj, target.namespace)
            warnings = self._check_fields(request, served, obj, _status_part(served, target, obj, old))
            warnings += preparation.unique_owners(obj["metadata"])
        except BadRequest as error:
            # The patch was fine, what it makes of the object is not: to Kubernetes that is another code.
            text = f"Invalid value: {render(encode(obj).decode())}: {error.message}"
            raise Invalid(f' "" is invalid: patch: {text}', causes=[Cause(INVALID, text, "patch")]) from error
        return obj, warnings

    def _replace(
        self,
        request: Request,
        target: ResourcePath,
        served: Served,
        obj: Json,
        old: Json,
        warnings: list[str],
        stored: bytes | None,
    ) -> Steps[bytes]:
        """Check ``obj`` against ``old`` and store it; nothing changes when nothing differs. Adds to ``warnings``.

        Raises:
            Changed: What is there is no longer ``stored``, which held ``old``.
        """
        kind, metadata = served.kind, obj["metadata"]
        asked = metadata.get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise conflict(kind, target.name)
        # an empty list of finalizers is what this subresource is for; defaults would fill it again
        finalized = dict(obj.get("spec") or {}) if target.subresource == "finalize" else None
        preparation.check_fixed(kind, obj, old)
        status = _status_part(served, target, obj, old)
        if any(metadata.get(member) != old["metadata"].get(member) for member in ("labels", "annotations")):
            status = None  # new metadata has to pass as well
        if status is None:
            yield lambda: preparation.fill_defaults(served, obj)
        elif served.status is not None:
            yield partial(preparation.fill_defaults, served.status, status)
            if "status" in status:
                obj["status"] = status["status"]
        preparation.prepare_update(served, obj, old, subresource=target.subresource)
        if finalized is not None:
            if not finalized.get("finalizers"):
                finalized.pop("finalizers", None)
            obj = {**old, "metadata": {**old["metadata"]}, "spec": finalized}
        admission_request = storing.admission_request(request, target, kind, "UPDATE", obj, old)
        self._state.rights.check(admission_request, target.name)
        self._state.admission.mutate(admission_request, self._state)
        if target.subresource != "status":
            preparation.count_generation(kind, obj, old)
        if kind is catalog.CUSTOMRESOURCEDEFINITION:
            crd.prepare(obj, self._state.clock.now(), old)
        if status is None:
            yield partial(preparation.validate, served, obj, old)
        elif served.status is not None:
            before = {**status, "status": old.get("status")}
            yield partial(preparation.validate_status, served.status, status, before, target.name)
        key = object_key(kind, target.namespace, target.name)
        if self._state.bucket(kind).latest(key) is not stored:
            raise Changed
        self._state.admission.validate(admission_request, self._state)
        warnings += admission_request.warnings
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if obj == old:
            return encode(old)
        if _may_go(kind, obj):
            return storing.remove(self._state, request, kind, key, obj, last=old)
        if not target.subresource:
            due = yield from quotas.due(self._state, kind, target.namespace, obj, old)
            if self._state.bucket(kind).latest(key) is not stored:
                raise Changed
            if not storing.is_dry_run(request):
                quotas.charge(self._state, target.namespace, due)
        return storing.store(self._state, request, kind, key, obj)

    # shared steps

    def _read(self, request: Request, served: Served, options: str) -> tuple[Json, list[str]]:
        """Return the object that was sent, checked for its type, and warnings about its fields."""
        if request.query:
            storing.check_options(request, options)
        kind, content_type = served.kind, request.headers.get("content-type", "")
        try:
            obj = read_body(request.body, content_type)
        except BadRequest as error:
            raise preparation.unrecognized(kind, f"couldn't get version/kind; json parse error: {error}") from error
        mode = request.param("fieldValidation")
        repeated: list[str] = []
        # Looking costs as much as decoding; clients that people type for ask for it, programs do not.
        if mode in ("Strict", "Warn") and is_json(content_type):
            repeated = builtin.duplicate_fields(request.body, obj)
            if repeated and mode == "Strict":
                raise BadRequest(preparation.unhandled(kind, "strict decoding error: " + ", ".join(repeated)))
            if repeated and not served.is_custom:
                obj = builtin.merge_duplicates(request.body)
        elif mode in ("Strict", "Warn") and is_yaml(content_type):
            repeated = duplicate_keys(request.body, content_type)
            if repeated and mode == "Strict":
                raise BadRequest(preparation.unhandled(kind, "strict decoding error: " + ", ".join(repeated)))
        obj = preparation.check_type(served, obj)
        return obj, [*repeated, *self._check_fields(request, served, obj)]

    def _looks_at_many(self, request: Request, target: ResourcePath, served: Served) -> bool:
        """Tell whether many objects are counted for a write over HTTPS, which is then done in slices."""
        return not request.uncommitted and quotas.looks_at_many(self._state, served.kind, target.namespace)

    def _check_fields(self, request: Request, served: Served, obj: Json, status: Json | None = None) -> list[str]:
        mode = request.param("fieldValidation") or "Warn"
        if status is not None:
            return preparation.check_fields(served.status or served, status, mode)
        return preparation.check_fields(served, obj, mode)


def _check_name(obj: Json, target: ResourcePath) -> None:
    """Refuse an object that is not the one of the path."""
    name = obj["metadata"].get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def _status_part(served: Served, target: ResourcePath, obj: Json, old: Json) -> Json | None:
    """Return the new part of a write that can only have changed the status; None when all must be checked.

    The rest was checked when it came. It is untouched in writes of the status subresource, and where a patch has
    left every other member the very same object.
    """
    if served.is_custom and served.status is None:
        return None
    if target.subresource != "status":
        if not served.is_custom or target.subresource:
            return None
        if any(value is not old.get(name) for name, value in obj.items() if name not in _STATUS_MEMBERS):
            return None
    return {name: obj[name] for name in _STATUS_MEMBERS if name in obj and name != "metadata"}


def _apply(kind: Kind, media: str, base: Any, patch: Any) -> Any:
    """Return the patched object; a merge patch leaves ``base`` as it is, and unchanged parts are shared."""
    if media == _JSON_PATCH:
        patched = apply_json_patch(base, patch)
        check_shape(patched)  # operations can put values deeper and deeper into one another
        return patched
    if not isinstance(patch, dict):
        raise BadRequest(f"a patch of type {media} must be an object")
    if media == _MERGE_PATCH:
        patched = apply_merge_patch(base, patch)
        metadata = patched.get("metadata")
        if metadata is base["metadata"] and metadata is not None:
            patched["metadata"] = {**metadata}  # the revision will be written into it
        return patched
    info = builtin.merge_info(kind)
    if info is None:
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json"
        )
    return apply_strategic_patch(base, patch, info.list_strategy)


def _may_go(kind: Kind, obj: Json) -> bool:
    """Whether an object being deleted has lost its last finalizer."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind is catalog.NAMESPACE:
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


def _needs_revision(kind: Kind, name: str) -> Invalid:
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
    return Invalid(f'{kind.resource} "{name}" is invalid: {aggregate([cause])}', causes=[cause], details=details)
