"""MutatingAdmissionPolicies: what they make of objects, in which order, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.server.asking import MERGE, Client
from tests.server.webhookserver import Json, patch, webhook

from .configuring import GROUP, MAPS, config_map, configure, hook, rule, serving

POLICIES, BINDINGS = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"
DEPLOYMENTS = {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
ON_DEPLOYMENTS = {"matchConstraints": {"resourceRules": [DEPLOYMENTS]}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving() as client:
        yield client


def applied(expression: str) -> Json:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Json:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def body(*mutations: Json, name: str = "p", **spec: Any) -> Json:
    rules = {"resourceRules": [rule("CREATE", "UPDATE")]}
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": rules, "reinvocationPolicy": "Never", "mutations": list(mutations), **spec},
    }


async def define(client: Client, *mutations: Json, name: str = "p", **spec: Any) -> None:
    """Store a policy and a binding of it."""
    await client.ask("POST", POLICIES, body(*mutations, name=name, **spec))
    await client.ask("POST", BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}})


def deployment(**container: Any) -> Json:
    labels = {"app": "a"}
    pod = {"containers": [{"name": "main", "image": "a", **container}]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


@pytest.mark.parametrize(
    ("mutations", "want"),
    [
        pytest.param([applied("Object{data: {'b': '2'}}")], {"a": "1", "b": "2"}, id="merged"),
        pytest.param([applied("Object{data: {'a': object.data.a + '!'}}")], {"a": "1!"}, id="of what there was"),
        pytest.param(
            [applied("Object{data: {'b': '2'}}"), applied("Object{data: {'c': object.data.b}}")],
            {"a": "1", "b": "2", "c": "2"},
            id="each sees what those before it left",
        ),
        pytest.param([applied("has(object.data) ? Object{} : Object{data: {'b': ''}}")], {"a": "1"}, id="nothing"),
        pytest.param([applied("Object{data: {?'b': object.data[?'a']}}")], {"a": "1", "b": "1"}, id="a value there is"),
        pytest.param([applied("Object{?data: object.?none}")], {"a": "1"}, id="a field there is none for"),
        pytest.param(
            [patched("[JSONPatch{op: 'add', path: '/data/b', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]")],
            {"b": "2"},
            id="a patch",
        ),
        pytest.param(
            [
                patched(
                    "[JSONPatch{op: 'test', path: '/data/a', value: 'no'}, JSONPatch{op: 'remove', path: '/data/a'}]"
                )
            ],
            {"a": "1"},
            id="a patch whose test fails",
        ),
        pytest.param(
            [patched("[JSONPatch{op: 'copy', from: '/data/a', path: '/data/' + jsonpatch.escapeKey('b')}]")],
            {"a": "1", "b": "1"},
            id="a copy",
        ),
        pytest.param([patched("[]")], {"a": "1"}, id="an empty patch"),
    ],
)
async def test_an_object_is_changed(client: Client, mutations: list[Json], want: Json) -> None:
    await define(client, *mutations)
    made = await client.ask("POST", MAPS, config_map(data={"a": "1"}))
    assert made["data"] == want
    assert (await client.ask("GET", f"{MAPS}/m"))["data"] == want


async def test_updates_are_changed_too_and_deletions_are_not(client: Client) -> None:
    await client.ask("POST", MAPS, config_map())
    await define(
        client, applied("Object{data: {'by': request.operation}}"), matchConstraints={"resourceRules": [rule()]}
    )
    assert (await client.ask("PATCH", f"{MAPS}/m", {"data": {"x": "1"}}, MERGE))["data"] == {"x": "1", "by": "UPDATE"}
    await client.ask("DELETE", f"{MAPS}/m")


async def test_lists_are_merged_by_their_keys(client: Client) -> None:
    expression = """
        Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [
          Object.spec.template.spec.containers{name: "main", env: [
            Object.spec.template.spec.containers.env{name: "SEEN", value: "yes"}]},
          Object.spec.template.spec.containers{name: "side", image: "b"}]}}}}"""
    await define(client, applied(expression), **ON_DEPLOYMENTS)
    made = await client.ask("POST", "/apis/apps/v1/namespaces/default/deployments", deployment(args=["x"]))
    main, side = made["spec"]["template"]["spec"]["containers"]
    assert (main["image"], main["args"], main["env"]) == ("a", ["x"], [{"name": "SEEN", "value": "yes"}])
    assert (side["image"], side["imagePullPolicy"]) == ("b", "Always"), "defaults are filled in"


async def test_a_policy_sees_parameters_and_variables(client: Client) -> None:
    await client.ask("POST", MAPS, config_map("limits", data={"most": "3"}))
    variables = [{"name": "most", "expression": "params.data.most"}]
    conditions = [{"name": "small", "expression": "!has(object.data)"}]
    mutation = applied("Object{data: {'most': variables.most}}")
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await client.ask("POST", POLICIES, body(mutation, variables=variables, matchConditions=conditions, paramKind=kind))
    ref = {"name": "limits", "parameterNotFoundAction": "Deny"}
    await client.ask("POST", BINDINGS, {"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": ref}})
    assert (await client.ask("POST", MAPS, config_map("a")))["data"] == {"most": "3"}
    assert (await client.ask("POST", MAPS, config_map("b", data={"x": "1"})))["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("mutation", "want"),
    [
        pytest.param(applied("Object{data: {'a': object.none}}"), "no such key: none", id="an error"),
        pytest.param(applied("Object{datas: {}}"), "datas: field not declared in schema", id="no such field"),
        pytest.param(applied("Object{data: 1}"), ".data: expected map, got &{1}", id="another type"),
        pytest.param(applied("{'data': {}}"), "unsupported return type from ApplyConfiguration", id="a map"),
        pytest.param(
            applied("Object{metadata: Object.spec{}}"),
            'unexpected type name "Object.spec", expected "Object.metadata"',
            id="a type of elsewhere",
        ),
        pytest.param(patched("{}"), "should evaluate to array", id="no list"),
        pytest.param(patched("[{}]"), "got element of map", id="no patch"),
        pytest.param(patched("[JSONPatch{op: 1}]"), "unexpected type int for JSONPatchType 'op' field", id="no text"),
        pytest.param(patched("[JSONPatch{op: 'remove', path: '/data/b'}]"), "JSON Patch: ", id="no such path"),
        pytest.param(
            patched("[JSONPatch{op: 'test', path: '', value: quantity('1')}]"), "kubernetes.Quantity", id="value"
        ),
        pytest.param(patched("[JSONPatch{op: 'replace', path: '', value: 1}]"), "not an object", id="not an object"),
    ],
)
async def test_what_cannot_be_applied_follows_the_failure_policy(client: Client, mutation: Json, want: str) -> None:
    await define(client, mutation)
    refused = await client.ask("POST", MAPS, config_map(data={"a": "1"}), code=403)
    assert refused["message"].startswith("policy 'p' with binding 'p' denied request: ")
    assert want in refused["message"]
    assert refused["reason"] == "Invalid"
    assert [cause["message"] for cause in refused["details"]["causes"]] == [refused["message"]]
    await client.ask("PATCH", f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}}, MERGE)
    assert (await client.ask("POST", MAPS, config_map(data={"a": "1"})))["data"] == {"a": "1"}


async def test_lists_and_structs_that_are_one_leaf_are_not_changed(client: Client) -> None:
    selector = "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'app': 'a'}}}}"
    await define(client, applied(selector), **ON_DEPLOYMENTS)
    refused = await client.ask("POST", "/apis/apps/v1/namespaces/default/deployments", deployment(), code=403)
    assert "may not mutate atomic arrays, maps or structs: .spec.selector" in refused["message"]


ONCE_MORE = (
    "Object{data: {'times': string(1 + int(has(object.data) && 'times' in object.data ? object.data.times : '0'))}}"
)


async def test_a_policy_that_asks_for_it_is_evaluated_again(client: Client) -> None:
    """As in Kubernetes its own evaluation counts as a change."""
    await define(client, applied(ONCE_MORE), reinvocationPolicy="IfNeeded")
    assert (await client.ask("POST", MAPS, config_map()))["data"] == {"times": "2"}


async def test_policies_come_before_webhooks_and_again_after_them(client: Client) -> None:
    async with webhook(lambda _: patch({"op": "add", "path": "/data/hook", "value": "yes"})) as called:
        await define(client, applied("Object{data: {'a': '1'}}"), name="a")
        again = "Object{data: {'seen': 'hook' in object.data ? 'hook' : 'none'}}"
        await define(client, applied(again), name="b", reinvocationPolicy="IfNeeded")
        await configure(client, hook(called.url(), reinvocationPolicy="IfNeeded"), mutates=True)
        made = await client.ask("POST", MAPS, config_map())
    assert made["data"] == {"a": "1", "seen": "hook", "hook": "yes"}
    assert [one["object"]["data"] for one in called.requests] == [
        {"a": "1", "seen": "none"},
        {"a": "1", "seen": "hook", "hook": "yes"},
    ]


async def test_what_a_policy_made_is_validated(client: Client) -> None:
    await define(client, applied("Object{metadata: Object.metadata{labels: {'a b': 'c'}}}"))
    refused = await client.ask("POST", MAPS, config_map(), code=422)
    assert "metadata.labels" in refused["message"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mutations": []}, "spec.mutations"),
        ({"reinvocationPolicy": None}, "spec.reinvocationPolicy"),
        ({"reinvocationPolicy": "Always"}, "spec.reinvocationPolicy"),
        ({"mutations": [{}]}, "spec.mutations[0].patchType"),
        ({"mutations": [{"patchType": "Merge"}]}, "spec.mutations[0].patchType"),
        ({"mutations": [{"patchType": "JSONPatch"}]}, "spec.mutations[0].jsonPatch"),
        ({"mutations": [{**applied("Object{}"), **patched("[]")}]}, "spec.mutations[0].applyConfiguration"),
        ({"mutations": [applied("Object{")]}, "spec.mutations[0].applyConfiguration.expression"),
        ({"mutations": [applied("Thing{}")]}, "spec.mutations[0].applyConfiguration.expression"),
        ({"mutations": [patched(" ")]}, "spec.mutations[0].jsonPatch.expression"),
        ({"variables": [{"name": "a", "expression": "Object{}"}]}, "spec.variables[0].expression"),
        (
            {"matchConstraints": {"resourceRules": [rule("DELETE")]}},
            "spec.matchConstraints.resourceRules.operations",
        ),
    ],
)
async def test_a_policy_that_cannot_be_is_refused(client: Client, spec: Json, field: str) -> None:
    refused = await client.ask("POST", POLICIES, body(applied("Object{}"), **spec), code=422)
    assert field in [cause["field"] for cause in refused["details"]["causes"]]


async def test_a_binding_that_cannot_be_is_refused(client: Client) -> None:
    spec = {"matchResources": {"resourceRules": [rule("DELETE")]}}
    refused = await client.ask("POST", BINDINGS, {"metadata": {"name": "b"}, "spec": spec}, code=422)
    assert {cause["field"] for cause in refused["details"]["causes"]} == {
        "spec.policyName",
        "spec.matchResources.resourceRules.operations",
    }


async def test_large_values_that_stand_in_a_patch_often_are_paid_for(client: Client) -> None:
    patches = ", ".join(f"JSONPatch{{op: 'add', path: '/data/k{n}', value: object.data.a}}" for n in range(200))
    await define(client, patched(f"[{patches}]"))
    small = await client.ask("POST", MAPS, config_map("small", data={"a": "x"}))
    assert len(small["data"]) == 201
    refused = await client.ask("POST", MAPS, config_map("large", data={"a": "x" * 500_000}), code=403)
    assert "cost limit exceeded" in refused["message"]
