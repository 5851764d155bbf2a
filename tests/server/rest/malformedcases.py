"""Writes that set a member to what it may not be: of metadata, by every way in which it can be written; lists."""

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
    return [*(replace(step, quiet=True) for step in steps), get(path.removesuffix("/status"))]


def created(path: str, obj: dict[str, Any]) -> list[Step]:
    """Return a create for each value, under a name of its own."""
    bodies = [
        {**obj, "metadata": {"name": f"m{number}", member: value}}
        for number, (member, value) in enumerate((member, value) for member in VALUES for value in VALUES[member])
    ]
    return [*(replace(post(path, body), quiet=True) for body in bodies), get(path, quiet=True)]


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


def volumes(value: list[Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"volumes": value}}}}


MALFORMED = [
    Case("strategic patch of a list that is not there", [
        each
        for number, value in enumerate(ABSENT_LISTS)
        for each in (
            post(DEPLOYMENTS, {**DEPLOYMENT, "metadata": {"name": f"d{number}"}}, quiet=True),
            replace(patch(f"{DEPLOYMENTS}/d{number}", volumes(value), STRATEGIC), own_words=True),
        )
    ]),
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
