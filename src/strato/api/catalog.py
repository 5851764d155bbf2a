"""Every kind this system knows: Kubernetes' own (``BUILTIN``) and Volcano's (``VOLCANO``).

One constant per kind, in capitals; Volcano's Job and CronJob are ``VCJOB`` and ``VCCRONJOB``. Names, short names,
categories, scope and subresources are what a real API server lists in discovery. Volcano's printer columns are
from spec volcano-api section 1 and feed the CRD manifests.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from strato.api import (
    access,
    admissionregistration,
    apiextensions,
    apps,
    autoscaling,
    batch,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
)
from strato.api.kinds import Column, Kind
from strato.api.meta import Object
from strato.api.volcano import batch as vcbatch
from strato.api.volcano import bus, config, flow, nodeinfo, shard, topology
from strato.api.volcano import scheduling as vcscheduling

_CREATE_ONLY = ("create",)
_READ_ONLY = ("get", "list")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_SCALE = (".spec.replicas", ".status.replicas", ".spec.selector")
"""The selector of a built-in kind is an object (or a map of labels); ``/scale`` shows it as text."""
_AGE = Column("Age", ".metadata.creationTimestamp", "date")


class _Options(TypedDict, total=False):
    """Members of `Kind` that differ from its defaults."""

    namespaced: bool
    verbs: tuple[str, ...]
    categories: tuple[str, ...]
    has_status: bool
    scale_paths: tuple[str, str, str]
    subresources: tuple[str, ...]
    columns: tuple[Column, ...]


def _core(name: str, plural: str, view: type[Object], short: str = "", **options: Unpack[_Options]) -> Kind:
    return _kind("", "v1", name, plural, view, short, **options)


def _kind(
    group: str, version: str, name: str, plural: str, view: type[Object], short: str = "", **options: Unpack[_Options]
) -> Kind:
    """Spell a kind in one line; ``short`` is a space-separated list."""
    return Kind(
        group, version, name, plural, singular=name.lower(), short_names=tuple(short.split()), view=view, **options
    )


# ── core/v1 ─────────────────────────────────────────────────────────────────────────────────────────────────────

BINDING = _core("Binding", "bindings", core.Binding, verbs=_CREATE_ONLY)
COMPONENTSTATUS = _core(
    "ComponentStatus", "componentstatuses", core.ComponentStatus, "cs", namespaced=False, verbs=_READ_ONLY
)
CONFIGMAP = _core("ConfigMap", "configmaps", core.ConfigMap, "cm")
ENDPOINTS = _core("Endpoints", "endpoints", core.Endpoints, "ep")
EVENT = _core("Event", "events", core.Event, "ev")
LIMITRANGE = _core("LimitRange", "limitranges", core.LimitRange, "limits")
NAMESPACE = _core(
    "Namespace",
    "namespaces",
    core.Namespace,
    "ns",
    namespaced=False,
    has_status=True,
    subresources=("finalize",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)
NODE = _core("Node", "nodes", core.Node, "no", namespaced=False, has_status=True)
PERSISTENTVOLUMECLAIM = _core(
    "PersistentVolumeClaim", "persistentvolumeclaims", core.PersistentVolumeClaim, "pvc", has_status=True
)
PERSISTENTVOLUME = _core(
    "PersistentVolume", "persistentvolumes", core.PersistentVolume, "pv", namespaced=False, has_status=True
)
POD = _core(
    "Pod", "pods", core.Pod, "po", categories=_ALL, has_status=True, subresources=("binding", "eviction", "log")
)
PODTEMPLATE = _core("PodTemplate", "podtemplates", core.PodTemplate)
REPLICATIONCONTROLLER = _core(
    "ReplicationController",
    "replicationcontrollers",
    core.ReplicationController,
    "rc",
    categories=_ALL,
    has_status=True,
    scale_paths=_SCALE,
)
RESOURCEQUOTA = _core("ResourceQuota", "resourcequotas", core.ResourceQuota, "quota", has_status=True)
SECRET = _core("Secret", "secrets", core.Secret)
SERVICEACCOUNT = _core("ServiceAccount", "serviceaccounts", core.ServiceAccount, "sa", subresources=("token",))
SERVICE = _core("Service", "services", core.Service, "svc", categories=_ALL, has_status=True)

# ── apps/v1, batch/v1, autoscaling/v2, policy/v1 ────────────────────────────────────────────────────────────────

CONTROLLERREVISION = _kind("apps", "v1", "ControllerRevision", "controllerrevisions", apps.ControllerRevision)
DAEMONSET = _kind("apps", "v1", "DaemonSet", "daemonsets", apps.DaemonSet, "ds", categories=_ALL, has_status=True)
DEPLOYMENT = _kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    apps.Deployment,
    "deploy",
    categories=_ALL,
    has_status=True,
    scale_paths=_SCALE,
)
REPLICASET = _kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    apps.ReplicaSet,
    "rs",
    categories=_ALL,
    has_status=True,
    scale_paths=_SCALE,
)
STATEFULSET = _kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    apps.StatefulSet,
    "sts",
    categories=_ALL,
    has_status=True,
    scale_paths=_SCALE,
)
JOB = _kind("batch", "v1", "Job", "jobs", batch.Job, categories=_ALL, has_status=True)
CRONJOB = _kind("batch", "v1", "CronJob", "cronjobs", batch.CronJob, "cj", categories=_ALL, has_status=True)
HORIZONTALPODAUTOSCALER = _kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    autoscaling.HorizontalPodAutoscaler,
    "hpa",
    categories=_ALL,
    has_status=True,
)
PODDISRUPTIONBUDGET = _kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", policy.PodDisruptionBudget, "pdb", has_status=True
)

# ── scheduling, coordination, events, discovery, networking, storage ────────────────────────────────────────────

PRIORITYCLASS = _kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", scheduling.PriorityClass, "pc", namespaced=False
)
FLOWSCHEMA = _kind(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "FlowSchema",
    "flowschemas",
    flowcontrol.FlowSchema,
    namespaced=False,
    has_status=True,
)
PRIORITYLEVELCONFIGURATION = _kind(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    flowcontrol.PriorityLevelConfiguration,
    namespaced=False,
    has_status=True,
)
LEASE = _kind("coordination.k8s.io", "v1", "Lease", "leases", coordination.Lease)
EVENTS_EVENT = _kind("events.k8s.io", "v1", "Event", "events", events.Event, "ev")
ENDPOINTSLICE = _kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", discovery.EndpointSlice)
NETWORKPOLICY = _kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", networking.NetworkPolicy, "netpol")
INGRESS = _kind("networking.k8s.io", "v1", "Ingress", "ingresses", networking.Ingress, "ing", has_status=True)
INGRESSCLASS = _kind(
    "networking.k8s.io", "v1", "IngressClass", "ingressclasses", networking.IngressClass, namespaced=False
)
STORAGECLASS = _kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", storage.StorageClass, "sc", namespaced=False
)
CSINODE = _kind("storage.k8s.io", "v1", "CSINode", "csinodes", storage.CSINode, namespaced=False)
CSIDRIVER = _kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", storage.CSIDriver, namespaced=False)
CSISTORAGECAPACITY = _kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", storage.CSIStorageCapacity
)
VOLUMEATTACHMENT = _kind(
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    storage.VolumeAttachment,
    namespaced=False,
    has_status=True,
)

# ── dynamic resource allocation ─────────────────────────────────────────────────────────────────────────────────

DEVICECLASS = _kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", resource.DeviceClass, namespaced=False)
RESOURCECLAIM = _kind(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", resource.ResourceClaim, has_status=True
)
RESOURCECLAIMTEMPLATE = _kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", resource.ResourceClaimTemplate
)
RESOURCESLICE = _kind(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", resource.ResourceSlice, namespaced=False
)

# ── access control and extension ────────────────────────────────────────────────────────────────────────────────

_RBAC = "rbac.authorization.k8s.io"
ROLE = _kind(_RBAC, "v1", "Role", "roles", rbac.Role)
ROLEBINDING = _kind(_RBAC, "v1", "RoleBinding", "rolebindings", rbac.RoleBinding)
CLUSTERROLE = _kind(_RBAC, "v1", "ClusterRole", "clusterroles", rbac.ClusterRole, namespaced=False)
CLUSTERROLEBINDING = _kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", rbac.ClusterRoleBinding, namespaced=False
)
TOKENREVIEW = _kind(
    "authentication.k8s.io",
    "v1",
    "TokenReview",
    "tokenreviews",
    access.TokenReview,
    namespaced=False,
    verbs=_CREATE_ONLY,
)
SELFSUBJECTREVIEW = _kind(
    "authentication.k8s.io",
    "v1",
    "SelfSubjectReview",
    "selfsubjectreviews",
    access.SelfSubjectReview,
    namespaced=False,
    verbs=_CREATE_ONLY,
)
SUBJECTACCESSREVIEW = _kind(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    access.SubjectAccessReview,
    namespaced=False,
    verbs=_CREATE_ONLY,
)
SELFSUBJECTACCESSREVIEW = _kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    access.SelfSubjectAccessReview,
    namespaced=False,
    verbs=_CREATE_ONLY,
)
LOCALSUBJECTACCESSREVIEW = _kind(
    "authorization.k8s.io",
    "v1",
    "LocalSubjectAccessReview",
    "localsubjectaccessreviews",
    access.LocalSubjectAccessReview,
    verbs=_CREATE_ONLY,
)
SELFSUBJECTRULESREVIEW = _kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    access.SelfSubjectRulesReview,
    namespaced=False,
    verbs=_CREATE_ONLY,
)
CUSTOMRESOURCEDEFINITION = _kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    apiextensions.CustomResourceDefinition,
    "crd crds",
    namespaced=False,
    categories=_EXTENSIONS,
    has_status=True,
)
APISERVICE = _kind(
    "apiregistration.k8s.io",
    "v1",
    "APIService",
    "apiservices",
    apiextensions.APIService,
    namespaced=False,
    categories=_EXTENSIONS,
    has_status=True,
)
_ADMISSION = "admissionregistration.k8s.io"
MUTATINGWEBHOOKCONFIGURATION = _kind(
    _ADMISSION,
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    admissionregistration.MutatingWebhookConfiguration,
    namespaced=False,
    categories=_EXTENSIONS,
)
VALIDATINGWEBHOOKCONFIGURATION = _kind(
    _ADMISSION,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    admissionregistration.ValidatingWebhookConfiguration,
    namespaced=False,
    categories=_EXTENSIONS,
)
VALIDATINGADMISSIONPOLICY = _kind(
    _ADMISSION,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    admissionregistration.ValidatingAdmissionPolicy,
    namespaced=False,
    categories=_EXTENSIONS,
    has_status=True,
)
VALIDATINGADMISSIONPOLICYBINDING = _kind(
    _ADMISSION,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    admissionregistration.ValidatingAdmissionPolicyBinding,
    namespaced=False,
    categories=_EXTENSIONS,
)

# ── Volcano ─────────────────────────────────────────────────────────────────────────────────────────────────────

VCJOB = _kind(
    "batch.volcano.sh",
    "v1alpha1",
    "Job",
    "jobs",
    vcbatch.Job,
    "vcjob vj",
    has_status=True,
    columns=(
        Column("STATUS", ".status.state.phase"),
        Column("minAvailable", ".status.minAvailable", "integer"),
        Column("RUNNINGS", ".status.running", "integer"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
        Column("QUEUE", ".spec.queue", priority=1),
    ),
)
VCCRONJOB = _kind(
    "batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", vcbatch.CronJob, "cronvcjob cronvj", has_status=True
)
PODGROUP = _kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "PodGroup",
    "podgroups",
    vcscheduling.PodGroup,
    "pg podgroup-v1beta1",
    columns=(
        Column("STATUS", ".status.phase"),
        Column("minMember", ".spec.minMember", "integer"),
        Column("RUNNINGS", ".status.running", "integer"),
        Column("AGE", ".metadata.creationTimestamp", "date"),
        Column("QUEUE", ".spec.queue", priority=1),
    ),
)
QUEUE = _kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "Queue",
    "queues",
    vcscheduling.Queue,
    "q queue-v1beta1",
    namespaced=False,
    has_status=True,
    columns=(Column("PARENT", ".spec.parent"),),
)
COMMAND = _kind("bus.volcano.sh", "v1alpha1", "Command", "commands", bus.Command)
JOBFLOW = _kind(
    "flow.volcano.sh",
    "v1alpha1",
    "JobFlow",
    "jobflows",
    flow.JobFlow,
    "jf",
    has_status=True,
    columns=(Column("Status", ".status.state.phase"), _AGE),
)
JOBTEMPLATE = _kind(
    "flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", flow.JobTemplate, "jt", has_status=True
)
NUMATOPOLOGY = _kind(
    "nodeinfo.volcano.sh",
    "v1alpha1",
    "Numatopology",
    "numatopologies",
    nodeinfo.Numatopology,
    "numatopo",
    namespaced=False,
)
HYPERNODE = _kind(
    "topology.volcano.sh",
    "v1alpha1",
    "HyperNode",
    "hypernodes",
    topology.HyperNode,
    "hn",
    namespaced=False,
    has_status=True,
    columns=(
        Column("Tier", ".spec.tier"),
        Column("TierName", ".spec.tierName"),
        Column("NodeCount", ".status.nodeCount", "integer"),
        _AGE,
    ),
)
NODESHARD = _kind(
    "shard.volcano.sh",
    "v1alpha1",
    "NodeShard",
    "nodeshards",
    shard.NodeShard,
    "nsh",
    namespaced=False,
    has_status=True,
    columns=(Column("AGE", ".metadata.creationTimestamp", "date"),),
)
COLOCATIONCONFIGURATION = _kind(
    "config.volcano.sh",
    "v1alpha1",
    "ColocationConfiguration",
    "colocationconfigurations",
    config.ColocationConfiguration,
    has_status=True,
)

VOLCANO: tuple[Kind, ...] = (
    VCJOB,
    VCCRONJOB,
    PODGROUP,
    QUEUE,
    COMMAND,
    JOBFLOW,
    JOBTEMPLATE,
    NUMATOPOLOGY,
    HYPERNODE,
    NODESHARD,
    COLOCATIONCONFIGURATION,
)
"""Kinds that come as CRDs. HyperJob and the data kinds are not served (spec 1)."""

BUILTIN: tuple[Kind, ...] = (
    BINDING,
    COMPONENTSTATUS,
    CONFIGMAP,
    ENDPOINTS,
    EVENT,
    LIMITRANGE,
    NAMESPACE,
    NODE,
    PERSISTENTVOLUMECLAIM,
    PERSISTENTVOLUME,
    POD,
    PODTEMPLATE,
    REPLICATIONCONTROLLER,
    RESOURCEQUOTA,
    SECRET,
    SERVICEACCOUNT,
    SERVICE,
    MUTATINGWEBHOOKCONFIGURATION,
    VALIDATINGADMISSIONPOLICY,
    VALIDATINGADMISSIONPOLICYBINDING,
    VALIDATINGWEBHOOKCONFIGURATION,
    CUSTOMRESOURCEDEFINITION,
    APISERVICE,
    CONTROLLERREVISION,
    DAEMONSET,
    DEPLOYMENT,
    REPLICASET,
    STATEFULSET,
    SELFSUBJECTREVIEW,
    TOKENREVIEW,
    LOCALSUBJECTACCESSREVIEW,
    SELFSUBJECTACCESSREVIEW,
    SELFSUBJECTRULESREVIEW,
    SUBJECTACCESSREVIEW,
    HORIZONTALPODAUTOSCALER,
    CRONJOB,
    JOB,
    LEASE,
    ENDPOINTSLICE,
    EVENTS_EVENT,
    FLOWSCHEMA,
    PRIORITYLEVELCONFIGURATION,
    INGRESSCLASS,
    INGRESS,
    NETWORKPOLICY,
    PODDISRUPTIONBUDGET,
    CLUSTERROLEBINDING,
    CLUSTERROLE,
    ROLEBINDING,
    ROLE,
    DEVICECLASS,
    RESOURCECLAIM,
    RESOURCECLAIMTEMPLATE,
    RESOURCESLICE,
    PRIORITYCLASS,
    CSIDRIVER,
    CSINODE,
    CSISTORAGECAPACITY,
    STORAGECLASS,
    VOLUMEATTACHMENT,
)
"""Kinds the API server itself serves, in the order a real one lists them."""

_BY_VIEW = {kind.view: kind for kind in BUILTIN + VOLCANO}
_BY_RESOURCE = {(kind.group, kind.version, kind.plural): kind for kind in BUILTIN + VOLCANO}
_BY_NAME = {(kind.api_version, kind.name): kind for kind in BUILTIN + VOLCANO}


def kind_of(view: type[Object]) -> Kind:
    """Return the kind that a view class reads.

    Raises:
        KeyError: The class is not the view of any kind.
    """
    return _BY_VIEW[view]


def find(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a resource, or None."""
    return _BY_RESOURCE.get((group, version, plural))


def find_named(api_version: str, name: str) -> Kind | None:
    """Return the kind called ``name`` (``Pod``) in a group version (``v1``, ``apps/v1``), or None."""
    return _BY_NAME.get((api_version, name))
