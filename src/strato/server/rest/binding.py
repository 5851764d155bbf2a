"""``pods/binding``: set a pod's node, as a scheduler has decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Literal

import msgspec

from strato.api import catalog
from strato.api.status import invalid, not_found, not_supported, required
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.decoding import UNDECODABLE
from strato.errors import BadRequest, Conflict
from strato.http.parser import MAX_BODY_BYTES
from strato.server import pathidentity, preparation
from strato.server.bodies import read_body
from strato.server.jsonbodies import UNCOUNTED_BYTES
from strato.server.path import ResourcePath
from strato.server.preparation import encode
from strato.server.registry import Served
from strato.server.rest import stored, storing
from strato.server.rest.largewrites import admitted
from strato.server.rest.state import State, object_key
from strato.server.rest.stored import SPEC, STATUS, Stored, read_object
from strato.server.rest.storing import check_options

_SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class _Target(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    kind: str = ""
    apiVersion: str = ""


class _About(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Binding(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    target: _Target
    metadata: _About
    apiVersion: Literal["v1"] = "v1"
    kind: Literal["Binding"] = "Binding"


_read: Callable[[bytes], _Binding] = msgspec.json.Decoder(_Binding).decode


class Binder:
    """Binds pods."""

    def __init__(self, state: State) -> None:
        self._state = state

    def bind(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Set the pod's node, merge the binding's annotations and labels and mark the pod scheduled."""
        if not self._state.dynamic.concerns(served.kind, "CREATE", "binding"):
            return self._bind(request, target, served)
        binding = preparation.read_typed(catalog.BINDING, request)
        target = target._replace(subresource="binding")
        asked = storing.admission_request(request, target, served.kind, "CREATE", binding, None)

        def then() -> Response:
            request.headers = {**request.headers, "content-type": "application/json"}
            request.body = preparation.encode(asked.object)
            return self._bind(request, target, served)

        return admitted(self._state, request, asked, then)

    def _bind(self, request: Request, target: ResourcePath, served: Served) -> Response:
        kind, state = served.kind, self._state
        if state.rights.restrict(request.user, kind):
            state.rights.check(storing.admission_request(request, target, kind, "CREATE", None, None), target.name)
        if request.query:
            check_options(request, "CreateOptions")
        binding = _binding(request)
        about, node = binding.metadata, binding.target.name
        if (about.namespace or target.namespace) != target.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        if (about.name or target.name) != target.name:
            raise BadRequest("name in URL does not match name in Binding object")
        if binding.target.kind not in ("", "Node"):
            raise invalid(kind, target.name, [not_supported("target.kind", binding.target.kind, ("Node", "<empty>"))])
        if not node:
            raise invalid(kind, target.name, [required("target.name")])
        key = object_key(kind, target.namespace, target.name)
        body = state.bucket(kind).latest(key)
        if body is None:
            raise not_found(kind, target.name)
        pod = state.recent.of(body) or _whole(body, target.name, about.uid)
        pathidentity.check_uid(catalog.POD, target.name, about.uid, pod.uid)
        spec = _with_node(target.name, pod.members[SPEC], node)
        before = pod.members.get(STATUS, b"")
        mark = _scheduled_memo if len(before) <= _MEMOISED_BYTES else _scheduled
        status = mark(before, format_time(state.clock.now()))
        bound = pod.replaced({SPEC: spec, STATUS: status})
        if about.annotations or about.labels:
            bound = bound.with_metadata(annotations=about.annotations or {}, labels=about.labels or {})
        if storing.is_dry_run(request):
            return Response(201, _SUCCESS)
        result = bound.encode(state.store.next_revision())
        if len(result) > MAX_BODY_BYTES:
            raise preparation.too_large(kind, {"metadata": {"name": target.name}})
        state.store.write(kind.resource, key, result)
        state.recent.note(result, bound, body)
        return Response(201, _SUCCESS)

    def create(self, request: Request, target: ResourcePath, pods: Served) -> Response | Awaitable[Response]:
        """Bind the pod whose name a Binding posted to ``bindings`` has."""
        binding = read_body(request.body, request.headers.get("content-type", ""))
        metadata = binding.get("metadata") if isinstance(binding, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            raise invalid(catalog.BINDING, "", [required("metadata.name", "name or generateName is required")])
        return self.bind(request, target._replace(plural="pods", name=name), pods)


def _binding(request: Request) -> _Binding:
    """Return the Binding in the request's body, with its type checked."""
    if request.headers.get("content-type") == "application/json" and len(request.body) <= UNCOUNTED_BYTES:
        try:
            return _read(request.body)
        except UNDECODABLE:
            pass  # decoded below without a type, which drops unknown fields and reports fields of a wrong type
    binding = preparation.read_typed(catalog.BINDING, request)
    aim, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    about = {member: metadata[member] for member in _About.__struct_fields__ if metadata.get(member)}
    return _Binding(_Target(aim.get("name") or "", aim.get("kind") or ""), _About(**about))


def _whole(body: bytes, name: str, uid: str) -> Stored:
    """Return a pod as `Stored` members by decoding all of it, as `split` cannot.

    Raises:
        Conflict: It is terminating.
    """
    pod = read_object(body)
    if pod["metadata"].get("deletionTimestamp"):
        pathidentity.check_uid(catalog.POD, name, uid, pod["metadata"]["uid"])
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    return stored.of_object(pod)


def _with_node(name: str, spec: bytes, node: str) -> bytes:
    """Return a pod's spec with its node set.

    Raises:
        Conflict: The spec has a node already, or scheduling gates.
    """
    if b'"nodeName"' not in spec and b'"schedulingGates"' not in spec and len(spec) > 2:
        return b'%b,"nodeName":%b}' % (spec[:-1], encode(node))  # neither key is in the text, so no decoding is needed
    members = read_object(spec)
    if members.get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{members["nodeName"]}"')
    if members.get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    return encode({**members, "nodeName": node})


def _scheduled(status: bytes, now: str) -> bytes:
    """Return a pod's status, empty if it has none, with the condition PodScheduled."""
    members = read_object(status) if status else {}
    kept = [condition for condition in members.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    members["conditions"] = [*kept, scheduled]
    members.pop("nominatedNodeName", None)
    return encode(members)


_MEMOISED_BYTES = 2048
_scheduled_memo = lru_cache(maxsize=256)(_scheduled)
"""A cache in C, as each binding calls it; pods bound in the same second have few different statuses."""


def _refused(name: str, text: str) -> Conflict:
    details = {"name": name, "kind": "pods/binding"}
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {text}', details=details)
