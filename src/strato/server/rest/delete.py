"""delete and deletecollection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import forbidden, invalid_value, not_found, not_supported
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import ApiError, BadRequest, Cause, Conflict, called
from strato.server import definitionstatus
from strato.server.bodies import read_body
from strato.server.fields import Filter
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Steps, at_once, continued
from strato.server.jsonbodies import UNCOUNTED_BYTES, stored_steps
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import largewrites, storing
from strato.server.rest.collections import DELETING, SELECTING
from strato.server.rest.read import Reader, filtered, invalid_options, list_limit
from strato.server.rest.representations import shown
from strato.server.rest.state import State, object_key
from strato.server.strategies import strategy_of, strategy_of_kind

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_DELETE_OPTIONS = frozenset(("dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"))
_ABOUT_DEPENDENTS = frozenset(("propagationPolicy", "orphanDependents"))
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_POLICIES = ("Foreground", "Background", "Orphan", "nil")
FINISHED = ("Succeeded", "Failed")
"""Phases of pods that have ended."""
_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")


class _Deletion(NamedTuple):
    """The arguments of the deletion of a collection."""

    keys: Iterator[str]
    wanted: Filter
    limit: int
    """Most objects to delete; 0 is all."""
    found: list[bytes]


class Deleter:
    """The verbs delete and deletecollection."""

    def __init__(self, state: State, reader: Reader) -> None:
        self._state, self._reader = state, reader

    def delete(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Delete an object, now or once its finalizers and its grace period allow."""
        body = self._state.bucket(served.kind).latest(object_key(served.kind, target.namespace, target.name))
        calls = self._state.dynamic.concerns(served.kind, "DELETE")
        if not calls and (body is None or len(body) <= UNCOUNTED_BYTES):
            return at_once(self._deleting(request, target, served, calls=False))
        begin = partial(self._deleting, request, target, served, calls=calls)
        return largewrites.answered(self._state, request, served, target.name, body, begin, calls=calls)

    def _deleting(self, request: Request, target: ResourcePath, served: Served, *, calls: bool) -> Steps[Response]:
        kind = served.kind
        request, options = _read_options(request)
        bucket, key = self._state.bucket(kind), object_key(kind, target.namespace, target.name)
        stored = bucket.latest(key)
        if stored is None:
            raise not_found(kind, target.name)
        old = yield from stored_steps(stored)
        if bucket.latest(key) is not stored:
            raise largewrites.Changed
        check_preconditions(kind, target.name, options, old)
        if kind is catalog.NAMESPACE and target.name in _PROTECTED_NAMESPACES:
            raise forbidden(kind, target.name, "this namespace may not be deleted")
        admission_request = self._admission_request(request, target, kind, old)
        if calls:
            yield from self._state.dynamic.admit(admission_request, _as_sent(options))
            if bucket.latest(key) is not stored:
                raise largewrites.Changed
        admission_request.warnings += _warnings(kind, options)
        body, gone = self.remove(request, kind, target, old, options, storing.texts_of(stored))
        if gone and not strategy_of(served).returns_deleted:
            answer = Response(200, encode(_success(kind, target.name, old["metadata"]["uid"])))
        else:
            answer = shown(request, served, body, now=self._state.clock.now())
        return storing.with_warnings(answer, admission_request.warnings)

    def _admission_request(self, request: Request, target: ResourcePath, kind: Kind, old: Json) -> AdmissionRequest:
        """Return the admission request of a deletion, after our own rules have admitted it."""
        admission_request = storing.admission_request(request, target, kind, "DELETE", None, old)
        self._state.rights.check(admission_request, target.name)
        self._state.admission.validate(admission_request, self._state)
        return admission_request

    def delete_collection(
        self, request: Request, target: ResourcePath, served: Served
    ) -> Response | Awaitable[Response]:
        """Delete the selected objects of a namespace (or of a cluster-scoped kind), and answer with their last states.

        They are deleted one after the other, as in Kubernetes: the first refusal ends the request, and objects deleted
        before it stay deleted. Many objects are deleted in slices, between which the loop serves other requests.
        """
        return filtered(self._state, request, served.asked, partial(self._delete_selected, request, target, served))

    def _delete_selected(
        self, request: Request, target: ResourcePath, served: Served, wanted: Filter
    ) -> Response | Awaitable[Response]:
        request, options = _read_options(request)
        revision, bucket = self._state.store.published, self._state.bucket(served.kind)
        prefix = f"{target.namespace}/" if target.namespace else ""
        keys = (key for key, _ in bucket.snapshot(revision).items(prefix))
        pending = [key for key, change in bucket.pending.items() if change.previous is None and key.startswith(prefix)]
        deletion = _Deletion(chain(keys, pending), wanted, list_limit(request), [])

        def done() -> Response:
            return self._reader.listed(request, served, deletion.found, revision)

        flow = self._state.flows.flow_of(request)
        dispatcher = self._state.flows.dispatcher
        calls = self._state.dynamic.concerns(served.kind, "DELETE")
        steps = self._deleting_selected(request, target, served, options, deletion, calls=calls)
        if calls:
            return dispatcher.finish_seated(flow, _then(steps, done))
        try:
            first = next(steps)
        except StopIteration as end:  # the first slice was enough
            return storing.with_warnings(done(), end.value)
        return dispatcher.finish_seated(flow, _then(continued(first, steps), done))

    def _deleting_selected(
        self,
        request: Request,
        target: ResourcePath,
        served: Served,
        options: Json,
        deletion: _Deletion,
        *,
        calls: bool,
    ) -> Steps[list[str]]:
        """Delete the selected objects, each after admission of its deletion; return the warnings."""
        kind, bucket, left = served.kind, self._state.bucket(served.kind), SLICE_SECONDS
        warnings: dict[str, None] = dict.fromkeys(_warnings(served.kind, options))
        for key in deletion.keys:
            body = bucket.latest(key)
            if body is None:
                continue
            if deletion.wanted.matches(body):
                old = yield from self._admitted(request, target, kind, options, key, calls=calls, warnings=warnings)
                if old is None:
                    continue
                body = bucket.latest(key)
                assert body is not None, "it was admitted as it is"
                one = _named(target, old)
                self.remove(request, kind, one, old, options, storing.texts_of(body))
                deletion.found.append(body)
                if len(deletion.found) == deletion.limit:
                    break
                left -= DELETING.object_seconds + DELETING.byte_seconds * len(body)
            else:
                left -= SELECTING.object_seconds + SELECTING.byte_seconds * len(body)
            if left <= 0 or calls:
                yield None
                left = SLICE_SECONDS
        return list(warnings)

    def _admitted(
        self,
        request: Request,
        target: ResourcePath,
        kind: Kind,
        options: Json,
        key: str,
        *,
        calls: bool,
        warnings: dict[str, None],
    ) -> Steps[Json | None]:
        """Return the current state of an object after admission of its deletion; None if it is gone."""
        bucket = self._state.bucket(kind)
        while (body := bucket.latest(key)) is not None:
            old: Json = yield from stored_steps(body)
            asked = self._admission_request(request, _named(target, old), kind, old)
            if calls:
                yield from self._state.dynamic.admit(asked, _as_sent(options))
            elif len(body) > UNCOUNTED_BYTES:  # removing a large object takes as long as a slice
                yield None
            if bucket.latest(key) is body:
                warnings.update(dict.fromkeys(asked.warnings))
                return old
        return None

    def remove(
        self,
        request: Request,
        kind: Kind,
        target: ResourcePath,
        old: Json,
        options: Json,
        texts: storing.Texts = storing.NO_TEXTS,
    ) -> tuple[bytes, bool]:
        """Mark an object as terminating or remove it; return its last state and whether it was removed.

        ``texts`` are the object's members but metadata and status, encoded, of a large one.
        """
        key = object_key(kind, target.namespace, target.name)
        metadata = {**old["metadata"]}
        obj = {**old, "metadata": metadata}
        if kind is catalog.CUSTOMRESOURCEDEFINITION and "deletionTimestamp" not in metadata:
            definitionstatus.begin_deletion(obj, self._state.clock.now())
        strategy = strategy_of_kind(kind)
        if strategy.has_dependents:
            _set_propagation(metadata, options, orphans=strategy.orphans)
        grace = _grace_seconds(kind, obj, options)
        now = self._state.clock.now()
        if kind is catalog.NAMESPACE and obj.get("spec", {}).get("finalizers"):
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
            metadata.setdefault("deletionTimestamp", format_time(now))
            if obj == old:
                return encode(old), False
            return storing.store(self._state, request, kind, key, obj, texts), False
        if grace == 0 and not metadata.get("finalizers"):
            if kind is catalog.POD:
                if "deletionTimestamp" not in metadata:
                    metadata["generation"] = metadata.get("generation", 0) + 1
                metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = format_time(now), 0
            return storing.remove(self._state, request, kind, key, obj, texts), True
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = format_time(now + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif kind is catalog.POD and grace < metadata.get("deletionGracePeriodSeconds", 0):
            # a further deletion can shorten the grace period, never prolong it
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = format_time(now + grace)
        elif obj == old:
            return encode(old), False
        return storing.store(self._state, request, kind, key, obj, texts), False


def _named(target: ResourcePath, obj: Json) -> ResourcePath:
    """Return the path of an object of a collection."""
    metadata = obj["metadata"]
    return target._replace(name=metadata["name"], namespace=metadata.get("namespace", ""))


def _then(steps: Steps[list[str]], done: Callable[[], Response]) -> Steps[Response]:
    """Run the steps of a deletion, then return the answer."""
    warnings = yield from steps
    return storing.with_warnings(done(), warnings)


def _read_options(request: Request) -> tuple[Request, Json]:
    """Return the checked delete options of body or query, and the request with the body's ``dryRun`` in its query."""
    try:
        read: Any = read_body(request.body, request.headers.get("content-type", "")) if request.body else {}
    except BadRequest as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(read, dict):
        raise BadRequest("couldn't get version/kind; json parse error: delete options must be an object")
    options: Json = read
    if request.body:  # then options in the query are ignored
        request.query = {name: values for name, values in request.query.items() if name not in _DELETE_OPTIONS}
    for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
        text = request.param(name)
        if text:
            options[name] = int(text) if name == "gracePeriodSeconds" and _is_number(text) else text
    if request.query.get("dryRun"):
        options["dryRun"] = list(request.query["dryRun"])
    check_delete_options(options)
    return dry_run(request) if options.get("dryRun") else request, options


def _warnings(kind: Kind, options: Json) -> list[str]:
    """Return the warning of a deletion of Jobs that does not say what becomes of their pods."""
    return [_PODS_STAY] if kind is catalog.JOB and not _ABOUT_DEPENDENTS & options.keys() else []


def _as_sent(options: Json) -> Json:
    """Return delete options in the form in which webhooks get them."""
    return {**options, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def _is_number(text: str) -> bool:
    return len(text) <= 20 and text.isascii() and text.removeprefix("-").isdigit()


def dry_run(request: Request) -> Request:
    """Return the request as a dry run."""
    return Request(
        request.method, request.path, {**request.query, "dryRun": ["All"]}, request.headers, request.body, request.user
    )


def check_delete_options(options: Any) -> None:
    """Check decoded delete options.

    Raises:
        BadRequest: A member has the wrong type.
        Invalid: A member has a wrong value.
    """
    if not isinstance(options, dict):
        raise BadRequest("delete options must be an object")
    grace, preconditions = options.get("gracePeriodSeconds"), options.get("preconditions")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest(f"gracePeriodSeconds must be an integer, not {grace!r}")
    if preconditions is not None and not isinstance(preconditions, dict):
        raise BadRequest(f"preconditions must be an object, not {called(preconditions)}")
    causes: list[Cause] = []
    policy, orphan, dry_run = (options.get(name) for name in ("propagationPolicy", "orphanDependents", "dryRun"))
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", policy, text))
    elif policy not in (None, "Foreground", "Background", "Orphan"):
        causes.append(not_supported("propagationPolicy", policy, _POLICIES))
    if dry_run and dry_run != ["All"]:
        causes.append(not_supported("dryRun", dry_run, ["All"]))
    if causes:
        raise invalid_options("DeleteOptions", causes)


def check_preconditions(kind: Kind, name: str, options: Json, old: Json) -> None:
    """Check the preconditions of a deletion.

    Raises:
        Conflict: The object has another uid or resource version.
    """
    wanted = options.get("preconditions") or {}
    for member, subject, hint in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        asked, found = wanted.get(member), old["metadata"].get(member)
        if asked and asked != found:
            raise _unmet(
                kind,
                name,
                f"the {subject} in the precondition ({asked}) does not match the {subject} in record ({found}). {hint}",
            )


def _unmet(kind: Kind, name: str, text: str) -> ApiError:
    # Kubernetes' message has the kind here, where other conflicts have the resource
    qualified = f"{kind.name}.{kind.group}" if kind.group else kind.name
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.name}
    return Conflict(f'Operation cannot be fulfilled on {qualified} "{name}": {text}', details=details)


def _set_propagation(metadata: Json, options: Json, *, orphans: bool) -> None:
    """Add the finalizer with which the garbage collector deletes (or orphans) dependents first.

    ``orphans`` is whether dependents are orphaned by default, if the options name no policy.
    """
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] in (True, "true") else "Background"
    if policy is None and orphans:
        policy = "Orphan"
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
    """Return the grace period in seconds; 0 unless the object is a pod on a node that has not ended."""
    if kind is not catalog.POD:
        return 0
    asked = options.get("gracePeriodSeconds")
    grace: int = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
    if grace < 0:
        grace = 1
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in FINISHED:
        return 0
    return grace


def _success(kind: Kind, name: str, uid: str) -> Json:
    details = {"kind": kind.plural, **({"group": kind.group} if kind.group else {}), "name": name, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
