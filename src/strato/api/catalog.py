"""The table of all known kinds: Kubernetes' own (``BUILTIN``), Volcano's and Kubeflow's (``CUSTOM``).

One constant per kind, in capitals; Volcano's Job and CronJob are ``VCJOB`` and ``VCCRONJOB``. Names, short names,
categories, scope and subresources are what a real API server lists in discovery. Volcano's printer columns are
from spec volcano-api section 1 and feed the CRD manifests.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from strato.api import (
    apiextensions,
    apps,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    kubeflow,
    metrics,
    mpioperator,
    policy,
    resource,
    scheduling,
    storage,
    trainer,
    unread,
    verticalautoscaling,
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

    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    categories: tuple[str, ...]
    has_status: bool
    scale_paths: tuple[str, str, str] | None
    subresources: tuple[str, ...]
    columns: tuple[Column, ...]


def _core(view: type[Object], short: str = "", **options: Unpack[_Options]) -> Kind:
    return _kind("", "v1", view, short, **options)


def _kind(group: str, version: str, view: type[Object], short: str = "", **options: Unpack[_Options]) -> Kind:
    """Return a kind with the name of its view; ``short`` is a space-separated list of short names."""
    name = view.__name__
    options.setdefault("plural", f"{name.lower()}s")
    return Kind(group, version, name, singular=name.lower(), short_names=tuple(short.split()), view=view, **options)


# ── core/v1 ─────────────────────────────────────────────────────────────────────────────────────────────────────

BINDING = _core(core.Binding, verbs=_CREATE_ONLY)
COMPONENTSTATUS = _core(core.ComponentStatus, "cs", plural="componentstatuses", namespaced=False, verbs=_READ_ONLY)
CONFIGMAP = _core(core.ConfigMap, "cm")
ENDPOINTS = _core(core.Endpoints, "ep", plural="endpoints")
EVENT = _core(core.Event, "ev")
LIMITRANGE = _core(core.LimitRange, "limits")
NAMESPACE = _core(
    core.Namespace,
    "ns",
    namespaced=False,
    has_status=True,
    subresources=("finalize",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)
NODE = _core(core.Node, "no", namespaced=False, has_status=True)
PERSISTENTVOLUMECLAIM = _core(core.PersistentVolumeClaim, "pvc", has_status=True)
PERSISTENTVOLUME = _core(core.PersistentVolume, "pv", namespaced=False, has_status=True)
POD = _core(
    core.Pod,
    "po",
    categories=_ALL,
    has_status=True,
    subresources=(
        *("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"),
    ),
)
PODTEMPLATE = _core(core.PodTemplate)
REPLICATIONCONTROLLER = _core(core.ReplicationController, "rc", categories=_ALL, has_status=True, scale_paths=_SCALE)
RESOURCEQUOTA = _core(core.ResourceQuota, "quota", has_status=True)
SECRET = _core(core.Secret)
SERVICEACCOUNT = _core(core.ServiceAccount, "sa", subresources=("token",))
SERVICE = _core(core.Service, "svc", categories=_ALL, has_status=True, subresources=("proxy",))

# ── apps/v1, batch/v1, autoscaling/v2, policy/v1 ────────────────────────────────────────────────────────────────

CONTROLLERREVISION = _kind("apps", "v1", apps.ControllerRevision)
DAEMONSET = _kind("apps", "v1", apps.DaemonSet, "ds", categories=_ALL, has_status=True)
DEPLOYMENT = _kind("apps", "v1", apps.Deployment, "deploy", categories=_ALL, has_status=True, scale_paths=_SCALE)
REPLICASET = _kind("apps", "v1", apps.ReplicaSet, "rs", categories=_ALL, has_status=True, scale_paths=_SCALE)
STATEFULSET = _kind("apps", "v1", apps.StatefulSet, "sts", categories=_ALL, has_status=True, scale_paths=_SCALE)
JOB = _kind("batch", "v1", batch.Job, categories=_ALL, has_status=True)
CRONJOB = _kind("batch", "v1", batch.CronJob, "cj", categories=_ALL, has_status=True)
HORIZONTALPODAUTOSCALER = _kind(
    "autoscaling", "v2", autoscaling.HorizontalPodAutoscaler, "hpa", categories=_ALL, has_status=True
)
HORIZONTALPODAUTOSCALER_V1 = _kind(
    "autoscaling", "v1", unread.HorizontalPodAutoscaler, "hpa", categories=_ALL, has_status=True
)
RUNTIMECLASS = _kind("node.k8s.io", "v1", unread.RuntimeClass, plural="runtimeclasses", namespaced=False)
PODDISRUPTIONBUDGET = _kind("policy", "v1", policy.PodDisruptionBudget, "pdb", has_status=True)

# ── scheduling, coordination, events, discovery, networking, storage ────────────────────────────────────────────

PRIORITYCLASS = _kind(
    "scheduling.k8s.io", "v1", scheduling.PriorityClass, "pc", plural="priorityclasses", namespaced=False
)
FLOWSCHEMA = _kind("flowcontrol.apiserver.k8s.io", "v1", unread.FlowSchema, namespaced=False, has_status=True)
PRIORITYLEVELCONFIGURATION = _kind(
    "flowcontrol.apiserver.k8s.io", "v1", unread.PriorityLevelConfiguration, namespaced=False, has_status=True
)
LEASE = _kind("coordination.k8s.io", "v1", coordination.Lease)
EVENTS_EVENT = _kind("events.k8s.io", "v1", unread.Event, "ev")
ENDPOINTSLICE = _kind("discovery.k8s.io", "v1", discovery.EndpointSlice)
IPADDRESS = _kind("networking.k8s.io", "v1", unread.IPAddress, "ip", plural="ipaddresses", namespaced=False)
SERVICECIDR = _kind("networking.k8s.io", "v1", unread.ServiceCIDR, namespaced=False, has_status=True)
NETWORKPOLICY = _kind("networking.k8s.io", "v1", unread.NetworkPolicy, "netpol", plural="networkpolicies")
INGRESS = _kind("networking.k8s.io", "v1", unread.Ingress, "ing", plural="ingresses", has_status=True)
INGRESSCLASS = _kind("networking.k8s.io", "v1", unread.IngressClass, plural="ingressclasses", namespaced=False)
VOLUMEATTRIBUTESCLASS = _kind(
    "storage.k8s.io", "v1", unread.VolumeAttributesClass, "vac", plural="volumeattributesclasses", namespaced=False
)
STORAGECLASS = _kind("storage.k8s.io", "v1", storage.StorageClass, "sc", plural="storageclasses", namespaced=False)
CSINODE = _kind("storage.k8s.io", "v1", storage.CSINode, namespaced=False)
CSIDRIVER = _kind("storage.k8s.io", "v1", storage.CSIDriver, namespaced=False)
CSISTORAGECAPACITY = _kind("storage.k8s.io", "v1", storage.CSIStorageCapacity, plural="csistoragecapacities")
VOLUMEATTACHMENT = _kind("storage.k8s.io", "v1", storage.VolumeAttachment, namespaced=False, has_status=True)

# ── metrics.k8s.io: computed when it is asked for ───────────────────────────────────────────────────────────────

NODEMETRICS = _kind(
    "metrics.k8s.io", "v1beta1", metrics.NodeMetrics, plural="nodes", namespaced=False, verbs=_READ_ONLY
)
PODMETRICS = _kind("metrics.k8s.io", "v1beta1", metrics.PodMetrics, plural="pods", verbs=_READ_ONLY)

# ── dynamic resource allocation ─────────────────────────────────────────────────────────────────────────────────

DEVICECLASS = _kind("resource.k8s.io", "v1", resource.DeviceClass, plural="deviceclasses", namespaced=False)
RESOURCECLAIM = _kind("resource.k8s.io", "v1", resource.ResourceClaim, has_status=True)
RESOURCECLAIMTEMPLATE = _kind("resource.k8s.io", "v1", resource.ResourceClaimTemplate)
RESOURCESLICE = _kind("resource.k8s.io", "v1", resource.ResourceSlice, namespaced=False)

# ── access control and extension ────────────────────────────────────────────────────────────────────────────────

_RBAC = "rbac.authorization.k8s.io"
ROLE = _kind(_RBAC, "v1", unread.Role)
ROLEBINDING = _kind(_RBAC, "v1", unread.RoleBinding)
CLUSTERROLE = _kind(_RBAC, "v1", unread.ClusterRole, namespaced=False)
CLUSTERROLEBINDING = _kind(_RBAC, "v1", unread.ClusterRoleBinding, namespaced=False)
_REVIEWS = "authorization.k8s.io"
TOKENREVIEW = _kind("authentication.k8s.io", "v1", unread.TokenReview, namespaced=False, verbs=_CREATE_ONLY)
SELFSUBJECTREVIEW = _kind("authentication.k8s.io", "v1", unread.SelfSubjectReview, namespaced=False, verbs=_CREATE_ONLY)
SUBJECTACCESSREVIEW = _kind(_REVIEWS, "v1", unread.SubjectAccessReview, namespaced=False, verbs=_CREATE_ONLY)
SELFSUBJECTACCESSREVIEW = _kind(_REVIEWS, "v1", unread.SelfSubjectAccessReview, namespaced=False, verbs=_CREATE_ONLY)
LOCALSUBJECTACCESSREVIEW = _kind(_REVIEWS, "v1", unread.LocalSubjectAccessReview, verbs=_CREATE_ONLY)
SELFSUBJECTRULESREVIEW = _kind(_REVIEWS, "v1", unread.SelfSubjectRulesReview, namespaced=False, verbs=_CREATE_ONLY)
CUSTOMRESOURCEDEFINITION = _kind(
    "apiextensions.k8s.io",
    "v1",
    apiextensions.CustomResourceDefinition,
    "crd crds",
    namespaced=False,
    categories=_EXTENSIONS,
    has_status=True,
)
APISERVICE = _kind(
    "apiregistration.k8s.io", "v1", unread.APIService, namespaced=False, categories=_EXTENSIONS, has_status=True
)
CERTIFICATESIGNINGREQUEST = _kind(
    "certificates.k8s.io",
    "v1",
    certificates.CertificateSigningRequest,
    "csr",
    namespaced=False,
    has_status=True,
    subresources=("approval",),
)
_ADMISSION = "admissionregistration.k8s.io"
MUTATINGWEBHOOKCONFIGURATION = _kind(
    _ADMISSION, "v1", unread.MutatingWebhookConfiguration, namespaced=False, categories=_EXTENSIONS
)
MUTATINGADMISSIONPOLICY = _kind(
    _ADMISSION,
    "v1",
    unread.MutatingAdmissionPolicy,
    plural="mutatingadmissionpolicies",
    namespaced=False,
    categories=_EXTENSIONS,
)
MUTATINGADMISSIONPOLICYBINDING = _kind(
    _ADMISSION, "v1", unread.MutatingAdmissionPolicyBinding, namespaced=False, categories=_EXTENSIONS
)
VALIDATINGWEBHOOKCONFIGURATION = _kind(
    _ADMISSION, "v1", unread.ValidatingWebhookConfiguration, namespaced=False, categories=_EXTENSIONS
)
VALIDATINGADMISSIONPOLICY = _kind(
    _ADMISSION,
    "v1",
    unread.ValidatingAdmissionPolicy,
    plural="validatingadmissionpolicies",
    namespaced=False,
    categories=_EXTENSIONS,
    has_status=True,
)
VALIDATINGADMISSIONPOLICYBINDING = _kind(
    _ADMISSION, "v1", unread.ValidatingAdmissionPolicyBinding, namespaced=False, categories=_EXTENSIONS
)

# ── Volcano ─────────────────────────────────────────────────────────────────────────────────────────────────────

VCJOB = _kind(
    "batch.volcano.sh",
    "v1alpha1",
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
VCCRONJOB = _kind("batch.volcano.sh", "v1alpha1", vcbatch.CronJob, "cronvcjob cronvj", has_status=True)
PODGROUP = _kind(
    "scheduling.volcano.sh",
    "v1beta1",
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
    vcscheduling.Queue,
    "q queue-v1beta1",
    namespaced=False,
    has_status=True,
    columns=(Column("PARENT", ".spec.parent"),),
)
COMMAND = _kind("bus.volcano.sh", "v1alpha1", bus.Command)
JOBFLOW = _kind(
    "flow.volcano.sh",
    "v1alpha1",
    flow.JobFlow,
    "jf",
    has_status=True,
    columns=(Column("Status", ".status.state.phase"), _AGE),
)
JOBTEMPLATE = _kind("flow.volcano.sh", "v1alpha1", flow.JobTemplate, "jt", has_status=True)
NUMATOPOLOGY = _kind(
    "nodeinfo.volcano.sh", "v1alpha1", nodeinfo.Numatopology, "numatopo", plural="numatopologies", namespaced=False
)
HYPERNODE = _kind(
    "topology.volcano.sh",
    "v1alpha1",
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
    shard.NodeShard,
    "nsh",
    namespaced=False,
    has_status=True,
    columns=(Column("AGE", ".metadata.creationTimestamp", "date"),),
)
COLOCATIONCONFIGURATION = _kind("config.volcano.sh", "v1alpha1", config.ColocationConfiguration, has_status=True)

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
"""Volcano's kinds, which come as CRDs. HyperJob and the data kinds are not served (spec 1)."""

