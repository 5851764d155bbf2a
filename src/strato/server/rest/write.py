"""create, update and patch.

A small write is computed from the newest state and passed to the store without yielding, so that no other write can
come in between. Only its answer waits for the commit (`ApiServer.handle`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from strato.api.kinds import Kind
from strato.api.status import INVALID, aggregate, invalid_value, not_found, render
from strato.api.wire import Request, Response
from strato.errors import BadRequest, Cause, Invalid, UnsupportedMedia
from strato.server import pathidentity, preparation
from strato.server.bodies import duplicate_keys, is_json, is_yaml, read_body
from strato.server.flowcontrol.dispatch import Steps
from strato.server.jsonbodies import UNCOUNTED_BYTES, check_shape, stored_steps
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import apply, memberpatch, ownership, quotas, storing
from strato.server.rest.create import CREATION, KNOWN_REST, KNOWN_TEXT
from strato.server.rest.createcache import Cached, CreateCache, Miss
from strato.server.rest.largewrites import answered, is_short
from strato.server.rest.memberpatch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from strato.server.rest.ownership import APPLY_PATCH
from strato.server.rest.pipeline import Draft, Pipeline
from strato.server.rest.rights import ANONYMOUS, attributes_of, authorize
from strato.server.rest.state import State, object_key
from strato.server.rest.update import UPDATE, status_part
from strato.server.schema import builtin
from strato.server.strategies import strategy_of

_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

_OPERATION = frozenset(("op", "path", "from", "value"))
_LOOKING = ("Strict", "Warn")
"""The modes of ``fieldValidation`` in which bodies are searched for duplicate fields."""
Owners = Callable[[Json], list[Json] | None]
"""Makes an object's ``managedFields`` from the stored object; None leaves that to the steps of the write."""


