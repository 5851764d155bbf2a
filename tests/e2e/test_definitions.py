"""What a user does with a CustomResourceDefinition over its life, with kubectl."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e
NAME = "wagons.e2e.example.com"


def version(name: str, *, storage: bool, **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"colour": {"type": "string"}, **properties}}
    selectable = ("colour", "axles") if "axles" in properties else ("colour",)
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "selectableFields": [{"jsonPath": f".spec.{field}"} for field in selectable],
        "additionalPrinterColumns": [{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}],
    }


def definition(**later: Any) -> dict[str, Any]:
    versions = [version("v1", storage=True, axles={"type": "integer"}, **later), version("v2", storage=False)]
    names = {"plural": "wagons", "kind": "Wagon"}
    spec = {"group": "e2e.example.com", "scope": "Cluster", "names": names, "versions": versions}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": NAME}, "spec": spec}


def wagon(name: str, of: str, *finalizers: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": f"e2e.example.com/{of}", "kind": "Wagon", "metadata": metadata, "spec": spec}


def names(world: World, *args: str) -> list[str]:
    return sorted(world.kubectl("get", "wagons", "-o", "name", *args).split())


@pytest.mark.timeout(300)
def test_versions_later_defaults_selectors_and_the_end_of_a_definition(world: World) -> None:
    world.apply(definition())
    world.kubectl("wait", "--for=condition=Established", f"crd/{NAME}", "--timeout=60s")
    eventually(lambda: names(world) == [], what="the kind is served")
    world.apply(wagon("red", "v1", "e2e.example.com/hold", colour="red", axles=2))
    world.apply(wagon("blue", "v2", colour="blue"))
    shown = world.get("wagons.v2.e2e.example.com", "red")
    assert (shown["apiVersion"], shown["spec"]) == ("e2e.example.com/v2", {"colour": "red"})
    assert world.get("wagons.v1.e2e.example.com", "red")["spec"] == {"colour": "red", "axles": 2}
    assert names(world, "--field-selector", "spec.colour=blue") == ["wagon.e2e.example.com/blue"]
    assert "COLOUR" in world.kubectl("get", "wagons")

    world.apply(definition(brakes={"type": "boolean", "default": True}))

    def has_brakes() -> bool:
        return bool(world.get("wagons.v1.e2e.example.com", "blue")["spec"].get("brakes"))

    eventually(has_brakes, what="a default that came later shows")
    unknown = json.dumps(wagon("odd", "v1", doors=1, windows=2))
    refused = world.kubectl_process("create", "-f", "-", stdin=unknown, check=False)
    assert 'unknown field "spec.doors", unknown field "spec.windows"' in refused.stderr

    world.kubectl("delete", "crd", NAME, "--wait=false")
    eventually(lambda: names(world) == ["wagon.e2e.example.com/red"], what="objects without finalizers go")
    refused = world.kubectl_process("create", "-f", "-", stdin=json.dumps(wagon("new", "v1")), check=False)
    assert "create not allowed while custom resource definition is terminating" in refused.stderr
    world.kubectl("patch", "wagon", "red", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: world.get("crd", NAME) is None, what="the definition goes after its last object")


def test_rules_that_may_cost_too_much_are_refused(world: World) -> None:
    """In the same words, with the same factors, on a real server."""
    twice = {"rule": "self.all(x, self.all(y, x == y))"}
    often = {"rule": "self.contains('abcdefghijklmnopqrstu')"}
    crew = {"type": "array", "maxItems": 1500, "items": {"type": "string", "maxLength": 10}}
    freight = {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [often]}}
    manifest = definition()
    del manifest["spec"]["versions"][1], manifest["spec"]["versions"][0]["selectableFields"]
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= {
        "crew": {**crew, "x-kubernetes-validations": [twice]},
        "freight": freight,
    }
    said = world.kubectl_process("create", "-f", "-", stdin=json.dumps(manifest), check=False).stderr
    place = "spec.validation.openAPIV3Schema.properties[spec].properties"
    costs = "estimated rule cost exceeds budget by factor of"
    assert f"{place}[crew].x-kubernetes-validations[0].rule: Forbidden: {costs} 2.0x (try simplifying the rule" in said
    assert f"{place}[freight].items.x-kubernetes-validations[0].rule: Forbidden: {costs} more than 100x" in said
    assert "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total" in said
