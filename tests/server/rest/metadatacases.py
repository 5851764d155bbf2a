"""Writes of metadata by every way in which it can be written, valid and malformed; malformed lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.server.rest.objects import PODS, SERVE_WIDGETS, WIDGETS, pod, widget
from tests.server.rest.steps import MERGE, PATCH, STRATEGIC, Case, Step, get, patch, post, put

VALUES: dict[str, list[Any]] = {
    "generateName": [None, 5, "other-", ["a"], {"a": "b"}],
    "labels": [5, {"a": 5}, {"a": None}, ["a"], {"a b": "c"}],
    "annotations": [5, {"a": 5}, {"a": None}, {"a b": "c"}],
    "finalizers": [5, "a", [5], [None], ["a b"], ["plain"], {"a": "b"}],
    "ownerReferences": [5, ["a"], [{"a": 1}], [{"name": "a"}], {"a": "b"}],
    "unheardOf": [None, 5, {"a": "b"}],
    "deletionGracePeriodSeconds": [5, "a"],
    "generation": [5, "a", 1.5],
    "managedFields": [5, [{"a": 1}]],
    "creationTimestamp": [None, 5, "a"],
}


def sent(path: str, obj: dict[str, Any], way: str) -> list[Step]:
    """Return a write for each value, and a look at what is stored."""
    steps = []
    for member, values in VALUES.items():
        for value in values:
            changed = {**obj, "metadata": {**obj["metadata"], member: value}}
            if way == "PUT":
                steps.append(put(path, changed))
            elif way == PATCH:
                steps.append(patch(path, [{"op": "add", "path": f"/metadata/{member}", "value": value}], PATCH))
            else:
                steps.append(patch(path, {"metadata": {member: value}}, way))
    return [*(replace(step, quiet=True) for step in steps), get(path.removesuffix("/status").removesuffix("/scale"))]


def created(path: str, obj: dict[str, Any]) -> list[Step]:
    """Return a create for each value, under a name of its own."""
    bodies = [
        {**obj, "metadata": {"name": f"m{number}", member: value}}
        for number, (member, value) in enumerate((member, value) for member in VALUES for value in VALUES[member])
    ]
    return [*(replace(post(path, body), quiet=True) for body in bodies), get(path, quiet=True)]


ONLY_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
NOT_MADE = "what is to be deleted from a list that is not there is not made"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
LABELS = {"a": "b"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
DEPLOYMENT = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}
ABSENT_LISTS: list[list[Any]] = [
    [{"name": "a", "$patch": "delete"}],
    [{"$patch": "replace"}],
    [{"name": "a", "emptyDir": {}}, {"$patch": "replace"}],
    [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}],
    [{"name": "a", "emptyDir": {"$patch": "replace", "medium": "Memory"}}],
    [{"name": "a", "emptyDir": {}, "$retainKeys": ["name"]}],
    [{"name": "a", "configMap": {"name": "x", "items": [{"key": "k", "path": "p", "$patch": "delete"}]}}],
    [{"emptyDir": {}}],
    [{}],
    [None],
    [5],
]
"""Volumes of a strategic merge patch."""


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2}}
GIVEN = {
    "labels": {"l": "1"},
    "annotations": {"a": "1"},
    "finalizers": ["x.y/z"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}],
    "generateName": "g-",
}
"""Metadata that is valid; of some kinds a write of the status keeps parts of it as they are stored."""
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
WITH_STATUS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/{ns}/pods": {"containers": [{"name": "c", "image": "i:1"}]},
    DEPLOYMENTS: DEPLOYMENT["spec"],
    "/apis/apps/v1/namespaces/{ns}/replicasets": DEPLOYMENT["spec"],
    "/api/v1/namespaces/{ns}/services": {"ports": [{"port": 80}]},
    "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims": {},
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas": {"priorityLevelConfiguration": {"name": "exempt"}},
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": {
        "type": "Limited",
        "limited": {"limitResponse": {"type": "Reject"}},
    },
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "validations": [{"expression": "true"}],
        "matchConstraints": {"resourceRules": RULES},
    },
    "/apis/storage.k8s.io/v1/volumeattachments": {
        "attacher": "a",
        "nodeName": "n",
        "source": {"persistentVolumeName": "v"},
    },
}


def given(path: str, spec: dict[str, Any]) -> list[Step]:
    """Return writes of metadata through the status, each with a look at the metadata."""
    name = "k-{x}"
    steps = [post(path, {"metadata": {"name": name}, "spec": spec}, quiet=True)]
    for member, value in GIVEN.items():
        steps.append(patch(f"{path}/{name}/status", {"metadata": {member: value}}, quiet=True))
        steps.append(get(f"{path}/{name}", accept=ONLY_METADATA))
    return steps


def volumes(value: list[Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"volumes": value}}}}


EXISTS = {"key": "e", "operator": "Exists"}
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
METADATA = [
    Case("strategic patch of a selector that is replaced as a whole", [
        post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}}),
        patch(f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": {"c": "d"}}}}, STRATEGIC),
        patch(f"{BUDGETS}/b", {"spec": {"selector": {"matchExpressions": [EXISTS]}}}, STRATEGIC),
        patch(f"{BUDGETS}/b", {"spec": {"selector": {}}}, STRATEGIC),
        patch(f"{BUDGETS}/b", {"metadata": {"labels": {"g": "h"}}}, STRATEGIC),
        patch(f"{BUDGETS}/b", {"spec": {"selector": None}}, STRATEGIC),
    ]),
    Case("strategic patch of a list that is not there", [
        each
        for number, value in enumerate(ABSENT_LISTS)
        for each in (
            post(DEPLOYMENTS, {**DEPLOYMENT, "metadata": {"name": f"d{number}"}}, quiet=True),
            replace(
                patch(f"{DEPLOYMENTS}/d{number}", volumes(value), STRATEGIC),
                own_words=True,
                differs=NOT_MADE if "delete" in str(value) else "",
            ),
        )
    ]),
    *(
        Case(f"metadata through the status of {path.rpartition('/')[2]}", given(path, spec))
        for path, spec in WITH_STATUS.items()
    ),
    *(
        Case(f"metadata of scales, {way.partition('/')[2] or way}", [
            post(DEPLOYMENTS, DEPLOYMENT, quiet=True),
            *sent(f"{DEPLOYMENTS}/d/scale", SCALE, way),
        ])
        for way in (MERGE, PATCH, STRATEGIC, "PUT")
    ),
    Case("metadata of pods, created", created(PODS, pod())),
    Case("metadata of widgets, created", [*SERVE_WIDGETS, *created(WIDGETS, widget())]),
    *(
        Case(f"metadata of pods{sub}, {way.partition('/')[2] or way}", [
            post(PODS, pod(), quiet=True),
            *sent(f"{PODS}/p{sub}", pod(), way),
        ])
        for sub in ("", "/status")
        for way in (MERGE, PATCH, STRATEGIC, "PUT")
    ),
    *(
        Case(f"metadata of widgets{sub}, {way.partition('/')[2] or way}", [
            *SERVE_WIDGETS,
            post(WIDGETS, widget(), quiet=True),
            *sent(f"{WIDGETS}/w{sub}", {**widget(), "metadata": {"name": "w", "resourceVersion": "{rv:2}"}}, way),
        ])
        for sub in ("", "/status")
        for way in (MERGE, PATCH)
    ),
]  # fmt: skip