class Writer:
    """The writing verbs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._memo = CreateCache(state)
        self._creation, self._update = Pipeline(state, CREATION), Pipeline(state, UPDATE)

    # create

    def create(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Create an object and answer with it."""
        counts = self._looks_at_many(request, target, served)
        calls = self._state.dynamic.concerns(served.kind, "CREATE")
        known = None
        if not (counts or calls) and self._is_cacheable(request, served):
            known = self._memo.look_up(request, target, served)
        if isinstance(known, Cached):
            obj = {**known.accepted.rest, "metadata": known.metadata}
            draft = Draft(request, target, served, obj, [], known)
            self._creation.at_once(draft, KNOWN_TEXT if known.begin else KNOWN_REST)
            if not known.begin:
                self._memo.fill_template(target.namespace, request.body, known)
        elif counts or calls or not is_short(request, served):
            begin = partial(self._creating, request, target, served, known)
            return answered(self._state, request, served, "", None, begin, looks_at_many=counts, calls=calls)
        else:
            draft = Draft(request, target, served, *self._read(request, served, "CreateOptions"))
            self._creation.at_once(draft)
            self._learn(known, draft)
        return storing.answer(self._state, request, served, draft.body, draft.warnings, 201)

    def _creating(
        self, request: Request, target: ResourcePath, served: Served, unknown: Miss | None
    ) -> Steps[Response]:
        """Create an object with all steps; ``unknown`` is the cache's miss, to be filled afterwards."""
        obj, warnings = yield lambda: self._read(request, served, "CreateOptions")
        draft = Draft(request, target, served, obj, warnings)
        yield from self._creation.sliced(draft)
        self._learn(unknown, draft)
        return storing.answer(self._state, request, served, draft.body, draft.warnings, 201)

    def _learn(self, unknown: Miss | None, draft: Draft) -> None:
        if unknown is not None and not draft.warnings:
            self._memo.fill(unknown, draft.body)

    def _is_cacheable(self, request: Request, served: Served) -> bool:
        return (
            self._state.memoises
            and served.form is None
            and not request.query
            and not ownership.is_tracked_from_creation(request, served.kind)
            and request.headers.get("content-type") == "application/json"
            and len(request.body) <= UNCOUNTED_BYTES
            and served.is_stored_as_served
            and not self._state.rights.restrict(request.user, served.kind)
        )

    # update and patch

    def update(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Replace an object; for some kinds, create it if it is missing."""
        body = self._state.bucket(served.kind).latest(object_key(served.kind, target.namespace, target.name))
        return answered(
            self._state,
            request,
            served,
            target.name,
            body,
            lambda: self._updating(request, target, served),
            looks_at_many=self._looks_at_many(request, target, served),
            calls=self._calls(target, served),
        )

    def _updating(self, request: Request, target: ResourcePath, served: Served) -> Steps[Response]:
        kind = served.kind
        obj, warnings = yield lambda: self._read(request, served, "UpdateOptions")
        pathidentity.check_namespace(kind, obj, target.namespace)
        warnings += preparation.unique_owners(obj["metadata"])
        pathidentity.check_name(obj, target.name)
        strategy = strategy_of(served)
        key = object_key(kind, target.namespace, target.name)
        stored = self._state.bucket(kind).latest(key)
        if stored is None:
            if not strategy.created_by_update or target.subresource or obj["metadata"].get("uid"):
                raise not_found(kind, target.name)
            return (yield from self._created(Draft(request, target, served, obj, warnings)))
        old = yield from stored_steps(stored)
        if not strategy.updates_blindly and not obj["metadata"].get("resourceVersion"):
            raise _needs_revision(kind, target.name)
        pathidentity.check_uid(kind, target.name, obj["metadata"].get("uid") or "", old["metadata"]["uid"])
        return (yield from self._replaced(Draft(request, target, served, obj, warnings, None, old, stored, key=key)))

    def patch(
        self, request: Request, target: ResourcePath, served: Served, owners: Owners | None = None
    ) -> Response | Awaitable[Response]:
        """Patch an object; ``owners`` makes its ``managedFields`` if the patch itself is not what the client sent."""
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
        result, calls = None, self._calls(target, served)
        memoises = self._state.memoises and served.form is None and not calls
        if body is not None and memoises and not self._state.rights.restrict(request.user, kind):
            result = memberpatch.patched(self._state, request, target, served, media, body)
        if result is not None:
            if result is not body:
                self._state.store.write(kind.resource, key, result)
            return storing.answer(self._state, request, served, result, [])
        is_apply = media == APPLY_PATCH
        calls = calls or (is_apply and self._state.dynamic.concerns(kind, "CREATE"))
        if request.query or is_apply:
            storing.check_options(request, "PatchOptions", ownership.problems(request, is_apply=is_apply))
        return answered(
            self._state,
            request,
            served,
            target.name,
            body,
            lambda: (
                self._applying(request, target, served)
                if is_apply
                else self._patching(request, target, served, media, owners)
            ),
            looks_at_many=self._looks_at_many(request, target, served),
            calls=calls,
        )

    def _patching(
        self, request: Request, target: ResourcePath, served: Served, media: str, owners: Owners | None
    ) -> Steps[Response]:
        key = object_key(served.kind, target.namespace, target.name)
        body = self._state.bucket(served.kind).latest(key)
        base: Json | None = None
        old: Json | None = None
        if body is not None:
            old = yield from stored_steps(body)
            # JSON patch changes its base in place; other patches share the unchanged parts of it
            base = (yield from stored_steps(body)) if media == JSON_PATCH else old
        obj, warnings = yield lambda: self._patched(request, target, served, media, old, base)
        assert old is not None
        pathidentity.check_name(obj, target.name)
        entries = owners(old) if owners is not None else None
        draft = Draft(request, target, served, obj, warnings, None, old, body, key=key, entries=entries)
        return (yield from self._replaced(draft))

    def _applying(self, request: Request, target: ResourcePath, served: Served) -> Steps[Response]:
        kind = served.kind
        key = object_key(kind, target.namespace, target.name)
        stored = self._state.bucket(kind).latest(key)
        if stored is None and target.subresource:
            raise not_found(kind, target.name)
        old = None if stored is None else (yield from stored_steps(stored))
        obj, warnings = yield lambda: self._applied(request, target, served, old)
        entries = obj["metadata"].pop("managedFields", [])
        if old is None:
            return (yield from self._created(Draft(request, target, served, obj, warnings, entries=entries)))
        draft = Draft(request, target, served, obj, warnings, None, old, stored, key=key, entries=entries)
        return (yield from self._replaced(draft))

    def _applied(
        self, request: Request, target: ResourcePath, served: Served, old: Json | None
    ) -> tuple[Json, list[str]]:
        """Return the stored object after server-side apply of the body, with its ``managedFields``, and warnings."""
        asked = _as_asked(served)
        config, repeated = apply.configuration(request)
        preparation.write_whole_numbers(served, request, config)
        live = old if old is None or served.form is None else served.form.show(old)
        obj = apply.merged(self._state, request, asked.kind, target, live, config)
        if repeated and request.param("fieldValidation") == "Strict":
            raise BadRequest(f"error strict decoding YAML: {repeated[0]}")
        if old is None:
            apply.check_creation(asked.kind, target, obj)
        obj = preparation.check_type(asked, obj)
        pathidentity.check_namespace(asked.kind, obj, target.namespace)
        pathidentity.check_name(obj, target.name)
        part = None if old is None else status_part(asked, target, obj, old)
        preparation.drop_unknown(asked if part is None else asked.status or asked, obj if part is None else part)
        warnings = repeated if request.param("fieldValidation") != "Ignore" else []
        return _as_stored(served, obj), [*warnings, *preparation.unique_owners(obj["metadata"])]

    def _created(self, draft: Draft) -> Steps[Response]:
        """Create an object by another verb than POST."""
        request, target = draft.request, draft.target
        if self._state.authorizer is not None:
            authorize(self._state.authorizer, request.user or ANONYMOUS, attributes_of(request, "create", target))
        draft.obj["metadata"].pop("resourceVersion", None)
        yield from self._creation.sliced(draft)
        return storing.answer(self._state, request, draft.served, draft.body, draft.warnings, 201)

    def _replaced(self, draft: Draft) -> Steps[Response]:
        yield from self._update.sliced(draft)
        return storing.answer(self._state, draft.request, draft.served, draft.body, draft.warnings)

    def _patched(
        self, request: Request, target: ResourcePath, served: Served, media: str, old: Json | None, base: Json | None
    ) -> tuple[Json, list[str]]:
        """Return ``base``, which equals the stored object ``old``, after the patch, and warnings."""
        asked = _as_asked(served)
        kind = asked.kind
        try:
            patch = read_body(request.body, media)
        except BadRequest as error:
            raise BadRequest(f"error decoding patch: {error}") from error
        preparation.write_whole_numbers(served, request, patch)
        if old is None:
            raise not_found(kind, target.name)
        if served.form is not None and base is not None:
            base = served.form.show(base)
        obj = _apply(kind, media, base, patch)
        if not served.is_custom and isinstance(obj, dict):
            _read_type(kind, media, obj, target)
        try:
            obj = preparation.check_type(asked, obj)
            pathidentity.check_namespace(kind, obj, target.namespace)
            part = status_part(asked, target, obj, old)
            checked = asked if part is None else asked.status or asked
            unknown = preparation.drop_unknown(checked, obj if part is None else part)
            problems = [*_repeated_in_patch(request, media, patch), *sorted(unknown)]
            warnings = preparation.strict(problems, request.param("fieldValidation") or "Warn")
            warnings += preparation.unique_owners(obj["metadata"])
        except BadRequest as error:
            # the patch is valid and its result is not: Kubernetes answers 422 instead of 400
            text = f"Invalid value: {render(encode(obj).decode())}: {error.message}"
            raise Invalid(f' "" is invalid: patch: {text}', causes=[Cause(INVALID, text, "patch")]) from error
        return _as_stored(served, obj), warnings

    # shared steps

    def _read(self, request: Request, served: Served, options: str) -> tuple[Json, list[str]]:
        """Return the object in the body, with its type checked, and warnings about its fields."""
        if request.query:
            storing.check_options(request, options)
        asked = _as_asked(served)
        kind, content_type = asked.kind, request.headers.get("content-type", "")
        try:
            obj = read_body(request.body, content_type)
        except BadRequest as error:
            raise preparation.unrecognized(kind, f"couldn't get version/kind; json parse error: {error}") from error
        preparation.write_whole_numbers(served, request, obj)
        mode = request.param("fieldValidation")
        repeated = _repeated(request, content_type, obj)
        if repeated and is_json(content_type) and not served.is_custom:
            obj = builtin.merge_duplicates(request.body)
        obj = preparation.check_type(asked, obj)
        problems = preparation.drop_unknown(asked, obj)
        if not served.is_custom and is_yaml(content_type):
            problems.sort()
        if repeated and problems and is_json(content_type) and not served.is_custom:
            problems = builtin.in_document_order(request.body, problems)
        else:
            problems = [*repeated, *problems]
        try:
            return _as_stored(served, obj), preparation.strict(problems, mode or "Warn")
        except BadRequest as error:
            raise BadRequest(preparation.unhandled(kind, error.message)) from error

    def _calls(self, target: ResourcePath, served: Served) -> bool:
        """Tell whether webhooks or policies may apply to an update, or to a creation by it."""
        concerns = self._state.dynamic.concerns
        return concerns(served.kind, "UPDATE", target.subresource) or (
            strategy_of(served).created_by_update and concerns(served.kind, "CREATE")
        )

    def _looks_at_many(self, request: Request, target: ResourcePath, served: Served) -> bool:
        """Tell whether a write over HTTP counts many objects for quotas, so that it has to be done in slices."""
        return not request.uncommitted and quotas.looks_at_many(self._state, served.kind, target.namespace)


def _repeated(request: Request, content_type: str, read: Any) -> list[str]:
    """Return the duplicate fields in a body.

    The search costs as much as decoding. kubectl asks for it with ``fieldValidation``; programs do not.
    """
    if request.param("fieldValidation") not in _LOOKING:
        return []
    if is_json(content_type):
        return builtin.duplicate_fields(request.body, read)
    return duplicate_keys(request.body, content_type) if is_yaml(content_type) else []


def _repeated_in_patch(request: Request, media: str, patch: Any) -> list[str]:
    """Return the duplicate fields in a patch, and unknown fields of JSON patch operations."""
    repeated = _repeated(request, media, patch)
    if media != JSON_PATCH or not isinstance(patch, list) or request.param("fieldValidation") not in _LOOKING:
        return repeated
    unknown = [
        f'unknown field "[{place}].{name}"'
        for place, operation in enumerate(patch)
        if isinstance(operation, dict)
        for name in operation
        if name not in _OPERATION
    ]
    return [f"json patch {text}" for text in builtin.in_document_order(request.body, unknown)]


def _as_asked(served: Served) -> Served:
    """Return the kind to check objects by before they are converted into the stored form."""
    return served if served.form is None else Served(served.form.kind)


def _as_stored(served: Served, obj: Json) -> Json:
    """Convert an object into the stored form; members in the form's annotations have to fit there.

    Raises:
        BadRequest: They do not.
    """
    if served.form is None:
        return obj
    read = served.form.read(obj)
    _, wrong = builtin.typed(served.kind, read)
    if wrong:
        raise BadRequest(preparation.unhandled(served.form.kind, wrong[0]))
    return read


def _read_type(kind: Kind, media: str, obj: Json, target: ResourcePath) -> None:
    """Read the type of a patched object of a built-in kind as Go's decoder does.

    A strategic patch cannot change it. Without a version the object is one of a type inside the server, whose members
    have other names: it has no name then.
    """
    if media == STRATEGIC_PATCH:
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.name
        return
    given = obj.get("apiVersion", "")
    group, _, version = ("" if given is None else str(given)).rpartition("/")
    if not version and group in ("", kind.group):
        raise pathidentity.nameless(target.name)


def _apply(kind: Kind, media: str, base: Any, patch: Any) -> Any:
    """Return the patched object; only a JSON patch changes ``base``, others share its unchanged parts."""
    if media == JSON_PATCH:
        patched = apply_json_patch(base, patch)
        check_shape(patched)  # operations can nest copied values deeper and deeper
        return patched
    if not isinstance(patch, dict):
        raise BadRequest(f"a patch of type {media} must be an object")
    if media == MERGE_PATCH:
        patched = apply_merge_patch(base, patch)
    else:
        info = builtin.merge_info(kind)
        if info is None:
            raise UnsupportedMedia(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json"
            )
        patched = apply_strategic_patch(base, patch, info.list_strategy)
    metadata = patched.get("metadata")
    if metadata is base["metadata"] and metadata is not None:
        patched["metadata"] = {**metadata}  # a copy, as the write sets the resource version in it
    return patched


def _needs_revision(kind: Kind, name: str) -> Invalid:
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
    return Invalid(f'{kind.resource} "{name}" is invalid: {aggregate([cause])}', causes=[cause], details=details)
