"""Warnings about accepted objects that are hardly meant so; `strato.api.validation.podwarnings` has those about pods.

A real API server sends them in ``Warning`` headers, which kubectl prints; the words are its own. Objects are decoded
JSON after defaulting, and valid. Warnings about a template are given when the object's generation changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

from strato.api import catalog, names
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.validation.addresses import ip_warning, quoted, range_warnings
from strato.api.validation.podwarnings import (
    NODE_LABELS,
    OLD_VOLUMES,
    POD_ANNOTATIONS,
    SPELLED,
    of_annotations,
    of_claim_spec,
    of_template,
    of_term,
)
from strato.api.validation.security import SECCOMP_OF_CONTAINER, SECCOMP_OF_POD

Warnings = Callable[[Json], Iterator[str]]

_IN_PODS = "Pod names and hostnames"
_NAMED_IN: Mapping[Kind, str] = {
    catalog.POD: "the Pod's hostname",
    catalog.DEPLOYMENT: _IN_PODS,
    catalog.REPLICASET: _IN_PODS,
    catalog.REPLICATIONCONTROLLER: _IN_PODS,
    catalog.JOB: _IN_PODS,
    catalog.CRONJOB: _IN_PODS,
}
"""What the name of an object becomes part of."""
_CLAIM_ANNOTATIONS: Mapping[str, str] = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
}
_VOLUME_ANNOTATIONS: Mapping[str, str] = {
    **_CLAIM_ANNOTATIONS,
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_HINTS = "service.kubernetes.io/topology-aware-hints"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_ANNOTATIONS = frozenset((*POD_ANNOTATIONS, SECCOMP_OF_POD, *_VOLUME_ANNOTATIONS, _HINTS, _INGRESS_CLASS))
_MOST = 128
"""No more fit into the headers of an answer; a body of a megabyte may deserve billions."""
_MANY_COMPLETIONS, _MANY_AT_ONCE = 100_000, 10_000


def of_creation(kind: Kind, obj: Json, *, spec_is_known: bool = False) -> list[str]:
    """Return the warnings about a new object.

    Args:
        kind: Its kind, one of `NEW`.
        obj: The object.
        spec_is_known: Whether an equal spec has been found to deserve none; those about the metadata are left.
    """
    if kind is catalog.POD and _is_controlled(obj):
        return []  # nobody reads them: a controller has sent it, and whoever wrote its template has been warned
    found = _of_name(kind, obj)
    if not spec_is_known or _has_old_annotations(obj):
        found += islice(_ABOUT_NEW[kind](obj), _MOST)
    return found


def of_update(kind: Kind, obj: Json, old: Json) -> list[str]:
    """Return the warnings about a changed object, whose kind is one of `CHANGED`."""
    if kind is catalog.DAEMONSET and obj["spec"].get("template") == old["spec"].get("template"):
        return []
    if kind in _TEMPLATES and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    return list(islice(_ABOUT_CHANGED[kind](obj), _MOST))


def _is_controlled(obj: Json) -> bool:
    owners = obj["metadata"].get("ownerReferences")
    return bool(owners) and any(owner.get("controller") for owner in owners)


def _has_old_annotations(obj: Json) -> bool:
    annotations = obj["metadata"].get("annotations") or ()
    return any(key in _ANNOTATIONS or key.startswith(SECCOMP_OF_CONTAINER) for key in annotations)


def _of_name(kind: Kind, obj: Json) -> list[str]:
    name, what = obj["metadata"].get("name") or "", _NAMED_IN.get(kind)
    if what is None or names.is_label(name):
        return []
    text = "which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: this is used in {what}, {text}: [{' '.join(names.check_label(name))}]"]


def _template_of(*path: str) -> Warnings:
    def about(obj: Json) -> Iterator[str]:
        for member in path:
            obj = obj.get(member) or {}
        yield from of_template(obj, ".".join(path) + ".")

    return about


def _of_stateful_set(obj: Json) -> Iterator[str]:
    spec = obj["spec"]
    yield from _template_of("spec", "template")(obj)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from of_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]")
    limit = spec.get("revisionHistoryLimit")
    if limit is not None and limit < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _job_of(*path: str) -> Warnings:
    def about(obj: Json) -> Iterator[str]:
        spec = obj
        for member in path:
            spec = spec.get(member) or {}
        completions, at_once = spec.get("completions") or 0, spec.get("parallelism") or 0
        if spec.get("completionMode") == "Indexed" and completions > _MANY_COMPLETIONS and at_once > _MANY_AT_ONCE:
            text = (
                "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
                "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
            )
            yield f"{'.'.join(path)}: {text}"
        yield from _template_of(*path, "template")(obj)

    return about


def _of_claim(claim: Json) -> Iterator[str]:
    yield from of_annotations(claim["metadata"].get("annotations") or {}, _CLAIM_ANNOTATIONS)
    yield from of_claim_spec(claim.get("spec") or {}, "spec")


def _of_volume(volume: Json) -> Iterator[str]:
    spec = volume.get("spec") or {}
    yield from of_annotations(volume["metadata"].get("annotations") or {}, _VOLUME_ANNOTATIONS)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {text}"
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        yield from of_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", checks_values=False)
    for member in ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"):
        if spec.get(member) is not None:
            yield f"spec.{SPELLED.get(member, member)}: {OLD_VOLUMES[member]}"


def _of_service(service: Json) -> Iterator[str]:
    annotations, spec = service["metadata"].get("annotations") or {}, service.get("spec") or {}
    if _HINTS in annotations:
        yield f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    kind, external = spec.get("type"), spec.get("externalIPs") or ()
    is_headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if kind != "ExternalName" and not is_headless:
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            yield from ip_warning(f"spec.clusterIPs[{index}]", address)
    if is_headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for index, address in enumerate(external):
        yield from ip_warning(f"spec.externalIPs[{index}]", address)
    if external and not is_headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from ip_warning("spec.loadBalancerIP", spec["loadBalancerIP"])
    for index, one in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from range_warnings(f"spec.loadBalancerSourceRanges[{index}]", one)
    if kind == "ExternalName" and external:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _of_node(node: Json) -> Iterator[str]:
    spec = node.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, one in enumerate(spec.get("podCIDRs") or ()):
        yield from range_warnings(f"spec.podCIDRs[{index}]", one)


def _of_endpoints(endpoints: Json) -> Iterator[str]:
    if _is_written_by(endpoints, "endpoints.kubernetes.io/managed-by", ("endpoint-controller",)):
        return
    for number, subset in enumerate(endpoints.get("subsets") or ()):
        for member in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(member) or ()):
                yield from ip_warning(f"subsets[{number}].{member}[{index}].ip", address.get("ip") or "")


def _of_endpoint_slice(part: Json) -> Iterator[str]:
    if _is_written_by(part, "endpointslice.kubernetes.io/managed-by", _SLICES_CONTROLLERS):
        return
    for number, endpoint in enumerate(part.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from ip_warning(f"endpoints[{number}].addresses[{index}]", address)


_SLICES_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


def _is_written_by(obj: Json, label: str, controllers: tuple[str, ...]) -> bool:
    """Whether a controller wrote the object, which writes addresses as they should be; saves a look at each of them."""
    return (obj["metadata"].get("labels") or {}).get(label) in controllers


def _of_network_policy(policy: Json) -> Iterator[str]:
    spec = policy.get("spec") or {}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(direction) or ()):
            for index, peer in enumerate(rule.get(peers) or ()):
                block, at = peer.get("ipBlock") or {}, f"spec.{direction}[{number}].{peers}[{index}].ipBlock"
                yield from range_warnings(f"{at}.cidr", block.get("cidr") or "")
                for place, one in enumerate(block.get("except") or ()):
                    yield from range_warnings(f"{at}.except[{place}]", one)


def _of_storage_class(storage: Json) -> Iterator[str]:
    for number, topology in enumerate(storage.get("allowedTopologies") or ()):
        for index, expression in enumerate(topology.get("matchLabelExpressions") or ()):
            text = NODE_LABELS.get(expression.get("key") or "")
            if text is not None:
                yield f"allowedTopologies[{number}].matchLabelExpressions[{index}].key: {text}"


def _of_runtime_class(runtime: Json) -> Iterator[str]:
    for label in sorted((runtime.get("scheduling") or {}).get("nodeSelector") or ()):
        if label in NODE_LABELS:
            yield f"scheduling.nodeSelector: {NODE_LABELS[label]}"


def _of_new_ingress(ingress: Json) -> Iterator[str]:
    is_annotated = _INGRESS_CLASS in (ingress["metadata"].get("annotations") or {})
    if is_annotated and (ingress.get("spec") or {}).get("ingressClassName") is None:
        yield f"annotation {quoted(_INGRESS_CLASS)} is deprecated, please use 'spec.ingressClassName' instead"


def _of_new_driver(driver: Json) -> Iterator[str]:
    spec = driver.get("spec") or {}
    if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        text = "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
        yield f"spec.serviceAccountTokenInSecrets is unset; {text}"


def _of_new_slice(part: Json) -> Iterator[str]:
    if part.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    yield from _of_endpoint_slice(part)


_TEMPLATES: Mapping[Kind, Warnings] = {
    catalog.DEPLOYMENT: _template_of("spec", "template"),
    catalog.REPLICASET: _template_of("spec", "template"),
    catalog.REPLICATIONCONTROLLER: _template_of("spec", "template"),
    catalog.DAEMONSET: _template_of("spec", "template"),
    catalog.STATEFULSET: _of_stateful_set,
    catalog.PODTEMPLATE: _template_of("template"),
    catalog.JOB: _job_of("spec"),
    catalog.CRONJOB: _job_of("spec", "jobTemplate", "spec"),
}
_ABOUT_CHANGED: Mapping[Kind, Warnings] = {
    catalog.PERSISTENTVOLUMECLAIM: _of_claim,
    catalog.PERSISTENTVOLUME: _of_volume,
    catalog.SERVICE: _of_service,
    catalog.NODE: _of_node,
    catalog.ENDPOINTS: _of_endpoints,
    catalog.ENDPOINTSLICE: _of_endpoint_slice,
    catalog.NETWORKPOLICY: _of_network_policy,
    catalog.STORAGECLASS: _of_storage_class,
    catalog.RUNTIMECLASS: _of_runtime_class,
    **_TEMPLATES,
}
_ABOUT_NEW: Mapping[Kind, Warnings] = {
    **_ABOUT_CHANGED,
    catalog.POD: partial(of_template, at=""),
    catalog.INGRESS: _of_new_ingress,
    catalog.CSIDRIVER: _of_new_driver,
    catalog.ENDPOINTSLICE: _of_new_slice,
}
NEW, CHANGED = frozenset(_ABOUT_NEW), frozenset(_ABOUT_CHANGED)
"""The kinds of which new and changed objects are warned about; programs change pods, which is why these are missing."""
