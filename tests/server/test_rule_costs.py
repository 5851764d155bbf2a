"""What rules may cost is estimated as Kubernetes does, and what may cost too much is refused."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from strato.api import cel, crds
from strato.clock import VirtualClock
from strato.server import definitions
from strato.server.embedded import in_memory_server
from strato.server.schema import rulecosts
from tests.server.asking import MERGE, Client

Json = dict[str, Any]
RECORDED: list[Json] = json.loads((Path(__file__).parents[1] / "api/data/cel_costs.json").read_text())
"""Schemas and rules with the costs that Kubernetes 1.36.3 estimates (``apiextensions-apiserver``'s ``cel.Compile``)."""
CASES = [
    pytest.param(one["schema"], rule["rule"], rule["cost"], id=rule["rule"])
    for one in RECORDED
    for rule in one["rules"]
]


@pytest.mark.parametrize(("schema", "rule", "cost"), CASES)
def test_estimates_are_those_of_kubernetes(schema: Json, rule: str, cost: int) -> None:
    declared = rulecosts.declared(schema)
    assert declared is not None
    assert cel.estimated_cost(cel.parse(rule).root, {"self": declared, "oldSelf": declared}) == cost


@pytest.mark.parametrize("manifest", crds.manifests(), ids=lambda manifest: str(manifest["metadata"]["name"]))
def test_our_own_definitions_are_in_order(manifest: Json) -> None:
    """A server takes them as they are when it starts; what their rules cost is looked at too."""
    definition = copy.deepcopy(manifest)
    definitions.prepare(definition, 0.0)
    assert definition["status"]["conditions"][-1]["type"] == "Established"


def text(**limits: int) -> Json:
    return {"type": "string", **limits}


def listed(item: Json, *rules: Json, **limits: int) -> Json:
    return {"type": "array", "items": item, "x-kubernetes-validations": list(rules), **limits}


def definition(spec: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    body = {"group": "x.y", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.x.y"}, "spec": body}


TWICE = {"rule": "self.all(x, self.all(y, x == y))"}
AT = "spec.validation.openAPIV3Schema.properties[spec].properties[l]"
HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        pytest.param(
            {"l": listed(text(), TWICE)},
            f"{AT}.x-kubernetes-validations[0].rule",
            f"Forbidden: estimated rule cost exceeds budget by factor of more than 100x {HINT}",
            id="every item with every other",
        ),
        pytest.param(
            {"l": listed(text(maxLength=10), TWICE, maxItems=1500)},
            f"{AT}.x-kubernetes-validations[0].rule",
            "estimated rule cost exceeds budget by factor of 2.0x",
            id="a list that is a little too long",
        ),
        pytest.param(
            {"l": listed({**text(), "x-kubernetes-validations": [{"rule": "self.contains('abcdefghijklmnopqrstu')"}]})},
            f"{AT}.items.x-kubernetes-validations[0].rule",
            "estimated rule cost exceeds budget by factor of more than 100x",
            id="often",
        ),
        pytest.param(
            {"l": listed(text(), {"rule": "true", "messageExpression": "self.map(x, x + x).join(',')"})},
            f"{AT}.x-kubernetes-validations[0].messageExpression",
            "estimated messageExpression cost exceeds budget by factor of",
            id="a message",
        ),
        pytest.param(
            {"l": listed(text(maxLength=10), *[TWICE] * 20, maxItems=1000)},
            "spec.validation.openAPIV3Schema",
            "estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1.8",
            id="all together",
        ),
    ],
)
async def test_what_may_cost_too_much_is_refused(spec: Json, field: str, words: str) -> None:
    client = Client(in_memory_server(VirtualClock(), random.Random(1)))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    refused = await client.ask("POST", path, definition(spec), code=422)
    causes = [(cause["field"], cause["message"]) for cause in refused["details"]["causes"]]
    assert any(at == field and words in message for at, message in causes)


async def test_rules_that_stay_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(in_memory_server(VirtualClock(), random.Random(1)))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    monkeypatch.setattr(rulecosts, "RULE_LIMIT", 1 << 80)
    monkeypatch.setattr(rulecosts, "ALL_RULES_LIMIT", 1 << 80)
    await client.ask("POST", path, definition({"of_before": listed(text(), TWICE)}))
    monkeypatch.undo()
    await client.ask("PATCH", f"{path}/things.x.y", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    changed = definition({"of_before": listed(text(maxLength=9), TWICE)})
    await client.ask("PATCH", f"{path}/things.x.y", {"spec": changed["spec"]}, MERGE, code=422)
