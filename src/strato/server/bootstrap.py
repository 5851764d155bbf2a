"""The objects a new cluster starts with (roles, the default storage class), and the identities of its own components.

The user-facing roles are Kubernetes' (admin and edit aggregate by label, so that roles for custom resources join
them); each component has a role with what it needs and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from strato.api import certificates
from strato.api.claims import LOCAL_PROVISIONER
from strato.api.meta import Json
from strato.api.wire import User


def node(name: str) -> User:
    """Return the identity of a node; `strato.server.auth.nodes` decides on its rights."""
    return User(f"system:node:{name}", ("system:nodes", AUTHENTICATED))


AUTHENTICATED = "system:authenticated"
"""The group of all authenticated users."""

ADMIN = User("strato:admin", ("system:masters", AUTHENTICATED))
VIEWER = User("strato:view", (AUTHENTICATED,))
SCHEDULER = User("strato:scheduler", (AUTHENTICATED,))
CONTROLLERS = User("strato:controllers", (AUTHENTICATED,))
HOLLOW_NODES = User("strato:hollow-nodes", (AUTHENTICATED,))
"""One identity for all hollow nodes; they run nothing, so it has no right to pods' secrets and volumes."""
WEBHOOK = User("strato:webhook", (AUTHENTICATED,))
IDENTITIES: tuple[User, ...] = (ADMIN, VIEWER, SCHEDULER, CONTROLLERS, HOLLOW_NODES, WEBHOOK)

ISSUER_PATHS = ("/.well-known/openid-configuration", "/openid/v1/jwks")
"""Paths of the OpenID metadata and the keys of the issuer of service account tokens."""
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_ALL = (*_READ, *_WRITE)
_CHANGE = ("patch", "update")
_RBAC = "rbac.authorization.k8s.io"
_VOLCANO = (
    "batch.volcano.sh",
    "bus.volcano.sh",
    "config.volcano.sh",
    "flow.volcano.sh",
    "nodeinfo.volcano.sh",
    "scheduling.volcano.sh",
    "shard.volcano.sh",
    "topology.volcano.sh",
)
_CORE_EDIT = (
    "configmaps",
    "events",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "serviceaccounts",
    "services",
)
_CORE_VIEW = (
    *(name for name in _CORE_EDIT if name != "secrets"),
    "bindings",
    "endpoints",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "persistentvolumeclaims/status",
    "pods/log",
    "pods/status",
    "resourcequotas",
    "resourcequotas/status",
    "services/status",
)


def objects() -> list[Json]:
    """Return every role and binding, ready to be created; new objects in each call, as callers change them."""
    return [*_basic_roles(), *_user_roles(), *_component_roles()]


def default_storage_class() -> Json:
    """Return the default storage class, whose volumes are directories of this machine.

    Volumes are bound immediately rather than after a pod is placed, because every node reaches the directories.
    """
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": LOCAL_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def _rule(verbs: Sequence[str], groups: Sequence[str] | str, resources: Sequence[str] | str) -> Json:
    groups = (groups,) if isinstance(groups, str) else groups
    resources = (resources,) if isinstance(resources, str) else resources
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}


def _scaled(*resources: str) -> tuple[str, ...]:
    """Return the resources and the ``scale`` subresource of each."""
    return tuple(f"{resource}{below}" for resource in resources for below in ("", "/scale"))


def _paths(*paths: str) -> Json:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


def _role(name: str, rules: Sequence[Json], labels: dict[str, str] | None = None, aggregate: str = "") -> Json:
    role: Json = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "rules": list(rules),
    }
    if aggregate:
        selector = {"matchLabels": {f"{_RBAC}/aggregate-to-{aggregate}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _bind(name: str, role: str, *subjects: tuple[str, str]) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": kind, "name": subject} for kind, subject in subjects],
    }


