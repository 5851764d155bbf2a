"""``pods/binding``: the scheduler's decision becomes the pod's node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.status import conflict, invalid, not_found, not_supported, required
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import BadRequest, Conflict
from strato.server import objects
from strato.server.bodies import read_body
from strato.server.objects import encode
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest import quickbind, storing
from strato.server.rest.state import State, object_key
from strato.server.rest.storing import check_options

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class Binder:
    """Binds pods."""

    def __init__(self, state: State) -> None:
        self._state = state

    def bind(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Set the pod's node, merge the binding's annotations and mark the pod scheduled."""
        kind, state = served.kind, self._state
        key = object_key(kind, target.namespace, target.name)
        body = state.bucket(kind).latest(key)
        now = format_time(state.clock.now())
        if state.rights.restrict(request.user, kind):
            state.rights.check(storing.question(request, target, kind, "CREATE", None, None), target.name)
        if body is not None and state.shortcuts:
            done = quickbind.bound(state, request, target, body, now)
            if done is not None:
                state.store.write(kind.resource, key, done)
                return Response(201, _SUCCESS)
        if request.query:
            check_options(request, "CreateOptions")
        binding = objects.read_typed(catalog.BINDING, request)
        aim, metadata = binding.get("target") or {}, binding.get("metadata") or {}
        if (metadata.get("namespace") or target.namespace) != target.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        if (metadata.get("name") or target.name) != target.name:
            raise BadRequest("name in URL does not match name in Binding object")
        if aim.get("kind") not in (None, "", "Node"):
            raise invalid(kind, target.name, [not_supported("target.kind", aim["kind"], ("Node", "<empty>"))])
        node = aim.get("name") or ""
        if not node:
            raise invalid(kind, target.name, [required("target.name")])
        if body is None:
            raise not_found(kind, target.name)
        pod = _decode(body)
        mine, spec = pod["metadata"], pod["spec"]
        uid = metadata.get("uid")
        if uid and uid != mine["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {mine['uid']}"
            raise conflict(kind, target.name, text)
        if mine.get("deletionTimestamp"):
            raise _refused(target.name, f"pod {target.name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            text = f'pod {target.name} is already assigned to node "{spec["nodeName"]}"'
            raise _refused(target.name, text)
        if spec.get("schedulingGates"):
            raise _refused(target.name, f"pod {target.name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = node
        for member in ("annotations", "labels"):
            if metadata.get(member):
                mine[member] = {**(mine.get(member) or {}), **metadata[member]}
        quickbind.mark_scheduled(pod, now)
        if request.query.get("dryRun"):
            return Response(201, _SUCCESS)
        mine["resourceVersion"] = str(state.store.next_revision())
        state.store.write(kind.resource, key, encode(pod))
        return Response(201, _SUCCESS)

    def create(self, request: Request, target: ResourcePath, pods: Served) -> Response:
        """Bind the pod that a binding posted to ``bindings`` is named after."""
        binding = read_body(request.body, request.headers.get("content-type", ""))
        metadata = binding.get("metadata") if isinstance(binding, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            raise invalid(catalog.BINDING, "", [required("metadata.name", "name or generateName is required")])
        return self.bind(request, target._replace(plural="pods", name=name), pods)


def _refused(name: str, text: str) -> Conflict:
    details = {"name": name, "kind": "pods/binding"}
    return Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {text}', details=details)
