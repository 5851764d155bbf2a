"""Bindings as schedulers write them: the node is put into the bytes of the pod's spec, nothing else of which is read.

A scheduler binds thousands of pods a second, each with the same few words. A binding that says anything else, and a
pod that cannot be bound or has gates or a node already, is left to the long way (`Binder.bind`), which finds the words
for what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from strato.api.wire import Request
from strato.server import objects
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.rest.members import at_revision, read_members, read_metadata, read_object


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


def bound(
    request: Request, target: ResourcePath, body: bytes, revision: int, mark: Callable[[Json], None]
) -> bytes | None:
    """Return the stored pod ``body`` bound, at a revision; None when the long way has to be taken.

    Args:
        request: What the scheduler sent.
        target: The pod.
        body: The pod as it is stored.
        revision: What the bound pod will carry.
        mark: Notes in the pod's status that it is scheduled.
    """
    if request.query or request.headers.get("content-type") != "application/json":
        return None
    try:
        binding = _read(request.body)
        members = read_members(body)
        metadata, spec = read_metadata(members["metadata"]), bytes(members["spec"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    about = binding.metadata
    is_plain = (
        (binding.apiVersion, binding.kind) == ("v1", "Binding")
        and binding.target.name
        and binding.target.kind in ("", "Node")
        and about.name in ("", target.name)
        and about.namespace in ("", target.namespace)
        and about.uid in ("", metadata.uid)
        and metadata.deletionTimestamp is None
        and b'"nodeName"' not in spec
        and b'"schedulingGates"' not in spec
        and len(request.body) + len(body) < objects.MAX_BODY_BYTES
    )
    if not is_plain:
        return None
    revised = at_revision(members["metadata"], metadata.resourceVersion, revision)
    if revised is None:
        return None
    if about.annotations:
        merged = read_object(revised)
        merged["annotations"] = {**(merged.get("annotations") or {}), **about.annotations}
        revised = msgspec.Raw(encode(merged))
    pod: Json = {"status": read_object(members["status"]) if "status" in members else {}}
    mark(pod)
    members["metadata"] = revised
    members["spec"] = msgspec.Raw(spec[:-1] + b',"nodeName":' + encode(binding.target.name) + b"}")
    members["status"] = msgspec.Raw(encode(pod["status"]))
    return encode(members)
