"""``pods/binding``: the scheduler's decision becomes the pod's node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from strato.api.status import conflict, invalid, not_found, not_supported, required
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import BadRequest
from strato.server import objects
from strato.server.objects import encode
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.state import State, object_key

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_SUCCESS = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class Binder:
    """Binds pods."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def bind(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Set the pod's node, merge the binding's annotations and mark the pod scheduled."""
        kind, state = served.kind, self._state
        binding = objects.read_body(request.body, request.headers.get("content-type", ""))
        if not isinstance(binding, dict):
            raise BadRequest(f"a binding is an object, not {type(binding).__name__}")
        aim, metadata = binding.get("target") or {}, binding.get("metadata") or {}
        if not isinstance(aim, dict) or not isinstance(metadata, dict):
            raise BadRequest("metadata and target of a binding are objects")
        if metadata.get("name", target.name) != target.name:
            raise BadRequest("name in URL does not match name in Binding object")
        if aim.get("kind") not in (None, "", "Node"):
            raise invalid(kind, target.name, [not_supported("target.kind", aim["kind"], ("Node", "<empty>"))])
        node = aim.get("name") or ""
        if not node:
            raise invalid(kind, target.name, [required("target.name")])
        key = object_key(kind, target.namespace, target.name)
        body = state.bucket(kind).latest(key)
        if body is None:
            raise not_found(kind, target.name)
        pod = _decode(body)
        mine, spec = pod["metadata"], pod["spec"]
        uid = metadata.get("uid")
        if uid and uid != mine["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {mine['uid']}"
            raise conflict(kind, target.name, text)
        if mine.get("deletionTimestamp"):
            raise conflict(kind, target.name, f"pod {target.name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            text = f'pod {target.name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict(kind, target.name, text)
        if spec.get("schedulingGates"):
            raise conflict(kind, target.name, f"pod {target.name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = node
        if metadata.get("annotations"):
            mine["annotations"] = {**(mine.get("annotations") or {}), **metadata["annotations"]}
        _mark_scheduled(pod, format_time(state.clock.now()))
        if request.param("dryRun") == "All":
            return Response(201, _SUCCESS)
        mine["resourceVersion"] = str(state.store.next_revision())
        await state.store.write(kind.resource, key, encode(pod))
        return Response(201, _SUCCESS)


def _mark_scheduled(pod: objects.Json, now: str) -> None:
    status = pod.setdefault("status", {})
    kept = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*kept, scheduled]
    status.pop("nominatedNodeName", None)
