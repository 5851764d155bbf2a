"""Server-side defaults of the built-in kinds, as the real API server sets them.

`apply_defaults` changes a decoded object in place, before admission and validation, on every write. It also writes
quantities in canonical form, which a real server does by decoding and encoding them. `initial_status` sets the status
of an object that is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strato.api import autoscaling, catalog
from strato.api.defaults.flowcontrol import default_flow_schema, default_priority_level
from strato.api.defaults.others import (
    default_claim,
    default_config_secret,
    default_controller_revision,
    default_csi_driver,
    default_event,
    default_ingress_class,
    default_lease,
    default_limit_range,
    default_namespace,
    default_network_policy,
    default_node,
    default_persistent_volume,
    default_policy,
    default_policy_binding,
    default_priority_class,
    default_quota,
    default_role_binding,
    default_runtime_class,
    default_storage_class,
    default_webhooks,
)
from strato.api.defaults.pod import default_pod, default_pod_template, dict_qos_class
from strato.api.defaults.service import default_endpoint_slice, default_endpoints, default_service
from strato.api.defaults.workloads import (
    default_cron_job,
    default_daemon_set,
    default_deployment,
    default_job,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
    select_own_pods,
)
from strato.api.kinds import Kind
from strato.api.malformed import malformed

Default = Callable[[dict[str, Any]], None]

_DEFAULTS: dict[Kind, Default] = {
    catalog.POD: default_pod,
    catalog.PODTEMPLATE: default_pod_template,
    catalog.SERVICE: default_service,
    catalog.ENDPOINTS: default_endpoints,
    catalog.ENDPOINTSLICE: default_endpoint_slice,
    catalog.NAMESPACE: default_namespace,
    catalog.NODE: default_node,
    catalog.LEASE: default_lease,
    catalog.EVENT: default_event,
    catalog.SECRET: default_config_secret,
    catalog.PERSISTENTVOLUMECLAIM: default_claim,
    catalog.PERSISTENTVOLUME: default_persistent_volume,
    catalog.LIMITRANGE: default_limit_range,
    catalog.RESOURCEQUOTA: default_quota,
    catalog.REPLICATIONCONTROLLER: default_replication_controller,
    catalog.REPLICASET: default_replica_set,
    catalog.DEPLOYMENT: default_deployment,
    catalog.STATEFULSET: default_stateful_set,
    catalog.DAEMONSET: default_daemon_set,
    catalog.CONTROLLERREVISION: default_controller_revision,
    catalog.JOB: default_job,
    catalog.CRONJOB: default_cron_job,
    catalog.PRIORITYCLASS: default_priority_class,
    catalog.HORIZONTALPODAUTOSCALER: autoscaling.default,
    catalog.RUNTIMECLASS: default_runtime_class,
    catalog.FLOWSCHEMA: default_flow_schema,
    catalog.PRIORITYLEVELCONFIGURATION: default_priority_level,
    catalog.ROLEBINDING: default_role_binding,
    catalog.CLUSTERROLEBINDING: default_role_binding,
    catalog.STORAGECLASS: default_storage_class,
    catalog.CSIDRIVER: default_csi_driver,
    catalog.INGRESSCLASS: default_ingress_class,
    catalog.NETWORKPOLICY: default_network_policy,
    catalog.MUTATINGWEBHOOKCONFIGURATION: default_webhooks,
    catalog.VALIDATINGWEBHOOKCONFIGURATION: default_webhooks,
    **dict.fromkeys((catalog.VALIDATINGADMISSIONPOLICY, catalog.MUTATINGADMISSIONPOLICY), default_policy),
    **dict.fromkeys(
        (catalog.VALIDATINGADMISSIONPOLICYBINDING, catalog.MUTATINGADMISSIONPOLICYBINDING), default_policy_binding
    ),
}

FIRST_PHASES: Mapping[Kind, str] = {
    catalog.NAMESPACE: "Active",
    catalog.PERSISTENTVOLUMECLAIM: "Pending",
    catalog.PERSISTENTVOLUME: "Pending",
}
"""The phases of new objects, which a status that is written without one gets too."""

_INITIAL_STATUS: dict[Kind, dict[str, Any]] = {
    **{kind: {"phase": phase} for kind, phase in FIRST_PHASES.items()},
    catalog.SERVICE: {"loadBalancer": {}},
    catalog.REPLICATIONCONTROLLER: {"replicas": 0},
    catalog.REPLICASET: {"replicas": 0},
    catalog.STATEFULSET: {"replicas": 0, "availableReplicas": 0},
    catalog.DAEMONSET: {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    catalog.DEPLOYMENT: {},
    catalog.JOB: {},
    catalog.CRONJOB: {},
    catalog.CERTIFICATESIGNINGREQUEST: {},
    catalog.RESOURCEQUOTA: {},
    catalog.RESOURCECLAIM: {},
    catalog.SERVICECIDR: {},
    catalog.FLOWSCHEMA: {},
    catalog.PRIORITYLEVELCONFIGURATION: {},
    catalog.VOLUMEATTACHMENT: {"attached": False},
    catalog.HORIZONTALPODAUTOSCALER: {"currentMetrics": None, "desiredReplicas": 0},
    catalog.INGRESS: {"loadBalancer": {}},
    catalog.PODDISRUPTIONBUDGET: {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
}


def apply_defaults(kind: Kind, obj: dict[str, Any]) -> None:
    """Set the defaults that a real API server sets, in place; does nothing for kinds without defaults.

    Raises:
        BadRequest: A field has the wrong JSON type; the message names it.
    """
    default = _DEFAULTS.get(kind)
    if default is None:
        return
    try:
        default(obj)
    except (AttributeError, TypeError, KeyError, IndexError) as err:
        raise malformed(kind, obj) from err


def first_status(kind: Kind) -> Mapping[str, Any]:
    """Return what the status of a kind is never without, as new objects have it; not to be changed."""
    return _INITIAL_STATUS.get(kind) or {}


def initial_status(kind: Kind, obj: dict[str, Any]) -> None:
    """Replace the status of an object that is created by that of a new one, in place; for built-in kinds only.

    A Job, whose uid is known by now, also gets the selector of its pods.

    Nodes keep the status in the request, as on a real server (a kubelet registers with its status); objects of
    Volcano's kinds lose it if ``/status`` is a subresource.
    """
    if kind is catalog.POD:
        spec = obj.get("spec") or {}
        obj["status"] = {"phase": "Pending", "qosClass": dict_qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"].get("creationTimestamp"),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        return
    if kind is catalog.NODE or not kind.has_status:
        return
    if kind is catalog.JOB and obj["metadata"].get("uid") and obj["metadata"].get("name"):
        select_own_pods(obj)
    fresh = _INITIAL_STATUS.get(kind)
    if fresh is not None:
        obj["status"] = dict(fresh)
    else:
        obj.pop("status", None)