# ── kubeflow.org ────────────────────────────────────────────────────────────────────────────────────────────────

_STATE = (Column("State", ".status.conditions[-1:].type"), _AGE)


def _training(view: type[Object], replica_map: str = "", columns: tuple[Column, ...] = _STATE) -> Kind:
    """Return a kind of training job; with the name of its map of replicas its workers can be scaled."""
    worker = ".status.replicaStatuses.Worker"
    paths = (f".spec.{replica_map}.Worker.replicas", f"{worker}.active", f"{worker}.selector")
    scale = paths if replica_map else None
    return _kind("kubeflow.org", "v1", view, has_status=True, columns=columns, scale_paths=scale)


TFJOB = _training(kubeflow.TFJob)
PYTORCHJOB = _training(kubeflow.PyTorchJob, "pytorchReplicaSpecs")
XGBOOSTJOB = _training(kubeflow.XGBoostJob)
PADDLEJOB = _training(kubeflow.PaddleJob, "paddleReplicaSpecs")
JAXJOB = _training(kubeflow.JAXJob, "jaxReplicaSpecs")
MPIJOB_V1 = _training(kubeflow.MPIJob, columns=_STATE[::-1])
MPIJOB = _kind("kubeflow.org", "v2beta1", mpioperator.MPIJob, has_status=True)
TRAINING: tuple[Kind, ...] = (TFJOB, PYTORCHJOB, XGBOOSTJOB, PADDLEJOB, JAXJOB, MPIJOB_V1, MPIJOB)
"""Kubeflow's training jobs."""

