"""The node authorizer: a node may read the objects that its pods use, and work on its own Node, Lease and pods.

A node is a user ``system:node:NAME`` in the group ``system:nodes``. `strato.server.auth.noderestriction` checks the
content of its writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.pods import MIRROR
from strato.api.wire import User
from strato.lru import LruCache
from strato.server.auth.policy import compile_rule
from strato.server.path import Attributes
from strato.server.snapshot import Change
from strato.server.store import Store

NODES_GROUP = "system:nodes"
LEASE_NAMESPACE = "kube-node-lease"
_PREFIX = "system:node:"
_READ = ("get", "list", "watch")
_OWN = ("get", "create", "update", "patch", "delete")
_MAX_BYTES = 128 << 20
_FEW_NODES = 8
"""Up to this many nodes' names are searched for in a pod's bytes; if there are more, the pod's node is decoded."""
_Json = Mapping[str, Any]
_Use = tuple[str, str]
"""Plural and name of an object in the pod's namespace."""

_ANY_NODE = tuple(
    compile_rule({"verbs": verbs, "apiGroups": groups, "resources": resources})
    for verbs, groups, resources in (
        (("create",), ("authentication.k8s.io",), ("tokenreviews",)),
        (("create",), ("authorization.k8s.io",), ("subjectaccessreviews", "localsubjectaccessreviews")),
        (_READ, ("",), ("services",)),
        (("create", "update", "patch"), ("", "events.k8s.io"), ("events",)),
        (("get",), ("",), ("endpoints",)),
        (_READ, ("storage.k8s.io",), ("csidrivers",)),
        (_READ, ("node.k8s.io",), ("runtimeclasses",)),
    )
)
"""The rights of every node."""


def node_of(user: User) -> str | None:
    """Return the name of the node that a user is, empty if it has no name; None for other users."""
    if NODES_GROUP in user.groups and user.name.startswith(_PREFIX):
        return user.name[len(_PREFIX) :]
    return None


