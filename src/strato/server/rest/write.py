"""create, update, patch, delete and deletecollection.

A write is decided synchronously against the newest state and handed to the store in the same step, so that nothing
can come between; only the answer waits, for the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.api.status import already_exists, conflict, forbidden, invalid, not_found, required
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import BadRequest, Conflict, TooManyRequests, UnsupportedMedia
from strato.server import crd, objects
from strato.server.fields import Filter
from strato.server.objects import Json, encode
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.read import shown
from strato.server.rest.state import State, object_key
from strato.server.schema import builtin

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_NAME_ATTEMPTS = 8
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_FINISHED = ("Succeeded", "Failed")
_IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")
_STATUS_MEMBERS = ("apiVersion", "kind", "metadata", "status")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


class Writer:
    """The writing verbs."""

    def __init__(self, state: State) -> None:
        self._state = state

    # create

    async def create(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Create an object and answer it."""
        kind = served.kind
        obj = self._read(request, served)
        objects.check_namespace(kind, obj, target.namespace)
        warnings = self._check_fields(request, served, obj)
        self._state.check_namespace_open(kind, target.namespace, obj["metadata"].get("name", ""))
        objects.fill_defaults(served, obj)
        objects.begin_life(served, obj, self._state.clock, self._state.rng)
        metadata = obj["metadata"]
        if not metadata.get("name"):
            raise invalid(kind, "", [required("metadata.name", "name or generateName is required")])
        question = self._question(request, target, kind, "CREATE", obj, None)
        self._state.admission.mutate(question, self._state)
        if served.is_custom:
            objects.fill_defaults(served, obj)
        objects.validate(served, obj, None)
        self._state.admission.validate(question, self._state)
        if kind is catalog.NAMESPACE:
            obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
            obj["status"] = {"phase": "Active"}
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
        elif kind is catalog.CUSTOMRESOURCEDEFINITION:
            crd.prepare(obj, self._state.clock.now())
        key = self._free_key(kind, obj)
        body = await self._store(request, kind, key, obj)
        return self._answer(request, kind, body, warnings, status=201)

    def _free_key(self, kind: Kind, obj: Json) -> str:
        """Return the object's key; a generated name that is taken is made again."""
        metadata, bucket = obj["metadata"], self._state.bucket(kind)
        for _ in range(_NAME_ATTEMPTS):
            key = object_key(kind, metadata.get("namespace", ""), metadata["name"])
            if bucket.latest(key) is None:
                return key
            if not metadata.get("generateName"):
                break
            metadata["name"] = objects.generated_name(metadata["generateName"], self._state.rng)
        raise already_exists(kind, metadata["name"])

    # update and patch

    async def update(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Replace an object."""
        kind = served.kind
        obj = self._read(request, served)
        objects.check_namespace(kind, obj, target.namespace)
        name = obj["metadata"].setdefault("name", target.name)
        if name != target.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
        warnings = self._check_fields(request, served, obj)
        old = self._state.require(kind, target.namespace, target.name)
        body = await self._replace(request, target, served, obj, old)
        return self._answer(request, kind, body, warnings)

    async def patch(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Change an object by a patch."""
        kind = served.kind
        media = request.headers.get("content-type", "").split(";", 1)[0].strip()
        if media not in _PATCH_TYPES:
            raise UnsupportedMedia(
                f"the body of the request was in an unknown format - accepted media types include: "
                f"{', '.join(_PATCH_TYPES)}"
            )
        patch = objects.read_body(request.body, media)
        body = self._state.bucket(kind).latest(object_key(kind, target.namespace, target.name))
        if body is None:
            raise not_found(kind, target.name)
        old = _decode(body)
        obj = _apply(kind, media, old, body, patch)
        objects.check_type(kind, obj)
        if obj["metadata"].get("name") != target.name:
            raise BadRequest(
                f"the name of the object ({obj['metadata'].get('name')}) does not match the name on the URL "
                f"({target.name})"
            )
        objects.check_namespace(kind, obj, target.namespace)
        warnings = self._check_fields(request, served, obj, _status_part(served, target, obj, old))
        stored = await self._replace(request, target, served, obj, old)
        return self._answer(request, kind, stored, warnings)

    async def _replace(self, request: Request, target: ResourcePath, served: Served, obj: Json, old: Json) -> bytes:
        """Check ``obj`` against ``old`` and store it; nothing changes when nothing differs."""
        kind, metadata = served.kind, obj["metadata"]
        asked = metadata.get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise conflict(kind, target.name)
        if metadata.get("uid") and metadata["uid"] != old["metadata"]["uid"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource} "{target.name}": Precondition failed: UID in '
                f"precondition: {metadata['uid']}, UID in object meta: {old['metadata']['uid']}"
            )
        # an empty list of finalizers is what this subresource is for; defaults would fill it again
        finalized = dict(obj.get("spec") or {}) if target.subresource == "finalize" else None
        status = _status_part(served, target, obj, old)
        if any(metadata.get(member) != old["metadata"].get(member) for member in ("labels", "annotations")):
            status = None  # new metadata has to pass as well
        if status is None:
            objects.fill_defaults(served, obj)
        elif served.status is not None:
            objects.fill_defaults(served.status, status)
            if "status" in status:
                obj["status"] = status["status"]
        objects.continue_life(kind, obj, old, subresource=target.subresource)
        if finalized is not None:
            obj = {**old, "metadata": {**old["metadata"]}, "spec": finalized}
        question = self._question(request, target, kind, "UPDATE", obj, old)
        self._state.admission.mutate(question, self._state)
        if kind is catalog.CUSTOMRESOURCEDEFINITION:
            crd.prepare(obj, self._state.clock.now(), old)
        if status is None:
            objects.validate(served, obj, old)
        elif served.status is not None:
            objects.validate(served.status, status, {**status, "status": old.get("status")})
        self._state.admission.validate(question, self._state)
        key = object_key(kind, target.namespace, target.name)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if obj == old:
            return encode(old)
        if _may_go(kind, obj):
            return await self._remove(request, kind, key, obj)
        return await self._store(request, kind, key, obj)

    # delete

    async def delete(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Delete an object, now or once its finalizers and its grace period allow."""
        kind = served.kind
        options = self._delete_options(request)
        old = self._state.require(kind, target.namespace, target.name)
        _check_preconditions(kind, target.name, options, old)
        if kind is catalog.NAMESPACE and target.name in _IMMORTAL_NAMESPACES:
            raise forbidden(kind, target.name, "this namespace may not be deleted")
        self._state.admission.validate(self._question(request, target, kind, "DELETE", None, old), self._state)
        body, gone = await self._delete(request, kind, target, old, options)
        if gone and kind is not catalog.NAMESPACE:
            return Response(200, encode(_success(kind, target.name, old["metadata"]["uid"])))
        return Response(200, body)

    async def delete_collection(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Delete all selected objects of a namespace (or of a cluster-scoped kind)."""
        kind = served.kind
        options = self._delete_options(request)
        wanted = Filter(kind, request.param("labelSelector"), request.param("fieldSelector"))
        bucket = self._state.bucket(kind)
        waiting = []
        for key in list(bucket.keys(f"{target.namespace}/" if target.namespace else "")):
            body = bucket.latest(key)
            if body is None or not wanted.matches(body):
                continue
            old = _decode(body)
            one = target._replace(name=old["metadata"]["name"], namespace=old["metadata"].get("namespace", ""))
            self._state.admission.validate(self._question(request, one, kind, "DELETE", None, old), self._state)
            waiting.append(self._delete(request, kind, one, old, options))
        await asyncio.gather(*waiting)
        return Response(200, encode(_success(kind, "", "")))

    async def evict(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Delete a pod on behalf of the eviction API, unless a disruption budget is used up."""
        body = objects.read_body(request.body, request.headers.get("content-type", "")) if request.body else {}
        options = (body.get("deleteOptions") if isinstance(body, dict) else None) or {}
        old = self._state.require(served.kind, target.namespace, target.name)
        _check_preconditions(served.kind, target.name, options, old)
        self._check_budget(target.namespace, old)
        await self._delete(request, served.kind, target, old, options)
        return Response(201, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))

    def _check_budget(self, namespace: str, pod: Json) -> None:
        if pod.get("status", {}).get("phase") in (*_FINISHED, "Pending"):
            return
        labels = pod["metadata"].get("labels") or {}
        for budget in self._state.iterate(catalog.PODDISRUPTIONBUDGET, namespace):
            selector = msgspec.convert(budget.get("spec", {}).get("selector") or {}, LabelSelector)
            if from_label_selector(selector).matches(labels) and not budget.get("status", {}).get("disruptionsAllowed"):
                raise TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")

    async def _delete(
        self, request: Request, kind: Kind, target: ResourcePath, old: Json, options: Json
    ) -> tuple[bytes, bool]:
        """Mark or remove an object; return its last state and whether it is gone."""
        key = object_key(kind, target.namespace, target.name)
        obj = _decode(encode(old))
        metadata = obj["metadata"]
        _set_propagation(metadata, options)
        grace = _grace_seconds(kind, obj, options)
        if kind is catalog.NAMESPACE and obj.get("spec", {}).get("finalizers"):
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
            grace = 0
        elif grace == 0 and not metadata.get("finalizers"):
            return await self._remove(request, kind, key, obj), True
        now = self._state.clock.now()
        if "deletionTimestamp" in metadata:
            if kind is not catalog.POD or grace >= metadata.get("deletionGracePeriodSeconds", 0):
                if metadata == old["metadata"] and obj == old:
                    return encode(old), False
                return await self._store(request, kind, key, obj), False
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = format_time(now + grace)
        else:
            metadata["deletionTimestamp"] = format_time(now + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        return await self._store(request, kind, key, obj), False

    def _delete_options(self, request: Request) -> Json:
        read: Any = objects.read_body(request.body, request.headers.get("content-type", "")) if request.body else {}
        if not isinstance(read, dict):
            raise BadRequest("delete options must be an object")
        options: Json = read
        for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
            text = request.param(name)
            if text and name not in options:
                options[name] = int(text) if name == "gracePeriodSeconds" and text.lstrip("-").isdigit() else text
        grace = options.get("gracePeriodSeconds")
        if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
            raise BadRequest(f"gracePeriodSeconds must be an integer, not {grace!r}")
        if options.get("dryRun"):
            request.query = {**request.query, "dryRun": ["All"]}
        return options

    # storing

    async def _store(self, request: Request, kind: Kind, key: str, obj: Json) -> bytes:
        """Give the object the next revision and write it; a dry run stops before."""
        store = self._state.store
        obj["metadata"]["resourceVersion"] = str(store.next_revision())
        body = encode(obj)
        if len(body) > objects.MAX_BODY_BYTES:
            raise objects.too_large(kind, obj)
        if _is_dry_run(request):
            return body
        await store.write(kind.resource, key, body)
        return body

    async def _remove(self, request: Request, kind: Kind, key: str, obj: Json) -> bytes:
        store = self._state.store
        obj["metadata"]["resourceVersion"] = str(store.next_revision())
        body = encode(obj)
        if not _is_dry_run(request):
            await store.write(kind.resource, key, None, body)
        return body

    # shared steps

    def _read(self, request: Request, served: Served) -> Json:
        content_type = request.headers.get("content-type", "")
        obj = objects.read_body(request.body, content_type)
        if request.param("fieldValidation") == "Strict" and objects.is_json(content_type):
            repeated = builtin.duplicate_fields(request.body, obj)
            if repeated:
                raise BadRequest("strict decoding error: " + ", ".join(repeated))
        return objects.check_type(served.kind, obj)

    def _check_fields(self, request: Request, served: Served, obj: Json, status: Json | None = None) -> list[str]:
        mode = request.param("fieldValidation") or "Warn"
        if status is not None:
            return objects.check_fields(served.status or served, status, mode)
        return objects.check_fields(served, obj, mode)

    def _question(
        self, request: Request, target: ResourcePath, kind: Kind, operation: str, obj: Json | None, old: Json | None
    ) -> AdmissionRequest:
        metadata = (obj or old or {}).get("metadata", {})
        return AdmissionRequest(
            operation=operation,
            kind=kind,
            namespace=target.namespace,
            name=metadata.get("name", target.name),
            object=obj,
            old_object=old,
            user=request.user,
            dry_run=_is_dry_run(request),
            subresource=target.subresource,
        )

    def _answer(self, request: Request, kind: Kind, body: bytes, warnings: list[str], status: int = 200) -> Response:
        response = shown(request, kind, body, now=self._state.clock.now(), status=status)
        if warnings:
            response.headers = {"warning": "\n".join(f'299 - "{_escaped(text)}"' for text in warnings)}
        return response


def _status_part(served: Served, target: ResourcePath, obj: Json, old: Json) -> Json | None:
    """Return the new part of a write that can only have changed the status; None when all must be looked at.

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


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_dry_run(request: Request) -> bool:
    values = request.query.get("dryRun")
    if not values:
        return False
    if list(values) != ["All"]:
        raise BadRequest(f'dryRun: Unsupported value: {values[0]!r}: supported values: "All"')
    return True


def _apply(kind: Kind, media: str, old: Json, body: bytes, patch: Any) -> Any:
    """Return the patched object; ``old`` (``body`` decoded) stays as it is, unchanged parts may be shared."""
    if media == "application/json-patch+json":
        return apply_json_patch(_decode(body), patch)
    if not isinstance(patch, dict):
        raise BadRequest(f"a patch of type {media} must be an object")
    if media == "application/merge-patch+json":
        patched: Json = apply_merge_patch(old, patch)
        metadata = patched.get("metadata")
        if metadata is old["metadata"] and metadata is not None:
            patched["metadata"] = {**metadata}  # the revision will be written into it
        return patched
    info = builtin.merge_info(kind)
    if info is None:
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json"
        )
    return apply_strategic_patch(_decode(body), patch, info.list_strategy)


def _check_preconditions(kind: Kind, name: str, options: Json, old: Json) -> None:
    wanted = options.get("preconditions") or {}
    if not isinstance(wanted, dict):
        raise BadRequest(f"preconditions must be an object, not {type(wanted).__name__}")
    for member, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked, found = wanted.get(member), old["metadata"].get(member)
        if asked and asked != found:
            text = f"Precondition failed: {words} in precondition: {asked}, {words} in object meta: {found}"
            raise conflict(kind, name, text)


def _set_propagation(metadata: Json, options: Json) -> None:
    """Add the finalizer that makes the garbage collector delete (or orphan) dependents first."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] in (True, "true") else "Background"
    if policy not in (None, "Foreground", "Background", "Orphan"):
        raise BadRequest(
            f'propagationPolicy: Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        )
    if policy is None:
        return
    kept = [name for name in metadata.get("finalizers") or () if name not in (_FOREGROUND, _ORPHAN)]
    if policy == "Foreground":
        kept.append(_FOREGROUND)
    elif policy == "Orphan":
        kept.append(_ORPHAN)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _grace_seconds(kind: Kind, obj: Json, options: Json) -> int:
    """Return how long the object may still live; only pods that are on a node and not finished do."""
    if kind is not catalog.POD:
        return 0
    asked = options.get("gracePeriodSeconds")
    grace: int = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
    if grace < 0:
        grace = 1
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in _FINISHED:
        return 0
    return grace


def _may_go(kind: Kind, obj: Json) -> bool:
    """Whether an object being deleted has lost its last finalizer."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind is catalog.NAMESPACE:
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


def _success(kind: Kind, name: str, uid: str) -> Json:
    details = {"kind": kind.plural, **({"group": kind.group} if kind.group else {})}
    if name:
        details |= {"name": name, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
