"""Requests that write: refusals with several causes, bytes as lists, statuses without a phase, changed versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.server.rest.steps import MERGE, PATCH, STRATEGIC, Case, Step, differs, get, own_words, patch, post, put

CORE = "/api/v1/namespaces/{ns}"
PODS, SECRETS, CLAIMS = f"{CORE}/pods", f"{CORE}/secrets", f"{CORE}/persistentvolumeclaims"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
VOLUMES, NAMESPACES = "/api/v1/persistentvolumes", "/api/v1/namespaces"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SIZE = {"requests": {"storage": "1Gi"}}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTECTION = "claims carry no finalizer that protects them while pods use them"


def pod(*, port: int = 80, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "web", "containerPort": port}] if port else [{"name": "web"}]
    container = {"name": "c", "image": "i:1", "ports": ports}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 5, **spec}}


TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
CLAIM = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": SIZE}}
VOLUME = {
    "metadata": {"name": "v-{x}"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}},
}
REPLICAS = {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
SET = {"metadata": {"name": "s"}, "spec": {**REPLICAS, "template": TEMPLATE, "volumeClaimTemplates": [CLAIM]}}
SETS = "/apis/apps/v1/namespaces/{ns}/statefulsets"


def versions(media: str) -> list[Step]:
    """Return patches of what says of which type an object is."""
    values = [None, "", "/", "coordination.k8s.io/", "v1", "coordination.k8s.io/v2", "apps/v1", "a/b/c"]
    changes: list[dict[str, Any]] = [{"apiVersion": value} for value in values]
    changes += [{"kind": value} for value in (None, "", "Pod")]
    if media == PATCH:
        return [
            patch(
                f"{LEASES}/l",
                [{"op": "remove", "path": f"/{name}"} if value is None else replaced(name, value)],
                media,
            )
            for one in changes
            for name, value in one.items()
        ]
    return [patch(f"{LEASES}/l", one, media) for one in changes]


def replaced(name: str, value: str) -> dict[str, str]:
    return {"op": "replace", "path": f"/{name}", "value": value}


def sizes(*amounts: str) -> list[Step]:
    """Return patches of the size that a claim asks for."""
    return [patch(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": one}}}}) for one in amounts]


def statuses(path: str, obj: dict[str, Any]) -> list[Step]:
    """Return writes of a status that say no phase, or none at all."""
    return [
        put(f"{path}/status", {**obj, "status": {}}),
        put(f"{path}/status", obj),
        put(f"{path}/status", {**obj, "status": None}),
        patch(f"{path}/status", {"status": {"phase": None}}),
        patch(f"{path}/status", {"status": {"phase": ""}}, STRATEGIC),
        patch(f"{path}/status", [{"op": "remove", "path": "/status"}], PATCH),
    ]


def shown(path: str, name: str, obj: dict[str, Any]) -> list[Step]:
    """Return the same, and after each a look at the table, which has no finalizers."""
    look = get(f"{path}/{name}", "includeObject=None", accept=TABLE)
    return [each for step in statuses(f"{path}/{name}", obj) for each in (replace(step, quiet=True), look)]


WRITES = [
    Case("an update of a pod names every cause", [
        post(PODS, pod(activeDeadlineSeconds=50, tolerations=[TOLERATION]), quiet=True),
        own_words(put(f"{PODS}/p", pod(port=0, activeDeadlineSeconds=50, tolerations=[TOLERATION]))),
        own_words(patch(f"{PODS}/p", {"spec": {"tolerations": [], "hostNetwork": True}})),
        patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 60, "tolerations": []}}),
        own_words(patch(f"{PODS}/p", {"spec": {
            "activeDeadlineSeconds": None, "tolerations": [], "nodeSelector": {"a": "b"}}})),
        patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": -1, "nodeSelector": {"a": "b"}}}),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "g"}], "tolerations": []}}),
        patch(f"{PODS}/p", {"spec": {"containers": [], "tolerations": []}}),
    ]),
    Case("an update of a claim names every cause", [
        differs(PROTECTION, post(CLAIMS, CLAIM)),
        own_words(patch(f"{CLAIMS}/c", [{"op": "remove", "path": "/spec/accessModes"}], PATCH)),
        own_words(patch(f"{CLAIMS}/c", {"spec": {"accessModes": ["Odd"], "volumeMode": "Block"}})),
        own_words(patch(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": "0"}}, "selector": {}}})),
        *(own_words(step) for step in sizes("3Gi", "512Mi")),
        patch(f"{CLAIMS}/c/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}, quiet=True),
        *(own_words(step) for step in sizes("512Mi")),
        own_words(patch(f"{CLAIMS}/c", {"spec": {"resources": {"limits": {"storage": "8Gi"}}}})),
        patch(f"{CLAIMS}/c", {"spec": {"volumeAttributesClassName": "a"}}, quiet=True),
        *(own_words(patch(f"{CLAIMS}/c", {"spec": {"volumeAttributesClassName": name}})) for name in (None, "")),
    ]),
    Case("a status without a phase has the first one", [
        post(CLAIMS, CLAIM, quiet=True),
        *shown(CLAIMS, "c", CLAIM),
        post(VOLUMES, VOLUME, quiet=True),
        *shown(VOLUMES, "v-{x}", VOLUME),
        post(NAMESPACES, {"metadata": {"name": "n-{x}"}}, quiet=True),
        *statuses(f"{NAMESPACES}/n-{{x}}", {"metadata": {"name": "n-{x}"}}),
        post(SETS, SET),
    ]),
    Case("bytes may come as lists of numbers", [
        post(SECRETS, {"metadata": {"name": "s"}, "data": {"none": [], "word": [104, 105]}}),
        post(SECRETS, {"metadata": {"name": "s"}, "data": {"none": []}}),
        own_words(post(SECRETS, {"metadata": {"name": "t"}, "data": {"large": [256]}})),
        own_words(post(SECRETS, {"metadata": {"name": "t"}, "data": {"negative": [-1]}})),
        own_words(post(SECRETS, {"metadata": {"name": "t"}, "data": {"part": [1.5]}})),
        own_words(post(SECRETS, {"metadata": {"name": "t"}, "data": {"text": ["x"]}})),
        own_words(post(SECRETS, {"metadata": {"name": "t"}, "data": {"object": {}}})),
        post(SECRETS, {"metadata": {"name": "u"}, "data": {"null": [None, 65]}}),
        patch(f"{SECRETS}/s", {"data": {"word": [72]}}),
        patch(f"{SECRETS}/s", {"data": {"word": [73]}}, STRATEGIC),
        post(f"{CORE}/configmaps", {"metadata": {"name": "m"}, "binaryData": {"word": [104, 105]}}),
        post(HOOKS, {"metadata": {"name": "h-{x}"}, "webhooks": [{
            "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://a.b", "caBundle": [65]}}]}),
    ]),
    *(
        Case(f"type changed by {media.partition('/')[2]}", [
            post(LEASES, {"metadata": {"name": "l"}}, quiet=True),
            *(own_words(step) for step in versions(media)),
        ])
        for media in (MERGE, PATCH, STRATEGIC)
    ),
]  # fmt: skip
