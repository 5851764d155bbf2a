"""Validation of the built-in kinds, with the causes that a real API server gives.

Objects are decoded JSON after defaulting. The functions return all problems at once, in the order of the fields; an
empty list means that the object is valid.
"""

from __future__ import annotations

from collections.abc import Callable

from strato.api import autoscaling, catalog, certificates, names
from strato.api.kinds import Kind
from strato.api.malformed import malformed
from strato.api.meta import Json
from strato.api.validation import (
    admissionregistration,
    clusternetworks,
    endpoints,
    flowcontrol,
    networking,
    others,
    persistentvolumes,
    pod,
    resize,
    runtimeclasses,
    storage,
    workloads,
)
from strato.api.validation.metadata import NameCheck, validate_metadata, validate_metadata_update
from strato.api.validation.podspec import validate_template
from strato.api.validation.security import SECCOMP_ANNOTATIONS
from strato.errors import Cause

Create = Callable[[Json], list[Cause]]
Update = Callable[[Json, Json], list[Cause]]

_NAME_CHECKS: dict[Kind, NameCheck] = {
    catalog.NAMESPACE: names.check_label,
    catalog.EVENT: names.check_path_segment,
    catalog.PODDISRUPTIONBUDGET: names.check_path_segment,
    catalog.SERVICE: names.check_label,
    catalog.STATEFULSET: names.check_label,
    catalog.ROLE: names.check_path_segment,
    catalog.ROLEBINDING: names.check_path_segment,
    catalog.CLUSTERROLE: names.check_path_segment,
    catalog.CLUSTERROLEBINDING: names.check_path_segment,
    catalog.CERTIFICATESIGNINGREQUEST: names.check_path_segment,
    catalog.IPADDRESS: clusternetworks.check_ip_name,
}

_METADATA: dict[Kind, Create] = {
    catalog.POD: pod.validate_pod_annotations,
    catalog.JOB: workloads.validate_job_name,
}
"""Rules of new objects that read names or annotations, perhaps beside other members."""

