"""What each component may do in a cluster, and no more; the end-to-end tests run them under exactly these roles."""

from __future__ import annotations

from collections.abc import Sequence

from strato.api.meta import Json

_RBAC = "rbac.authorization.k8s.io"
_TRAINER = "trainer.kubeflow.org"
_READ = ("get", "list", "watch")
_CRUD = ("get", "create", "patch", "update", "delete")


def rule(verbs: Sequence[str], group: str, *resources: str, names: Sequence[str] = ()) -> Json:
    """Return a rule of a role: what may be done to which resources of a group, or to those of these names."""
    allowed: Json = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        allowed["resourceNames"] = list(names)
    return allowed


def scheduler_rules() -> list[Json]:
    """Reads what decisions rest on; writes bindings, conditions and claims; evicts pods."""
    from strato.scheduler.cache.kinds import KINDS

    reads: dict[str, list[str]] = {}
    for known in KINDS:
        reads.setdefault(known.kind.group, []).append(known.kind.plural)
    return [
        *(rule(_READ, group, *sorted(plurals)) for group, plurals in sorted(reads.items())),
        rule(("create", "patch"), "", "events"),
        rule(("create",), "", "pods/binding"),
        rule(("patch", "delete"), "", "pods"),
        rule(("patch",), "", "pods/status", "persistentvolumes", "persistentvolumeclaims"),
        # Kubernetes 1.36 asks for the right to bind a claim beside that to write its status
        rule(("patch",), "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaims/binding"),
        rule(("patch",), "scheduling.volcano.sh", "podgroups", "podgroups/status", "queues/status"),
        rule(("create",), "scheduling.volcano.sh", "queues"),  # root and default, when they are missing
        rule(("patch",), "shard.volcano.sh", "nodeshards/status"),
    ]