TRAINJOB, TRAININGRUNTIME, CLUSTERTRAININGRUNTIME = trainer.KINDS
VERTICALPODAUTOSCALER, VERTICALPODAUTOSCALERCHECKPOINT = verticalautoscaling.KINDS
CUSTOM: tuple[Kind, ...] = VOLCANO + TRAINING + trainer.KINDS + verticalautoscaling.KINDS
"""Kinds for which Strato has CustomResourceDefinitions."""

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
    MUTATINGADMISSIONPOLICY,
    MUTATINGADMISSIONPOLICYBINDING,
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
    HORIZONTALPODAUTOSCALER_V1,
    HORIZONTALPODAUTOSCALER,
    CRONJOB,
    JOB,
    CERTIFICATESIGNINGREQUEST,
    LEASE,
    ENDPOINTSLICE,
    EVENTS_EVENT,
    FLOWSCHEMA,
    PRIORITYLEVELCONFIGURATION,
    NODEMETRICS,
    PODMETRICS,
    INGRESSCLASS,
    INGRESS,
    IPADDRESS,
    NETWORKPOLICY,
    SERVICECIDR,
    RUNTIMECLASS,
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
    VOLUMEATTRIBUTESCLASS,
)
"""Kinds that the API server itself serves, in the order in which a real one lists them."""

_BY_VIEW = {kind.view: kind for kind in BUILTIN + CUSTOM}
_BY_RESOURCE = {(kind.group, kind.version, kind.plural): kind for kind in BUILTIN + CUSTOM}
_BY_NAME = {(kind.api_version, kind.name): kind for kind in BUILTIN + CUSTOM}


def kind_of(view: type[Object]) -> Kind:
    """Return the kind that a view class reads.

    Raises:
        KeyError: The class is not the view of any kind.
    """
    if view not in _BY_VIEW and issubclass(view, apiextensions.CustomObject):
        return view.kind_read
    return _BY_VIEW[view]


def find(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a resource, or None."""
    return _BY_RESOURCE.get((group, version, plural))


def find_named(api_version: str, name: str) -> Kind | None:
    """Return the kind called ``name`` (``Pod``) in a group version (``v1``, ``apps/v1``), or None."""
    return _BY_NAME.get((api_version, name))