class NodeAuthorizer:
    """Authorizes the requests of nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods = PodsOfNodes(store)
        self._checks: Mapping[tuple[str, str], Callable[[str, Attributes], str | None]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            ("nodeinfo.volcano.sh", "numatopologies"): self._numa_topology,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("storage.k8s.io", "volumeattachments"): self._get,
        }

    def denial(self, node: str, asked: Attributes) -> str | None:
        """Return None if a node has the right to a request, otherwise the reason of the refusal, which may be empty."""
        if not node:
            return "unknown node"
        check = None if asked.path else self._checks.get((asked.group, asked.resource))
        if check is not None:
            return check(node, asked)
        full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        if not asked.path and any(rule.allows(asked.verb, asked.group, full, asked.name) for rule in _ANY_NODE):
            return None
        return ""

    def _read(self, node: str, asked: Attributes) -> str | None:
        """Decide on reads of Secrets and ConfigMaps."""
        if asked.verb not in _READ:
            return "can only read resources of this type"
        if asked.subresource:
            return "cannot read subresource"
        if not asked.namespace:
            return "can only read namespaced object of this type"
        return self._related(node, asked)

    def _get(self, node: str, asked: Attributes) -> str | None:
        if asked.verb != "get":
            return "can only get individual resources of this type"
        if asked.subresource:
            return "cannot get subresource"
        return self._related(node, asked)

    def _claim(self, node: str, asked: Attributes) -> str | None:
        if asked.subresource != "status":
            return self._get(node, asked)
        if asked.verb not in ("update", "patch"):
            return "can only get/update/patch this type"
        return self._related(node, asked)

    def _account(self, node: str, asked: Attributes) -> str | None:
        if asked.verb == "get" and not asked.subresource:
            return self._related(node, asked)
        if asked.verb != "create" or not asked.name:
            return "can only create tokens for individual service accounts"
        if asked.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._related(node, asked)

    def _lease(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in _OWN:
            return "can only get, create, update, patch, or delete a node lease"
        if asked.namespace != LEASE_NAMESPACE:
            return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
        if asked.verb != "create" and asked.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    def _csi_node(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in _OWN:
            return "can only get, create, update, patch, or delete a CSINode"
        if asked.subresource:
            return "cannot authorize CSINode subresources"
        if asked.verb != "create" and asked.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return None

    def _numa_topology(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in _OWN or (asked.verb != "create" and asked.name != node):
            return "can only access the Numatopology with the same name as the requesting node"
        return None

    def _slice(self, node: str, asked: Attributes) -> str | None:
        if asked.subresource:
            return "cannot authorize ResourceSlice subresources"
        if asked.verb == "create":
            return None
        if asked.verb in ("get", "update", "patch", "delete"):
            return self._related(node, asked)
        if asked.verb in ("list", "watch", "deletecollection") and asked.selects("spec.nodeName", node):
            return None
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"

    def _node(self, node: str, asked: Attributes) -> str | None:
        changes = ("update", "patch")
        if asked.verb in changes and asked.subresource in ("", "status"):
            return None
        if asked.subresource:
            return ""
        if asked.verb == "create":
            return None
        if asked.verb not in _READ:
            return ""
        if asked.name == node:
            return None
        if not asked.name:
            return f"node '{node}' cannot read all nodes, only its own Node object"
        return f"node '{node}' cannot read '{asked.name}', only its own Node object"

    def _pod(self, node: str, asked: Attributes) -> str | None:
        match asked.subresource, asked.verb:
            case "", "get":
                return self._related(node, asked)
            case "", "list" | "watch":
                if asked.selects("spec.nodeName", node):
                    return None
                if asked.name:
                    return self._related(node, asked)
                return "can only list/watch pods with spec.nodeName field selector"
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return None
        return ""

    def _related(self, node: str, asked: Attributes) -> str | None:
        if not asked.name:
            return "No Object name found"
        if self._is_related(node, asked.resource, asked.namespace, asked.name):
            return None
        return f"no relationship found between node '{node}' and this object"

    def _is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        match resource:
            case "pods":
                return self._pods.has(node, f"{namespace}/{name}")
            case "persistentvolumes":
                return any(self._volume_of(place, claim) == name for place, claim in self._pods.claims(node))
            case "volumeattachments":
                return _node_in(self._spec(catalog.VOLUMEATTACHMENT, name)) == node
            case "resourceslices":
                return _node_in(self._spec(catalog.RESOURCESLICE, name)) == node
        return self._pods.use(node, namespace, (resource, name))

    def _volume_of(self, namespace: str, claim: str) -> str:
        return str(self._spec(catalog.PERSISTENTVOLUMECLAIM, f"{namespace}/{claim}").get("volumeName") or "")

    def _spec(self, kind: Kind, key: str) -> _Json:
        row = self._store.bucket(kind.resource).objects.get(key)
        spec: _Json = msgspec.json.decode(row.body).get("spec") or {} if row is not None else {}
        return spec


class _BoundPod(msgspec.Struct, frozen=True, gc=False):
    class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
        node_name: str = ""

    spec: Spec = Spec()


_decode_bound = msgspec.json.Decoder(_BoundPod).decode


class PodsOfNodes:
    """The pods of those nodes that have made requests, and the objects that each pod uses.

    When a node makes its first request, all pods are searched for its own; from then on each published change of a pod
    is checked. That costs less than a microsecond, as only pods that mention such a node are decoded.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods: LruCache[str, set[str]] = LruCache(_MAX_BYTES, lambda _, pods: 70 * len(pods))
        self._needles: dict[str, bytes] = {}
        self._uses: dict[str, frozenset[_Use]] = {}
        """The objects that pods of those nodes use, computed on first use."""
        self._follows = False

    def has(self, node: str, key: str) -> bool:
        """Whether a pod is on a node."""
        return key in self._of(node)

    def use(self, node: str, namespace: str, use: _Use) -> bool:
        """Whether any pod of a node, in a namespace, uses an object."""
        start = f"{namespace}/"
        return any(use in self._uses_of(key) for key in self._of(node) if key.startswith(start))

    def claims(self, node: str) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of the claims that a node's pods use."""
        for key in self._of(node):
            for plural, name in self._uses_of(key):
                if plural == "persistentvolumeclaims":
                    yield key.partition("/")[0], name

    def _of(self, node: str) -> set[str]:
        known = self._pods.get(node)
        if known is None:
            bucket = self._store.bucket(catalog.POD.resource)
            if not self._follows:
                self._follows = True
                self._store.on_publish(catalog.POD.resource, self._take)
            needle = _needle(node)
            rows = bucket.objects.items()
            known = {key for key, row in rows if needle in row.body and _decode_bound(row.body).spec.node_name == node}
            self._pods.put(node, known)
            self._needles[node] = needle
            for dropped in [other for other in self._needles if other not in self._pods]:
                del self._needles[dropped]
        return known

    def _uses_of(self, key: str) -> frozenset[_Use]:
        known = self._uses.get(key)
        if known is None:
            row = self._store.bucket(catalog.POD.resource).objects.get(key)
            known = self._uses[key] = frozenset(uses(msgspec.json.decode(row.body))) if row is not None else frozenset()
        return known

    def _take(self, resource: str, change: Change) -> None:
        del resource
        key, body = change.key, change.body
        self._uses.pop(key, None)
        if body is None:
            for node in self._needles:
                self._pods_of(node).discard(key)
            return
        if len(self._needles) > _FEW_NODES:
            name = _decode_bound(body).spec.node_name
            near = [name] if name in self._needles else []
        else:
            near = [node for node, needle in self._needles.items() if needle in body]
            near = [node for node in near if _decode_bound(body).spec.node_name == node]
        for node in near:
            self._pods_of(node).add(key)

    def _pods_of(self, node: str) -> set[str]:
        known = self._pods.get(node)
        return known if known is not None else set()


