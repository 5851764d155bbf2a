"""NodeRestriction: check the content of a node's write, after the node authorizer has allowed the request.

A node may write its own Node without taints and labels that steer workloads, the status of its own pods, its mirror
pods, and tokens bound to its own pods. Messages are Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.pods import MIRROR
from strato.api.status import forbidden, not_found
from strato.errors import ApiError
from strato.server.auth.nodes import LEASE_NAMESPACE, uses
from strato.server.auth.text import quoted

_Json = Mapping[str, Any]
LookUp = Callable[[Kind, str, str], _Json | None]
"""Returns the newest state of an object by kind, namespace and name."""

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLAIM_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
_WITHOUT_API = frozenset(
    (
        *("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume"),
        *("flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk"),
        *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
    )
)
"""Types of volumes that use no API object."""
_WITH_API = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class NodeRestriction:
    """Checks the content of nodes' writes."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up

    def check(self, node: str, request: AdmissionRequest) -> None:
        """Check a write of a node.

        Args:
            node: The node's name; empty if the user has none.
            request: The write.

        Raises:
            Forbidden: The node may not write this.
            NotFound: The write concerns a pod or node that does not exist.
        """
        if not node:
            assert request.user is not None
            raise _refused(request, f"could not determine node from user {quoted(request.user.name)}")
        kind = request.kind
        if kind is catalog.POD:
            self._pod(node, request)
        elif kind is catalog.NODE:
            self._node(node, request)
        elif kind is catalog.PERSISTENTVOLUMECLAIM:
            _claim(node, request)
        elif kind is catalog.SERVICEACCOUNT:
            if request.operation == "CREATE" and request.subresource == "token":
                self._token(node, request)
        elif kind is catalog.LEASE:
            if request.namespace != LEASE_NAMESPACE:
                raise _refused(request, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
            if request.name != node:
                text = "can only access node lease with the same name as the requesting node"
                raise _refused(request, text)
        elif kind is catalog.CSINODE or kind is catalog.NUMATOPOLOGY:
            if request.name != node:
                raise _refused(request, f"can only access {kind.name} with the same name as the requesting node")
        elif kind is catalog.RESOURCESLICE:
            _slice(node, request)

    def _pod(self, node: str, request: AdmissionRequest) -> None:
        if request.subresource == "status":
            _pod_status(node, request)
        elif request.subresource == "eviction":
            if self._node_of_pod(request) != node:
                raise _refused(request, f"node {node} can only evict pods with spec.nodeName set to itself")
        elif request.subresource:
            text = f"unexpected pod subresource {quoted(request.subresource)}, only 'status' and 'eviction' are allowed"
            raise _refused(request, text)
        elif request.operation == "CREATE":
            self._mirror_pod(node, request)
        elif request.operation == "DELETE":
            if self._node_of_pod(request) != node:
                raise _refused(request, f"node {quoted(node)} can only delete pods with spec.nodeName set to itself")
        else:
            operation = quoted(str(request.operation))
            text = f"unexpected operation {operation}, node {quoted(node)} can only create and delete mirror pods"
            raise _refused(request, text)

    def _node_of_pod(self, request: AdmissionRequest) -> str:
        pod = request.old_object or self._look_up(catalog.POD, request.namespace, request.name)
        if pod is None:
            raise not_found(catalog.POD, request.name)
        return str((pod.get("spec") or {}).get("nodeName") or "")

    def _mirror_pod(self, node: str, request: AdmissionRequest) -> None:
        pod = request.object
        assert pod is not None
        metadata, spec, name = pod["metadata"], pod.get("spec") or {}, quoted(node)
        if MIRROR not in (metadata.get("annotations") or ()):
            raise _refused(request, f'pod does not have "{MIRROR}" annotation, node {name} can only create mirror pods')
        if spec.get("nodeName") != node:
            raise _refused(request, f"node {name} can only create pods with spec.nodeName set to itself")
        owners = metadata.get("ownerReferences") or ()
        if len(owners) > 1:
            raise _refused(request, f"node {name} can only create pods with a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise _refused(request, f"node {name} can only create pods with an owner reference set to itself")
        if not owner.get("controller"):
            raise _refused(request, f"node {name} can only create pods with a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise _refused(request, f"node {name} must not set blockOwnerDeletion on an owner reference")
        found = self._look_up(catalog.NODE, "", node)
        if found is None:
            raise not_found(catalog.NODE, node)
        uid = found["metadata"]["uid"]
        if owner.get("uid") != uid:
            raise _refused(request, f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}")
        reference = _api_reference(pod)
        if reference is not None:
            raise _refused(request, f"node {name} can not create pods that reference {reference}")

    def _node(self, node: str, request: AdmissionRequest) -> None:
        name = quoted(node)
        if request.name != node:
            raise _refused(request, f"node {name} is not allowed to modify node {quoted(request.name)}")
        if request.operation == "DELETE" or request.object is None:
            return
        new, old = request.object, request.old_object or {}
        if request.operation == "CREATE":
            if (new.get("spec") or {}).get("configSource"):
                raise _refused(request, f"node {name} is not allowed to create pods with a non-nil configSource")
            labels = _forbidden_labels(new, {})
            if labels:
                raise _refused(request, f"node {name} is not allowed to set the following labels: {labels}")
            return
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec.get("configSource") and spec["configSource"] != before.get("configSource"):
            raise _refused(request, f"node {name} is not allowed to update configSource to a new non-nil configSource")
        if (spec.get("taints") or []) != (before.get("taints") or []):
            raise _refused(request, f"node {name} is not allowed to modify taints")
        if _owners(new) != _owners(old):
            raise _refused(request, f"node {name} is not allowed to modify ownerReferences")
        labels = _forbidden_labels(new, old)
        if labels:
            raise _refused(request, f"is not allowed to modify labels: {labels}")

    def _token(self, node: str, request: AdmissionRequest) -> None:
        spec = (request.object or {}).get("spec") or {}
        reference = spec.get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise _refused(request, "node requested token not bound to a pod")
        if not reference.get("uid"):
            raise _refused(request, "node requested token with a pod binding without a uid")
        pod = self._look_up(catalog.POD, request.namespace, reference["name"])
        if pod is None:
            raise not_found(catalog.POD, reference["name"])
        if reference["uid"] != pod["metadata"]["uid"]:
            raise _refused(
                request,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if (pod.get("spec") or {}).get("nodeName") != node:
            raise _refused(request, "node requested token bound to a pod scheduled on a different node")
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            raise _refused(request, "node may only request 0 or 1 audiences")
        if audiences[0] not in _audiences(pod):
            raise _refused(
                request,
                f"audience {quoted(audiences[0])} not found in pod spec volume, system:node:{node} is not authorized "
                "to request tokens for this audience",
            )


def _pod_status(node: str, request: AdmissionRequest) -> None:
    old, new = request.old_object or {}, request.object or {}
    name = quoted(node)
    if request.operation != "UPDATE":
        raise _refused(request, f"unexpected operation {quoted(str(request.operation))}")
    if (old.get("spec") or {}).get("nodeName") != node:
        raise _refused(request, f"node {name} can only update pod status for pods with spec.nodeName set to itself")
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        raise _refused(request, f"node {name} cannot update labels through pod status")
    for member, description in (
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ):
        before, after = ((one.get("status") or {}).get(member) or None for one in (old, new))
        if before != after:
            raise _refused(request, f"node {name} cannot update {description}")


def _claim(node: str, request: AdmissionRequest) -> None:
    if request.subresource != "status":
        raise _refused(request, "may only update PVC status")
    old, new = request.old_object or {}, request.object or {}
    if _without(old) != _without(new):
        text = f"node {quoted(node)} is not allowed to update fields other than status.quantity and status.conditions"
        raise _refused(request, text)


def _without(claim: _Json) -> dict[str, Any]:
    """Return a claim without the members that its node writes."""
    status = {name: value for name, value in (claim.get("status") or {}).items() if name not in _CLAIM_STATUS}
    metadata = {name: value for name, value in claim["metadata"].items() if name not in _BOOKKEEPING}
    return {**claim, "metadata": metadata, "status": status}


_BOOKKEEPING = ("resourceVersion", "managedFields", "generation")


def _slice(node: str, request: AdmissionRequest) -> None:
    if request.operation == "CREATE" and _node_name(request.object) != node:
        text = "can only create ResourceSlice with the same NodeName as the requesting node"
        raise _refused(request, text)
    if request.operation == "DELETE" and _node_name(request.old_object) != node:
        text = "can only delete ResourceSlice with the same NodeName as the requesting node"
        raise _refused(request, text)


def _node_name(obj: _Json | None) -> str:
    return str(((obj or {}).get("spec") or {}).get("nodeName") or "")


def _owners(obj: _Json) -> Any:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def _forbidden_labels(new: _Json, old: _Json) -> str:
    """Return, in order, the changed labels that a node may not set."""
    after = (new.get("metadata") or {}).get("labels") or {}
    before = (old.get("metadata") or {}).get("labels") or {}
    changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
    return ", ".join(sorted(filter(_is_forbidden, changed)))


def _is_forbidden(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _is_in(domain, _RESTRICTED):
        return True
    is_kubernetes = _is_in(domain, "kubernetes.io") or _is_in(domain, "k8s.io")
    is_kubelet = label in _KUBELET_LABELS or any(_is_in(domain, one) for one in _KUBELET_DOMAINS)
    return is_kubernetes and not is_kubelet


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _api_reference(pod: _Json) -> str | None:
    """Return the first type of API object that a pod uses; None if it uses none."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    plain = {**pod, "metadata": {"name": "", "annotations": {}}, "spec": {**spec, "volumes": []}}
    found = {plural for plural, _ in uses(plain)}
    for plural in ("secrets", "configmaps"):
        if plural in found:
            return plural
    if spec.get("resourceClaims"):
        return "resourceclaims"
    return next((one for volume in spec.get("volumes") or () for one in _volume_references(volume)), None)


def _volume_references(volume: _Json) -> Iterator[str]:
    """Yield the types of API objects that a volume uses; an unknown type of volume counts as one."""
    for kind, source in volume.items():
        if kind == "name" or source is None:
            continue
        if kind == "projected":
            parts = (member for part in source.get("sources") or () for member in part if member != "downwardAPI")
            yield from (_PROJECTED.get(member, member) for member in parts)
        elif kind not in _WITHOUT_API:
            yield _WITH_API.get(kind, kind)
        elif source.get("secretRef"):
            yield "secrets"


def _audiences(pod: _Json) -> set[str]:
    """Return the audiences of tokens in a pod's volumes; an empty one is this API."""
    return {
        part["serviceAccountToken"].get("audience") or ""
        for volume in (pod.get("spec") or {}).get("volumes") or ()
        for part in (volume.get("projected") or {}).get("sources") or ()
        if part.get("serviceAccountToken")
    }


def _refused(request: AdmissionRequest, text: str) -> ApiError:
    return forbidden(request.kind, request.name, text)
