"""RBAC rules of each component; the end-to-end tests run the components under exactly these roles."""

from __future__ import annotations

from collections.abc import Sequence

from strato.api.meta import Json

_RBAC = "rbac.authorization.k8s.io"
_TRAINER = "trainer.kubeflow.org"
_READ = ("get", "list", "watch")
_CRUD = ("get", "create", "patch", "update", "delete")


def _rule(verbs: Sequence[str], group: str, *resources: str, names: Sequence[str] = ()) -> Json:
    rule: Json = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


def scheduler_rules() -> list[Json]:
    """Reads the objects that decisions depend on; writes bindings, conditions and claims; evicts pods."""
    from strato.scheduler.cache.kinds import KINDS

    reads: dict[str, list[str]] = {}
    for known in KINDS:
        reads.setdefault(known.kind.group, []).append(known.kind.plural)
    return [
        *(_rule(_READ, group, *sorted(plurals)) for group, plurals in sorted(reads.items())),
        _rule(("create", "patch"), "", "events"),
        _rule(("create",), "", "pods/binding"),
        _rule(("patch", "delete"), "", "pods"),
        _rule(("patch",), "", "pods/status", "persistentvolumes", "persistentvolumeclaims"),
        # Kubernetes 1.36 asks for the right to bind a claim beside that to write its status
        _rule(("patch",), "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaims/binding"),
        _rule(("patch",), "scheduling.volcano.sh", "podgroups", "podgroups/status", "queues/status"),
        # creates queues root and default when missing; plugins keep state in annotations
        _rule(("create", "patch"), "scheduling.volcano.sh", "queues"),
        _rule(("patch",), "shard.volcano.sh", "nodeshards/status"),
    ]