def _needle(node: str) -> bytes:
    return b'"nodeName":' + msgspec.json.encode(node)


def _node_in(spec: _Json) -> str:
    return str(spec.get("nodeName") or "")


def uses(pod: _Json) -> Iterator[_Use]:
    """Yield the objects that a pod uses; none for a mirror pod, which the node has made itself."""
    metadata, spec = pod["metadata"], pod["spec"]
    if MIRROR in (metadata.get("annotations") or ()):
        return
    yield "serviceaccounts", spec.get("serviceAccountName") or "default"
    for one in spec.get("imagePullSecrets") or ():
        yield "secrets", one.get("name") or ""
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(member) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, metadata["name"])
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    for claim in (*(spec.get("resourceClaims") or ()), *statuses):
        if claim.get("resourceClaimName"):
            yield "resourceclaims", claim["resourceClaimName"]


def _of_container(container: _Json) -> Iterator[_Use]:
    sources = [*(container.get("envFrom") or ()), *(one.get("valueFrom") or {} for one in container.get("env") or ())]
    for source in sources:
        for member, plural in (
            ("secretRef", "secrets"),
            ("secretKeyRef", "secrets"),
            ("configMapRef", "configmaps"),
            ("configMapKeyRef", "configmaps"),
        ):
            if source.get(member):
                yield plural, source[member].get("name") or ""


def _of_volume(volume: _Json, pod: str) -> Iterator[_Use]:
    for kind, source in volume.items():
        if not isinstance(source, dict):
            continue
        match kind:
            case "secret":
                yield "secrets", source.get("secretName") or ""
            case "configMap":
                yield "configmaps", source.get("name") or ""
            case "persistentVolumeClaim":
                yield "persistentvolumeclaims", source.get("claimName") or ""
            case "ephemeral":
                yield "persistentvolumeclaims", f"{pod}-{volume.get('name')}"
            case "projected":
                for part in source.get("sources") or ():
                    for member, plural in (("secret", "secrets"), ("configMap", "configmaps")):
                        if part.get(member):
                            yield plural, part[member].get("name") or ""
            case "azureFile":
                yield "secrets", source.get("secretName") or ""
            case _:
                for member in ("secretRef", "nodePublishSecretRef"):
                    if source.get(member):
                        yield "secrets", source[member].get("name") or ""
