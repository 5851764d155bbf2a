"""Webhooks and policies about one version of a kind see writes in all others, converted, and change them so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.server.asking import Client
from tests.server.webhookserver import Json, patch, webhook

from .configuring import configure, hook, serving
from .test_mutations import applied, patched
from .test_mutations import define as define_mutation

SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
RULES = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
ABOUT_V1 = [{"operations": ["CREATE"], **RULES}]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving() as client:
        yield client


def scaler() -> Json:
    target = {"type": "Utilization", "averageUtilization": 70}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": reference, "metrics": metrics}}


def utilization(made: Json) -> Any:
    return made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"]


async def test_a_webhook_sees_and_changes_its_own_version(client: Client) -> None:
    change = patch({"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 55})
    async with webhook(lambda _: change) as called:
        await configure(client, hook(called.url(), rules=ABOUT_V1), mutates=True)
        made = await client.ask("POST", SCALERS.format("v2"), scaler())
    (asked,) = called.requests
    assert asked["object"]["apiVersion"] == "autoscaling/v1"
    assert asked["object"]["spec"]["targetCPUUtilizationPercentage"] == 70
    assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
    assert (made["apiVersion"], utilization(made)) == ("autoscaling/v2", 55)


async def test_a_webhook_that_wants_its_version_alone_is_not_called(client: Client) -> None:
    async with webhook(lambda _: {"allowed": False}) as called:
        await configure(client, hook(called.url(), rules=ABOUT_V1, matchPolicy="Exact"))
        await client.ask("POST", SCALERS.format("v2"), scaler())
    assert not called.requests


@pytest.mark.parametrize(
    "mutation",
    [
        applied("Object{spec: Object.spec{targetCPUUtilizationPercentage: 55}}"),
        patched("[JSONPatch{op: 'replace', path: '/spec/targetCPUUtilizationPercentage', value: 55}]"),
    ],
)
async def test_a_mutating_policy_changes_its_own_version(client: Client, mutation: Json) -> None:
    await define_mutation(client, mutation, matchConstraints={"resourceRules": ABOUT_V1})
    assert utilization(await client.ask("POST", SCALERS.format("v2"), scaler())) == 55


async def test_versions_of_a_custom_kind_are_converted(client: Client) -> None:
    names = {"plural": "things", "kind": "Thing"}
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "filled"}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": one}}
        for name, one in (
            ("v1", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            ("v2", {"type": "object", "properties": {"spec": schema}}),
        )
    ]
    spec = {"group": "x.y", "scope": "Namespaced", "names": names, "versions": versions}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.ask("POST", path, {"metadata": {"name": "things.x.y"}, "spec": spec})
    rule = {"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v2"], "resources": ["things"]}
    async with webhook(lambda _: patch({"op": "add", "path": "/spec/a", "value": "changed"})) as called:
        await configure(client, hook(called.url(), rules=[rule]), mutates=True)
        thing = {"apiVersion": "x.y/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"none": 1}}
        made = await client.ask("POST", "/apis/x.y/v1/namespaces/default/things", thing)
    (asked,) = called.requests
    assert (asked["object"]["apiVersion"], asked["object"]["spec"]) == ("x.y/v2", {})
    assert (made["apiVersion"], made["spec"]) == ("x.y/v1", {"a": "changed"})