def controller_rules() -> list[Json]:
    """Owns Volcano's kinds and makes what jobs need: pods, services, their keys and hosts, claims, policies."""
    from strato.api import catalog

    training = list(dict.fromkeys(kind.plural for kind in catalog.TRAINING))
    return [
        rule((*_READ, "create", "patch", "update", "delete"), "batch.volcano.sh", "jobs", "cronjobs"),
        rule(("patch", "update"), "batch.volcano.sh", "jobs/status", "cronjobs/status"),
        # blockOwnerDeletion of what jobs own, where a cluster checks it
        rule(("update",), "batch.volcano.sh", "jobs/finalizers", "cronjobs/finalizers"),
        rule((*_READ, "delete"), "bus.volcano.sh", "commands"),
        rule(_READ, "config.volcano.sh", "colocationconfigurations"),
        rule((*_READ, "patch", "update"), "flow.volcano.sh", "jobflows", "jobtemplates"),
        rule(("patch", "update"), "flow.volcano.sh", "jobflows/status", "jobtemplates/status"),
        rule(("update",), "flow.volcano.sh", "jobflows/finalizers"),
        rule((*_READ, "delete"), "kubeflow.org", *training),
        rule(("patch",), "kubeflow.org", *(f"{kind}/status" for kind in training)),
        rule(("update",), "kubeflow.org", *(f"{kind}/finalizers" for kind in training)),
        rule((*_READ, "patch"), _TRAINER, "trainjobs"),
        rule(("patch",), _TRAINER, "trainjobs/status"),
        rule(("update",), _TRAINER, "trainjobs/finalizers"),
        rule(("get",), _TRAINER, "trainingruntimes", "clustertrainingruntimes"),
        rule((*_READ, "create", "patch", "update", "delete"), "scheduling.volcano.sh", "podgroups"),
        rule((*_READ, "patch", "update"), "scheduling.volcano.sh", "queues"),
        rule(("patch", "update"), "scheduling.volcano.sh", "podgroups/status", "queues/status"),
        rule((*_READ, "create", "patch", "delete"), "shard.volcano.sh", "nodeshards"),
        rule((*_READ, "create", "patch", "delete"), "topology.volcano.sh", "hypernodes"),
        rule(("patch",), "topology.volcano.sh", "hypernodes/status"),
        rule(_READ, "autoscaling.k8s.io", "verticalpodautoscalers"),
        rule(("patch",), "autoscaling.k8s.io", "verticalpodautoscalers/status"),
        rule((*_READ, "create", "patch"), "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
        rule(("get", "create", "patch", "delete"), "autoscaling", "horizontalpodautoscalers"),  # of elastic trainings
        rule(("list",), "metrics.k8s.io", "pods", "nodes"),
        rule((*_READ, "create", "patch", "delete"), "", "pods"),
        rule(("patch",), "", "pods/resize"),  # of pods whose vertical autoscaler says so
        rule(("patch",), "", "pods/status"),
        rule(_CRUD, "", "services", "configmaps", "secrets"),
        rule(("list", "watch"), "", "services"),
        rule(("get", "create"), "", "persistentvolumeclaims"),
        rule((*_READ, "patch"), "", "nodes"),  # ratios of cpu overcommit
        rule(("patch",), "", "nodes/status"),
        rule(("create", "patch"), "", "events"),
        rule(_CRUD, "networking.k8s.io", "networkpolicies"),
        rule(_READ, "scheduling.k8s.io", "priorityclasses"),
        rule(_READ, "apps", "replicasets", "statefulsets"),
        # owners whose annotations pod groups inherit
        rule(("get",), "apps", "deployments", "daemonsets"),
        rule(("list",), "apps", "deployments"),  # Kubeflow's own operator, beside which training jobs are left alone
        # those that launch MPI jobs, and those of TrainJobs
        rule((*_READ, "create", "patch", "delete"), "batch", "jobs"),
        # an MPI job of v1 starts ranks by commands in its workers; who grants that right has to have it
        rule(("get", "create"), "", "pods/exec"),
        rule(("get", "create"), "", "serviceaccounts"),
        rule(("get", "create", "patch"), _RBAC, "roles", "rolebindings"),
    ]


def agent_rules() -> list[Json]:
    """Reads pods and nodes; annotates, resizes and evicts pods; cordons its node and reports on it."""
    return [
        rule((*_READ, "patch"), "", "pods"),
        rule(("patch",), "", "pods/resize"),
        rule(("create",), "", "pods/eviction"),
        rule((*_READ, "patch"), "", "nodes"),
        rule(("patch",), "", "nodes/status"),
        rule(("create", "patch"), "", "events"),
    ]


def webhook_rules(names: Sequence[str]) -> list[Json]:
    """Looks at queues, namespaces and autoscalers, and writes its address into its own configurations alone."""
    from strato.admission import queueacls

    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    submitted: dict[str, list[str]] = {}
    for kind in queueacls.KINDS:
        submitted.setdefault(kind.group, []).append(kind.plural)
    return [
        rule(("list",), "scheduling.volcano.sh", "queues"),
        rule(("get",), "", "namespaces"),
        rule(("list",), "autoscaling.k8s.io", "verticalpodautoscalers"),
        rule(("get",), _TRAINER, "trainingruntimes", "clustertrainingruntimes"),
        rule(("list",), "", "limitranges"),
        # who submitted the owners of what is changed, where queues have access lists
        *(rule(("get",), group, *sorted(set(plurals))) for group, plurals in sorted(submitted.items())),
        rule(("get", "patch"), "admissionregistration.k8s.io", *kinds, names=names),
    ]


def lease_rules() -> list[Json]:
    """Return what leader election needs in our own namespace."""
    return [rule(("get", "create", "update"), "coordination.k8s.io", "leases")]


def controller_config_rules() -> list[Json]:
    """Return what the HyperNode and sharding controllers read in our own namespace."""
    return [rule(_READ, "", "configmaps")]


def agent_config_rules() -> list[Json]:
    """Return what the agents need of their configurations: Volcano's is made where it is missing, and completed."""
    from strato.agent.volcano.config import CONFIGMAP

    return [rule((*_READ, "create"), "", "configmaps"), rule(("patch",), "", "configmaps", names=[CONFIGMAP])]


def webhook_secret_rules(secret: str) -> list[Json]:
    """Return what keeping the certificates needs in our own namespace; a name cannot bound what is created."""
    return [rule(("get", "update"), "", "secrets", names=[secret]), rule(("create",), "", "secrets")]


def user_roles() -> list[Json]:
    """Return roles that give users of the cluster's ``view``, ``edit`` and ``admin`` roles our kinds too."""
    from strato.api import catalog

    training = list(dict.fromkeys(kind.plural for kind in catalog.TRAINING))
    groups = ["autoscaling.k8s.io", "batch.volcano.sh", "flow.volcano.sh", "kubeflow.org", _TRAINER]
    edits = ["create", "delete", "deletecollection", "patch", "update"]
    viewer = [
        {"apiGroups": groups, "resources": ["*"], "verbs": list(_READ)},
        rule(_READ, "scheduling.volcano.sh", "podgroups"),
    ]
    editor = [
        {"apiGroups": groups, "resources": ["jobs", "cronjobs", "jobflows", "jobtemplates"], "verbs": edits},
        rule(edits, "kubeflow.org", *training),
        rule(edits, "autoscaling.k8s.io", "verticalpodautoscalers"),
        rule(edits, _TRAINER, "trainjobs", "trainingruntimes"),
        rule(("patch", "update"), "kubeflow.org", *(f"{kind}/scale" for kind in training)),
        rule(edits, "scheduling.volcano.sh", "podgroups"),
        rule(("create", "delete"), "bus.volcano.sh", "commands"),
    ]
    return [
        role("vcjob-viewer-role", viewer, {f"{_RBAC}/aggregate-to-{to}": "true" for to in ("view", "edit", "admin")}),
        role("vcjob-editor-role", editor, {f"{_RBAC}/aggregate-to-{to}": "true" for to in ("edit", "admin")}),
    ]


def role(name: str, rules: Sequence[Json], labels: dict[str, str] | None = None, *, namespace: str = "") -> Json:
    """Return a ClusterRole, or a Role when a namespace is given."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def binding(name: str, account: str, account_namespace: str, *, namespace: str = "") -> Json:
    """Bind the role of the same name to a service account."""
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }
