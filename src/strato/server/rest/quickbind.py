"""Bindings as schedulers write them: the node is put into the bytes of the pod's spec, nothing else of which is read.

A scheduler binds thousands of pods a second, each with the same few words. A binding that says anything else, and a
pod that cannot be bound or has gates or a node already, is left to the long way (`Binder.bind`), which finds the words
for what is wrong.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from strato.api.wire import Request
from strato.http.parser import MAX_BODY_BYTES
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.rest.layouts import Layout, rewritten
from strato.server.rest.members import read_object
from strato.server.rest.state import State


class _About(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Target(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    kind: str = ""
    apiVersion: str = ""


class _Binding(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    target: _Target
    metadata: _About
    apiVersion: str = "v1"
    kind: str = "Binding"


_read = msgspec.json.Decoder(_Binding).decode


def bound(state: State, request: Request, target: ResourcePath, body: bytes, now: str) -> bytes | None:
    """Return the stored pod ``body`` bound, at the next revision; None when the long way has to be taken.

    Args:
        state: Where.
        request: What the scheduler sent.
        target: The pod.
        body: The pod as it is stored.
        now: When it is scheduled.
    """
    if request.query or request.headers.get("content-type") != "application/json":
        return None
    try:
        binding = _read(request.body)
        at = state.layouts.of(body)
        if at is None or not at.spec:
            return None
        before = body[at.status : at.status_end]
        status = (_scheduled_lately if len(before) <= _REMEMBERED_BYTES else _scheduled)(before, now)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    about, aim = binding.metadata, binding.target
    is_plain = (
        binding.apiVersion == "v1"
        and binding.kind == "Binding"
        and aim.name
        and aim.kind in ("", "Node")
        and about.name in ("", target.name)
        and about.namespace in ("", target.namespace)
        and about.uid in ("", at.uid)
        and body.find(b'"nodeName"', at.spec, at.spec_end) < 0
        and body.find(b'"schedulingGates"', at.spec, at.spec_end) < 0
        and len(request.body) + len(body) < MAX_BODY_BYTES
    )
    if not is_plain:
        return None
    node = b',"nodeName":' + encode(aim.name)
    result, now_at = rewritten(body, at, state.store.next_revision(), status, node)
    if about.annotations:
        return _annotated(result, now_at, about.annotations)
    state.layouts.note(result, now_at, body)
    return result


def _annotated(body: bytes, at: Layout, annotations: dict[str, str]) -> bytes:
    metadata = read_object(body[at.metadata : at.metadata_end])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return b"".join((body[: at.metadata], encode(metadata), body[at.metadata_end :]))


def mark_scheduled(pod: Json, now: str) -> None:
    """Note in a pod's status that it is scheduled."""
    status = pod.setdefault("status", {})
    kept = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*kept, scheduled]
    status.pop("nominatedNodeName", None)


def _scheduled(status: bytes, now: str) -> bytes:
    """Return a status (nothing: there is none) with the mark."""
    pod = {"status": read_object(status) if status else {}}
    mark_scheduled(pod, now)
    return encode(pod["status"])


_REMEMBERED_BYTES = 2048
_scheduled_lately = lru_cache(maxsize=256)(_scheduled)
"""Pods of one second have few different ones; C's cache, as each binding asks."""
