"""The FlowSchemas and PriorityLevelConfigurations that a cluster starts with: Kubernetes', and one for our parts."""

from __future__ import annotations

from strato.api.meta import Json
from strato.server import bootstrap

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
"""Annotation that is "true" if the server may update the object to a new version's default."""
EXEMPT, CATCH_ALL = "exempt", "catch-all"
MANDATORY = (EXEMPT, CATCH_ALL)
"""Names of the mandatory objects, of both kinds, whose spec users cannot change."""
_API = "flowcontrol.apiserver.k8s.io/v1"
_ANY = ["*"]
_EVERYTHING = [{"verbs": _ANY, "apiGroups": _ANY, "resources": _ANY, "clusterScope": True, "namespaces": _ANY}]
_EVERY_PATH = [{"verbs": _ANY, "nonResourceURLs": _ANY}]
_LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": _ANY}


def _level(name: str, shares: int, lendable: int, queues: int, hand: int) -> Json:
    response: Json = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def _object(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}},
        "spec": spec,
    }


def _schema(name: str, level: str, precedence: int, by: str, subjects: list[Json], **rules: list[Json]) -> Json:
    spec: Json = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if by:
        spec["distinguisherMethod"] = {"type": by}
    spec["rules"] = [{"subjects": subjects, **rules}]
    schema = _object("FlowSchema", name, spec)
    schema["status"] = {
        "conditions": [
            {
                "type": "Dangling",
                "status": "False",
                "reason": "Found",
                "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it '
                "exists",
            }
        ]
    }
    return schema


def _groups(*names: str) -> list[Json]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Json]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


_EVERY_USER = _groups("system:unauthenticated", "system:authenticated")
_NODES = [*_groups("system:nodes"), *_users(bootstrap.HOLLOW_NODES.name)]
_SYSTEM_ACCOUNTS = [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}]
_ALL: dict[str, list[Json]] = {"resourceRules": _EVERYTHING, "nonResourceRules": _EVERY_PATH}

LEVELS: tuple[Json, ...] = (
    _object(
        "PriorityLevelConfiguration",
        EXEMPT,
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    ),
    _level(CATCH_ALL, 5, 0, 0, 0),
    _level("system", 30, 33, 64, 6),
    _level("node-high", 40, 25, 64, 6),
    _level("leader-election", 10, 0, 16, 4),
    _level("workload-high", 40, 50, 128, 6),
    _level("workload-low", 100, 90, 128, 6),
    _level("global-default", 20, 50, 128, 6),
)
SCHEMAS: tuple[Json, ...] = (
    _schema(EXEMPT, EXEMPT, 1, "", _groups("system:masters"), **_ALL),
    _schema(
        "probes",
        EXEMPT,
        2,
        "",
        _EVERY_USER,
        nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    ),
    _schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        [*_users("system:kube-controller-manager", "system:kube-scheduler"), *_SYSTEM_ACCOUNTS],
        resourceRules=[{"verbs": ["get", "create", "update"], **_LEASES}],
    ),
    _schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        _NODES,
        resourceRules=[
            {
                "verbs": _ANY,
                "apiGroups": [""],
                "resources": ["nodes", "nodes/status"],
                "clusterScope": True,
                "namespaces": _ANY,
            },
            {"verbs": _ANY, **_LEASES},
        ],
    ),
    _schema("system-nodes", "system", 500, "ByUser", _NODES, **_ALL),
    _schema(
        "strato-components",
        "workload-high",
        700,
        "ByUser",
        _users(bootstrap.SCHEDULER.name, bootstrap.CONTROLLERS.name, bootstrap.WEBHOOK.name),
        **_ALL,
    ),
    _schema(
        "kube-controller-manager", "workload-high", 800, "ByNamespace", _users("system:kube-controller-manager"), **_ALL
    ),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _users("system:kube-scheduler"), **_ALL),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _SYSTEM_ACCOUNTS, **_ALL),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), **_ALL),
    _schema("global-default", "global-default", 9900, "ByUser", _EVERY_USER, **_ALL),
    _schema(CATCH_ALL, CATCH_ALL, 10000, "ByUser", _EVERY_USER, **_ALL),
)