def controller_rules() -> list[Json]:
    """Writes Volcano's kinds and creates what jobs need: pods, services, secrets, config maps, claims, policies."""
    from strato.api import catalog

    training = list(dict.fromkeys(kind.plural for kind in catalog.TRAINING))
    return [
        _rule((*_READ, "create", "patch", "update", "delete"), "batch.volcano.sh", "jobs", "cronjobs"),
        _rule(("patch", "update"), "batch.volcano.sh", "jobs/status", "cronjobs/status"),
        # clusters may require this for blockOwnerDeletion in owner references
        _rule(("update",), "batch.volcano.sh", "jobs/finalizers", "cronjobs/finalizers"),
        _rule((*_READ, "create", "delete"), "bus.volcano.sh", "commands"),  # by which controllers end jobs
        _rule(_READ, "config.volcano.sh", "colocationconfigurations"),
        _rule((*_READ, "patch", "update"), "flow.volcano.sh", "jobflows", "jobtemplates"),
        _rule(("patch", "update"), "flow.volcano.sh", "jobflows/status", "jobtemplates/status"),
        _rule(("update",), "flow.volcano.sh", "jobflows/finalizers"),
        _rule((*_READ, "delete"), "kubeflow.org", *training),
        _rule(("patch",), "kubeflow.org", *(f"{kind}/status" for kind in training)),
        _rule(("update",), "kubeflow.org", *(f"{kind}/finalizers" for kind in training)),
        _rule((*_READ, "patch"), _TRAINER, "trainjobs"),
        _rule(("patch",), _TRAINER, "trainjobs/status"),
        _rule(("update",), _TRAINER, "trainjobs/finalizers"),
        _rule(("get",), _TRAINER, "trainingruntimes", "clustertrainingruntimes"),
        _rule((*_READ, "create", "patch", "update", "delete"), "scheduling.volcano.sh", "podgroups"),
        _rule((*_READ, "patch", "update"), "scheduling.volcano.sh", "queues"),
        _rule(("patch", "update"), "scheduling.volcano.sh", "podgroups/status", "queues/status"),
        _rule((*_READ, "create", "patch", "delete"), "shard.volcano.sh", "nodeshards"),
        _rule((*_READ, "create", "patch", "delete"), "topology.volcano.sh", "hypernodes"),
        _rule(("patch",), "topology.volcano.sh", "hypernodes/status"),
        _rule(_READ, "autoscaling.k8s.io", "verticalpodautoscalers"),
        _rule(("patch",), "autoscaling.k8s.io", "verticalpodautoscalers/status"),
        _rule((*_READ, "create", "patch"), "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
        _rule(("get", "create", "patch", "delete"), "autoscaling", "horizontalpodautoscalers"),  # elastic trainings
        _rule(("list",), "metrics.k8s.io", "pods", "nodes"),
        _rule((*_READ, "create", "patch", "delete"), "", "pods"),
        _rule(("patch",), "", "pods/resize"),  # pods resized in place by a VerticalPodAutoscaler
        _rule(("patch",), "", "pods/status"),
        _rule(_CRUD, "", "services", "configmaps", "secrets"),
        _rule(("list", "watch"), "", "services"),
        _rule(("get", "create"), "", "persistentvolumeclaims"),
        _rule((*_READ, "patch"), "", "nodes"),  # annotations with the cpu overcommit ratio
        _rule(("patch",), "", "nodes/status"),
        _rule(("create", "patch"), "", "events"),
        _rule(_CRUD, "networking.k8s.io", "networkpolicies"),
        _rule(_READ, "scheduling.k8s.io", "priorityclasses"),
        _rule(_READ, "apps", "replicasets", "statefulsets"),
        # owners whose annotations pod groups inherit
        _rule(("get",), "apps", "deployments", "daemonsets"),
        _rule(("list",), "apps", "deployments"),  # Kubeflow's own operator, beside which training jobs are left alone
        # those that launch MPI jobs, and those of TrainJobs
        _rule((*_READ, "create", "patch", "delete"), "batch", "jobs"),
        # an MPIJob v1 starts ranks by exec into its workers; Kubernetes lets only a holder of that right grant it
        _rule(("get", "create"), "", "pods/exec"),
        _rule(("get", "create"), "", "serviceaccounts"),
        _rule(("get", "create", "patch"), _RBAC, "roles", "rolebindings"),
    ]


def agent_rules() -> list[Json]:
    """Reads pods and nodes; annotates, resizes and evicts pods; cordons its node and reports on it."""
    return [
        _rule((*_READ, "patch"), "", "pods"),
        _rule(("patch",), "", "pods/resize"),
        _rule(("create",), "", "pods/eviction"),
        _rule((*_READ, "patch"), "", "nodes"),
        _rule(("patch",), "", "nodes/status"),
        _rule(("create", "patch"), "", "events"),
    ]


def mesos_rules() -> list[Json]:
    """Reads nodes and pods to compute offers; reserves resources on nodes; creates the queues of roles."""
    return [
        _rule(_READ, "", "pods", "nodes"),
        _rule(("patch",), "", "nodes"),
        _rule(("get", "create"), "scheduling.volcano.sh", "queues"),
    ]


def mesos_task_rules() -> list[Json]:
    """Runs tasks in the namespace of tasks, where the Mesos master also keeps frameworks and its lease."""
    return [
        _rule(("get", "create", "patch", "delete"), "", "pods"),
        _rule(("get",), "", "pods/log"),
        _rule((*_READ, "create", "patch", "delete"), "", "configmaps"),
        _rule(("get", "create", "delete"), "scheduling.volcano.sh", "podgroups"),
        *lease_rules(),
        _rule(("create", "patch"), "", "events"),
    ]


def webhook_rules(names: Sequence[str]) -> list[Json]:
    """Looks at queues, namespaces and autoscalers, and writes its address into its own configurations alone."""
    from strato.admission import queueacls

    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    submitted: dict[str, list[str]] = {}
    for kind in queueacls.KINDS:
        submitted.setdefault(kind.group, []).append(kind.plural)
    return [
        _rule(("list",), "scheduling.volcano.sh", "queues"),
        _rule(("list", "watch"), "scheduling.volcano.sh", "podgroups"),  # counted for YARN's limits
        _rule(("get",), "", "namespaces"),
        _rule(("list",), "autoscaling.k8s.io", "verticalpodautoscalers"),
        _rule(("get",), _TRAINER, "trainingruntimes", "clustertrainingruntimes"),
        _rule(("list",), "", "limitranges"),
        # reads the submitters of changed objects' owners, for access lists of queues
        *(_rule(("get",), group, *sorted(set(plurals))) for group, plurals in sorted(submitted.items())),
        _rule(("get", "patch"), "admissionregistration.k8s.io", *kinds, names=names),
    ]


def lease_rules() -> list[Json]:
    """Return the rules that leader election needs in the namespace of the lease."""
    return [_rule(("get", "create", "update"), "coordination.k8s.io", "leases")]


def findings_rules() -> list[Json]:
    """Return the rules for publishing configuration, a shadow's findings and predicted starts in Strato's namespace."""
    return [_rule((*_READ, "create", "patch"), "", "configmaps")]


def controller_config_rules() -> list[Json]:
    """Return the rules for the HyperNode and sharding controllers' configuration in Strato's namespace."""
    return [_rule(_READ, "", "configmaps")]


def agent_config_rules() -> list[Json]:
    """Return the rules for the agents' ConfigMaps; agents create Volcano's if it is missing, and complete it."""
    from strato.agent.volcano.config import CONFIGMAP

    return [_rule((*_READ, "create"), "", "configmaps"), _rule(("patch",), "", "configmaps", names=[CONFIGMAP])]


def webhook_secret_rules(secret: str) -> list[Json]:
    """Return the rules for the certificates' Secret in Strato's namespace; RBAC cannot limit ``create`` to a name."""
    return [_rule(("get", "update"), "", "secrets", names=[secret]), _rule(("create",), "", "secrets")]


def user_roles() -> list[Json]:
    """Return roles that give users of the cluster's ``view``, ``edit`` and ``admin`` roles our kinds too."""
    from strato.api import catalog

    training = list(dict.fromkeys(kind.plural for kind in catalog.TRAINING))
    groups = ["autoscaling.k8s.io", "batch.volcano.sh", "flow.volcano.sh", "kubeflow.org", _TRAINER]
    edits = ["create", "delete", "deletecollection", "patch", "update"]
    viewer = [
        {"apiGroups": groups, "resources": ["*"], "verbs": list(_READ)},
        _rule(_READ, "scheduling.volcano.sh", "podgroups"),
    ]
    editor = [
        {"apiGroups": groups, "resources": ["jobs", "cronjobs", "jobflows", "jobtemplates"], "verbs": edits},
        _rule(edits, "kubeflow.org", *training),
        _rule(edits, "autoscaling.k8s.io", "verticalpodautoscalers"),
        _rule(edits, _TRAINER, "trainjobs", "trainingruntimes"),
        _rule(("patch", "update"), "kubeflow.org", *(f"{kind}/scale" for kind in training)),
        _rule(edits, "scheduling.volcano.sh", "podgroups"),
        _rule(("create", "delete"), "bus.volcano.sh", "commands"),
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