def _basic_roles() -> list[Json]:
    everything = [_rule(("*",), "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    discovery = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/")
    health = ("/healthz", "/livez", "/readyz", "/version", "/version/")
    authenticated, anonymous = ("Group", AUTHENTICATED), ("Group", "system:unauthenticated")
    return [
        _role("cluster-admin", everything),
        _bind("cluster-admin", "cluster-admin", ("Group", "system:masters")),
        _role("system:discovery", [_paths("/healthz", "/livez", "/readyz", *discovery)]),
        _bind("system:discovery", "system:discovery", authenticated),
        _role("system:public-info-viewer", [_paths(*health)]),
        _bind("system:public-info-viewer", "system:public-info-viewer", authenticated, anonymous),
        _role(
            "system:basic-user",
            [
                _rule(("create",), "authorization.k8s.io", reviews),
                _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
            ],
        ),
        _bind("system:basic-user", "system:basic-user", authenticated),
        _role("system:service-account-issuer-discovery", [_paths(*ISSUER_PATHS)]),
        _bind(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            ("Group", "system:serviceaccounts"),
        ),
        _role(
            "system:monitoring",
            [
                _paths(
                    "/metrics",
                    *(f"{path}{below}" for path in ("/healthz", "/livez", "/readyz") for below in ("", "/*")),
                )
            ],
        ),
        _bind("system:monitoring", "system:monitoring", ("Group", "system:monitoring")),
        *_certificate_roles(),
    ]


def _certificate_roles() -> list[Json]:
    """Return the roles for requesting a kubelet's certificate, and for approving requests by signer."""
    group, prefix = "certificates.k8s.io", "system:certificates.k8s.io"
    approvers = [
        _role(f"{prefix}:{name}-approver", [{**_rule(("approve",), group, "signers"), "resourceNames": [signer]}])
        for signer in (certificates.CLIENT, certificates.KUBELET_CLIENT, certificates.KUBELET_SERVING)
        for name in [signer.rpartition("/")[2]]
    ]
    requests = "certificatesigningrequests"
    asking = [
        _role(f"{prefix}:{requests}:{part}", [_rule(("create",), group, f"{requests}/{part}")])
        for part in ("nodeclient", "selfnodeclient")
    ]
    bootstrapper = _rule(("create", "get", "list", "watch"), group, requests)
    return [*approvers, *asking, _role("system:node-bootstrapper", [bootstrapper])]


def _user_roles() -> list[Json]:
    def part(name: str, to: str, *rules: Json) -> Json:
        return _role(name, rules, {f"{_RBAC}/aggregate-to-{to}": "true"})

    workloads = (
        _rule(_READ, "", _CORE_VIEW),
        _rule(_READ, ("apps", "batch", "autoscaling", "policy", "networking.k8s.io"), "*"),
        _rule(_READ, ("discovery.k8s.io", "coordination.k8s.io", "events.k8s.io"), "*"),
        _rule(("get", "list"), "metrics.k8s.io", ("nodes", "pods")),
        _rule(_READ, _VOLCANO, "*"),
    )
    edits = (
        _rule(_ALL, "", _CORE_EDIT),
        _rule(("get", "list", "watch", "create"), "", ("pods/log", "pods/exec", "pods/attach", "pods/portforward")),
        _rule(("create",), "", ("pods/eviction", "serviceaccounts/token")),
        _rule(("get", "patch", "update"), "", "pods/resize"),
        _rule(("impersonate",), "", "serviceaccounts"),
        _rule(_ALL, "events.k8s.io", "events"),
        # no statuses, which only controllers write
        _rule(_ALL, "apps", ("daemonsets", *_scaled("deployments", "replicasets", "statefulsets"))),
        _rule(_ALL, "batch", ("cronjobs", "jobs")),
        _rule(_ALL, "autoscaling", "horizontalpodautoscalers"),
        _rule(_ALL, "policy", "poddisruptionbudgets"),
        _rule(_ALL, "networking.k8s.io", ("ingresses", "networkpolicies")),
        _rule(_ALL, "coordination.k8s.io", "leases"),
        _rule(_ALL, "resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
        _rule(_ALL, "batch.volcano.sh", ("cronjobs", *_scaled("jobs"))),
        _rule(_ALL, "bus.volcano.sh", "commands"),
        _rule(_ALL, "flow.volcano.sh", ("jobflows", "jobtemplates")),
        _rule(_ALL, "scheduling.volcano.sh", "podgroups"),
    )
    admins = (
        _rule(_ALL, _RBAC, ("roles", "rolebindings")),
        _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    )
    member = {f"{_RBAC}/aggregate-to-admin": "true"}
    # the built-in rules are in labelled roles too, so that a user's role needs only the label to join them
    return [
        part("system:aggregate-to-view", "view", *workloads),
        part("system:aggregate-to-edit", "edit", *edits),
        part("system:aggregate-to-admin", "admin", *admins),
        _role("view", (), {f"{_RBAC}/aggregate-to-edit": "true"}, aggregate="view"),
        _role("edit", (), member, aggregate="edit"),
        _role("admin", (), aggregate="admin"),
        _bind("strato:view", "strato:view", ("User", VIEWER.name)),
        _role(
            "strato:view",
            [
                *workloads,
                _rule(_READ, "", ("nodes", "nodes/status", "persistentvolumes")),
                _rule(_READ, ("scheduling.k8s.io", "storage.k8s.io", "apiextensions.k8s.io", "node.k8s.io"), "*"),
            ],
        ),
    ]


def _component_roles() -> list[Json]:
    events = _rule(("create", "patch", "update"), ("", "events.k8s.io"), "events")
    leases = _rule(("get", "list", "watch", "create", "update", "patch"), "coordination.k8s.io", "leases")
    rules: dict[User, list[Json]] = {
        SCHEDULER: [
            events,
            leases,
            _rule((*_READ, "delete", *_CHANGE), "", "pods"),
            _rule(_CHANGE, "", "pods/status"),
            _rule(("create",), "", ("bindings", "pods/binding", "pods/eviction")),
            _rule((*_READ, *_CHANGE), "", ("persistentvolumeclaims", "persistentvolumes")),
            _rule(_CHANGE, "resource.k8s.io", ("resourceclaims", "resourceclaims/status")),
            _rule(
                _READ, "", ("configmaps", "namespaces", "nodes", "replicationcontrollers", "resourcequotas", "services")
            ),
            _rule(_READ, ("apps", "policy", "scheduling.k8s.io", "storage.k8s.io", "resource.k8s.io"), "*"),
            _rule(("create", "patch"), "", "configmaps"),  # the differences of a shadow policy
            _rule(("create",), "", "namespaces"),  # volcano-system, which holds that ConfigMap
            _rule(_READ, _VOLCANO, "*"),
            _rule(("create", "delete", *_CHANGE), "scheduling.volcano.sh", "podgroups"),
            _rule(("create",), "scheduling.volcano.sh", "queues"),  # root and default, if they are missing
            _rule(_CHANGE, "scheduling.volcano.sh", ("podgroups/status", "queues", "queues/status")),
            _rule(_CHANGE, ("nodeinfo.volcano.sh", "shard.volcano.sh", "topology.volcano.sh"), "*"),
        ],
        CONTROLLERS: [
            events,
            leases,
            # garbage collection and namespace deletion concern every kind
            _rule((*_READ, "delete", "deletecollection", *_CHANGE), "*", "*"),
            _rule(
                ("create",),
                "",
                (
                    "configmaps",
                    "endpoints",
                    "namespaces",
                    "persistentvolumeclaims",
                    "persistentvolumes",
                    "pods",
                    "secrets",
                    "serviceaccounts",
                    "services",
                ),
            ),
            _rule(("create",), "", ("pods/eviction", "serviceaccounts/token")),
            # MPIJob v1's launcher runs ranks with pods/exec; a controller can grant only rights that it has
            _rule(("create",), "", "pods/exec"),
            _rule(("create",), _RBAC, ("roles", "rolebindings")),
            _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
            _rule(("approve", "sign"), "certificates.k8s.io", "signers"),
            _rule(
                ("create",),
                ("apps", "autoscaling", "autoscaling.k8s.io", "batch", "discovery.k8s.io", "networking.k8s.io"),
                "*",
            ),
            _rule(("create",), _VOLCANO, "*"),
        ],
        HOLLOW_NODES: [
            events,
            leases,
            _rule((*_READ, "create", *_CHANGE), "", "nodes"),
            _rule(_CHANGE, "", ("nodes/status", "pods/status")),
            _rule((*_READ, "delete"), "", "pods"),
            _rule((*_READ, "create", *_CHANGE), "nodeinfo.volcano.sh", "*"),
        ],
        WEBHOOK: [
            events,
            leases,
            _rule(_READ, "", ("namespaces", "nodes", "pods", "resourcequotas", "serviceaccounts")),
            _rule(_READ, "scheduling.k8s.io", "priorityclasses"),
            _rule(_READ, _VOLCANO, "*"),
            _rule((*_READ, "create", *_CHANGE), "admissionregistration.k8s.io", "*"),
        ],
    }
    return [
        one
        for user, granted in rules.items()
        for one in (_role(user.name, granted), _bind(user.name, user.name, ("User", user.name)))
    ]