_CREATE: dict[Kind, Create] = {
    catalog.POD: pod.validate_pod,
    catalog.NODE: others.validate_node,
    catalog.SERVICE: others.validate_service,
    catalog.CONFIGMAP: others.validate_config_map,
    catalog.SECRET: others.validate_secret,
    catalog.PERSISTENTVOLUME: persistentvolumes.validate_persistent_volume,
    catalog.PERSISTENTVOLUMECLAIM: others.validate_claim,
    catalog.LEASE: others.validate_lease,
    catalog.STORAGECLASS: storage.validate_storage_class,
    catalog.CSIDRIVER: storage.validate_csi_driver,
    catalog.EVENT: others.validate_event,
    catalog.ROLE: others.validate_role,
    catalog.CLUSTERROLE: others.validate_role,
    catalog.ROLEBINDING: others.validate_role_binding,
    catalog.CLUSTERROLEBINDING: others.validate_role_binding,
    catalog.RESOURCEQUOTA: others.validate_quota,
    catalog.RUNTIMECLASS: runtimeclasses.validate_runtime_class,
    catalog.PRIORITYCLASS: others.validate_priority_class,
    catalog.ENDPOINTS: endpoints.validate_endpoints,
    catalog.ENDPOINTSLICE: endpoints.validate_slice,
    catalog.INGRESS: networking.validate_ingress,
    catalog.INGRESSCLASS: networking.validate_ingress_class,
    catalog.NETWORKPOLICY: networking.validate_network_policy,
    catalog.DEPLOYMENT: workloads.validate_workload,
    catalog.CONTROLLERREVISION: workloads.validate_revision,
    catalog.PODTEMPLATE: lambda obj: validate_template(obj.get("template") or {}, "template"),
    catalog.REPLICATIONCONTROLLER: workloads.validate_replication_controller,
    catalog.REPLICASET: workloads.validate_workload,
    catalog.STATEFULSET: workloads.validate_workload,
    catalog.DAEMONSET: workloads.validate_workload,
    catalog.JOB: workloads.validate_job,
    catalog.CRONJOB: workloads.validate_cron_job,
    catalog.PODDISRUPTIONBUDGET: others.validate_budget,
    catalog.HORIZONTALPODAUTOSCALER: autoscaling.validate,
    catalog.CERTIFICATESIGNINGREQUEST: certificates.validate,
    catalog.FLOWSCHEMA: flowcontrol.validate_flow_schema,
    catalog.PRIORITYLEVELCONFIGURATION: flowcontrol.validate_priority_level,
    catalog.MUTATINGWEBHOOKCONFIGURATION: admissionregistration.validate_webhooks,
    catalog.VALIDATINGWEBHOOKCONFIGURATION: admissionregistration.validate_webhooks,
    catalog.VALIDATINGADMISSIONPOLICY: admissionregistration.validate_policy,
    catalog.VALIDATINGADMISSIONPOLICYBINDING: admissionregistration.validate_policy_binding,
    catalog.MUTATINGADMISSIONPOLICY: admissionregistration.validate_mutating_policy,
    catalog.MUTATINGADMISSIONPOLICYBINDING: admissionregistration.validate_mutating_binding,
    catalog.SERVICECIDR: clusternetworks.validate_service_cidr,
    catalog.IPADDRESS: clusternetworks.validate_ip_address,
}
_FIXED_SELECTOR = workloads.fixed_selector(workloads.validate_workload)
_UPDATE: dict[Kind, Update] = {
    catalog.POD: pod.validate_pod_update,
    catalog.NODE: others.validate_node_update,
    catalog.SERVICE: others.validate_service_update,
    catalog.CONFIGMAP: others.validate_config_map_update,
    catalog.SECRET: others.validate_secret_update,
    catalog.PERSISTENTVOLUME: persistentvolumes.validate_persistent_volume_update,
    catalog.PERSISTENTVOLUMECLAIM: others.validate_claim_update,
    catalog.CSIDRIVER: storage.validate_csi_driver_update,
    catalog.EVENT: lambda obj, _old: others.validate_event(obj),
    catalog.LEASE: lambda obj, _old: others.validate_lease(obj),
    catalog.ROLE: lambda obj, _old: others.validate_role(obj),
    catalog.CLUSTERROLE: lambda obj, _old: others.validate_role(obj),
    catalog.ROLEBINDING: others.validate_role_binding_update,
    catalog.CLUSTERROLEBINDING: others.validate_role_binding_update,
    catalog.RESOURCEQUOTA: lambda obj, _old: others.validate_quota(obj),
    catalog.RUNTIMECLASS: runtimeclasses.validate_runtime_class_update,
    catalog.PRIORITYCLASS: others.validate_priority_class_update,
    catalog.ENDPOINTS: endpoints.validate_endpoints_update,
    catalog.ENDPOINTSLICE: endpoints.validate_slice_update,
    catalog.INGRESS: networking.validate_ingress_update,
    catalog.INGRESSCLASS: networking.validate_ingress_class_update,
    catalog.NETWORKPOLICY: lambda obj, _old: networking.validate_network_policy(obj),
    catalog.DEPLOYMENT: _FIXED_SELECTOR,
    catalog.CONTROLLERREVISION: workloads.validate_revision_update,
    catalog.PODTEMPLATE: lambda obj, _old: validate_template(obj.get("template") or {}, "template"),
    catalog.REPLICATIONCONTROLLER: lambda obj, _old: workloads.validate_replication_controller(obj),
    catalog.REPLICASET: _FIXED_SELECTOR,
    catalog.STATEFULSET: _FIXED_SELECTOR,
    catalog.DAEMONSET: _FIXED_SELECTOR,
    catalog.JOB: workloads.validate_job_update,
    catalog.CRONJOB: lambda obj, _old: workloads.validate_cron_job(obj),
    catalog.PODDISRUPTIONBUDGET: lambda obj, _old: others.validate_budget(obj),
    catalog.HORIZONTALPODAUTOSCALER: lambda obj, _old: autoscaling.validate(obj),
    catalog.CERTIFICATESIGNINGREQUEST: lambda obj, _old: certificates.validate(obj),
    catalog.FLOWSCHEMA: lambda obj, _old: flowcontrol.validate_flow_schema(obj),
    catalog.PRIORITYLEVELCONFIGURATION: lambda obj, _old: flowcontrol.validate_priority_level(obj),
    catalog.MUTATINGWEBHOOKCONFIGURATION: lambda obj, _old: admissionregistration.validate_webhooks(obj),
    catalog.VALIDATINGWEBHOOKCONFIGURATION: lambda obj, _old: admissionregistration.validate_webhooks(obj),
    catalog.VALIDATINGADMISSIONPOLICY: lambda obj, _old: admissionregistration.validate_policy(obj),
    catalog.VALIDATINGADMISSIONPOLICYBINDING: lambda obj, _old: admissionregistration.validate_policy_binding(obj),
    catalog.MUTATINGADMISSIONPOLICY: lambda obj, _old: admissionregistration.validate_mutating_policy(obj),
    catalog.MUTATINGADMISSIONPOLICYBINDING: lambda obj, _old: admissionregistration.validate_mutating_binding(obj),
    catalog.SERVICECIDR: clusternetworks.validate_service_cidr_update,
    catalog.IPADDRESS: clusternetworks.validate_ip_address_update,
}

_SUBRESOURCES: dict[str, Update] = {
    "resize": resize.validate_resize,
    "ephemeralcontainers": resize.validate_ephemeral_containers_update,
}
"""Subresource of pods → the rule of its updates."""


def validate_create(kind: Kind, obj: Json, *, only_metadata: bool = False, custom: bool = False) -> list[Cause]:
    """Return the problems of a new object.

    Args:
        kind: The object's kind.
        obj: The object.
        only_metadata: Whether only its metadata is checked, as the rest is known to be valid.
        custom: Whether a CustomResourceDefinition serves the kind.

    Raises:
        BadRequest: A field has the wrong JSON type; the message names it.
    """
    try:
        check_name = _NAME_CHECKS.get(kind, names.check_subdomain)
        metadata = obj.get("metadata") or {}
        causes = validate_metadata(metadata, namespaced=kind.namespaced, custom=custom, check_name=check_name)
        for checks in (_METADATA,) if only_metadata else (_METADATA, _CREATE):
            check = checks.get(kind)
            if check is not None:
                causes += check(obj)
    except (AttributeError, TypeError, KeyError, IndexError) as err:
        raise malformed(kind, obj) from err
    return causes


def reads_metadata(kind: Kind, obj: Json) -> bool:
    """Whether another name, or other values of its annotations, might make a valid object invalid."""
    if kind is catalog.JOB:
        return bool((obj.get("spec") or {}).get("completionMode") == "Indexed")
    annotations = (obj.get("metadata") or {}).get("annotations") or ()
    return kind is catalog.POD and any(key.startswith(SECCOMP_ANNOTATIONS) for key in annotations)


def validate_update(kind: Kind, obj: Json, old: Json, subresource: str = "", *, custom: bool = False) -> list[Cause]:
    """Return the problems of a change of ``old`` to ``obj``, through the main resource or a subresource.

    Args:
        kind: The object's kind.
        obj: The object as it would be stored.
        old: The stored object.
        subresource: Empty for the main resource.
        custom: Whether a CustomResourceDefinition serves the kind.

    Raises:
        BadRequest: A field has the wrong JSON type; the message names it.
    """
    try:
        causes = validate_metadata_update(obj.get("metadata") or {}, old.get("metadata") or {}, custom=custom)
        check = (_SUBRESOURCES.get(subresource) if kind is catalog.POD else None) or _UPDATE.get(kind)
        if check is not None:
            causes += check(obj, old)
    except (AttributeError, TypeError, KeyError, IndexError) as err:
        raise malformed(kind, obj) from err
    return causes
