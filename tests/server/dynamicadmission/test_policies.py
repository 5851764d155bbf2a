"""ValidatingAdmissionPolicies: what they decide, with which parameters, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strato.api.wire import Request
from tests.server.asking import ADMIN, MERGE, Client
from tests.server.test_rights import JANE, give, make
from tests.server.webhookserver import Json

from .configuring import GROUP, MAPS, config_map, rule, serving


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving() as client:
        yield client


async def define(client: Client, *validations: Json, name: str = "p", **spec: Any) -> None:
    body = {"matchConstraints": {"resourceRules": [rule("CREATE", "UPDATE", "DELETE")]}, **spec}
    if validations:
        body["validations"] = list(validations)
    await client.ask("POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": body})


async def bind(client: Client, *actions: str, name: str = "b", policy: str = "p", **spec: Any) -> None:
    body = {"policyName": policy, "validationActions": list(actions or ("Deny",)), **spec}
    await client.ask("POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": body})


SMALL = {"expression": "!has(object.data) || size(object.data) <= 1"}
LARGE = config_map(data={"a": "1", "b": "2"})


async def test_a_policy_refuses_once_it_is_bound(client: Client) -> None:
    await define(client, SMALL)
    await client.ask("POST", MAPS, config_map("before", data=LARGE["data"]))
    await bind(client)
    refused = await client.ask("POST", MAPS, LARGE, code=422)
    assert refused["message"] == (
        "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: !has(object.data) || size(object.data) <= 1"
    )
    assert (refused["reason"], refused["details"]["name"]) == ("Invalid", "m")
    await client.ask("POST", MAPS, config_map())
    await client.ask("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
    await client.ask("POST", MAPS, config_map("after", data=LARGE["data"]))


@pytest.mark.parametrize(
    ("validation", "code", "want"),
    [
        ({"expression": "false", "message": "never"}, 422, "never"),
        ({"expression": "false", "messageExpression": "'no ' + object.metadata.name"}, 422, "no m"),
        ({"expression": "false", "messageExpression": "object.none", "message": "plain"}, 422, "plain"),
        ({"expression": "false", "messageExpression": "'two\\nlines'"}, 422, "failed expression: false"),
        ({"expression": "false", "reason": "Forbidden"}, 403, "failed expression: false"),
        ({"expression": "object.none == 1"}, 422, "no such key: none"),
        ({"expression": "variables.big"}, 422, "failed expression: variables.big"),
        ({"expression": "request.operation != 'CREATE'"}, 422, "failed expression"),
        ({"expression": "namespaceObject.metadata.name != 'default'"}, 422, "failed expression"),
        ({"expression": "oldObject != null"}, 422, "failed expression"),
        ({"expression": "params != null"}, 422, "failed expression"),
        ({"expression": "1"}, 422, "failed expression: 1"),
    ],
)
async def test_a_refusal_says_why(client: Client, validation: Json, code: int, want: str) -> None:
    variables = [
        {"name": "count", "expression": "size(object.data)"},
        {"name": "big", "expression": "variables.count > 9"},
    ]
    await define(client, validation, variables=variables)
    await bind(client)
    refused = await client.ask("POST", MAPS, LARGE, code=code)
    assert want in refused["message"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("object.none == 1", id="an error"),
        pytest.param("variables.me == 1", id="a variable that looks at itself"),
        pytest.param(
            f"{'object.data.all(a, ' * 5}true{')' * 5} || true".replace("object.data", str(list(range(99)))), id="cost"
        ),
    ],
)
async def test_what_cannot_be_evaluated_follows_the_failure_policy(
    client: Client, policy: str, expression: str
) -> None:
    variables = [{"name": "me", "expression": "variables.me + 1"}]
    await define(client, {"expression": expression}, failurePolicy=policy, variables=variables)
    await bind(client)
    assert (await client.send("POST", MAPS, LARGE)).status == (422 if policy == "Fail" else 201)


async def test_actions_warn_and_audit_instead(client: Client) -> None:
    await define(client, {"expression": "false", "message": "never"})
    await bind(client, "Warn", "Audit")
    request = Request("POST", MAPS, {}, {}, json.dumps(LARGE).encode(), ADMIN, annotations={})
    made = await client.server.handle(request)
    assert made.status == 201
    said = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never"
    assert made.headers["warning"] == f'299 - "{said}"'
    assert request.annotations is not None
    (failure,) = json.loads(request.annotations["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["message"], failure["policy"], failure["binding"]) == ("never", "p", "b")


async def test_audit_annotations_are_published(client: Client) -> None:
    annotations = [
        {"key": "count", "valueExpression": "'has ' + string(size(object.data))"},
        {"key": "none", "valueExpression": "null"},
    ]
    await define(client, auditAnnotations=annotations)
    await bind(client)
    request = Request("POST", MAPS, {}, {}, json.dumps(LARGE).encode(), ADMIN, annotations={})
    assert (await client.server.handle(request)).status == 201
    assert request.annotations == {"p/count": "has 2"}


PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}
AT_MOST = {"expression": "params == null || size(object.data) <= int(params.data.most)"}
ABOUT_M = {"matchConditions": [{"name": "m", "expression": "object.metadata.name == 'm'"}]}


@pytest.mark.parametrize(
    ("ref", "status"),
    [
        pytest.param({"name": "loose", "namespace": "default"}, 201, id="one that allows it"),
        pytest.param({"name": "tight", "namespace": "default"}, 422, id="one that does not"),
        pytest.param({"name": "tight"}, 422, id="in the namespace of the object"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, 422, id="all that are selected"),
        pytest.param({"selector": {"matchLabels": {"a": "loose"}}}, 201, id="another selector"),
        pytest.param({"name": "none"}, 422, id="none, which denies"),
        pytest.param({"name": "none", "parameterNotFoundAction": "Allow"}, 201, id="none, which allows"),
    ],
)
async def test_parameters_come_from_other_objects(client: Client, ref: Json, status: int) -> None:
    for name, most in (("loose", "9"), ("tight", "1")):
        labels = {"a": "b" if name == "tight" else "loose"}
        await client.ask("POST", MAPS, config_map(metadata={"name": name, "labels": labels}, data={"most": most}))
    await define(client, AT_MOST, paramKind=PARAMS, **ABOUT_M)
    await bind(client, paramRef={"parameterNotFoundAction": "Deny", **ref})
    assert (await client.send("POST", MAPS, LARGE)).status == status


async def test_parameters_of_a_kind_that_is_not_served_are_told(client: Client) -> None:
    await define(client, AT_MOST, paramKind={"apiVersion": "a.b/v1", "kind": "Limit"})
    await bind(client, paramRef={"name": "x", "parameterNotFoundAction": "Deny"})
    refused = await client.ask("POST", MAPS, LARGE, code=422)
    assert "failed to configure binding: paramKind kind `a.b/v1, Kind=Limit` not known" in refused["message"]


@pytest.mark.parametrize(
    ("matching", "refused"),
    [
        ({}, True),
        ({"resourceRules": [rule("CREATE", resourceNames=["m"])]}, True),
        ({"resourceRules": [rule("CREATE", resourceNames=["n"])]}, False),
        ({"resourceRules": [rule("UPDATE")]}, False),
        ({"excludeResourceRules": [rule("CREATE", resourceNames=["m"])]}, False),
        ({"excludeResourceRules": [rule("CREATE", resourceNames=["n"])]}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
    ],
)
async def test_a_binding_narrows_what_a_policy_is_about(client: Client, matching: Json, refused: bool) -> None:
    await define(client, {"expression": "false"})
    await bind(client, matchResources=matching)
    assert (await client.send("POST", MAPS, LARGE)).status == (422 if refused else 201)


async def test_updates_and_deletions_are_judged(client: Client) -> None:
    await client.ask("POST", MAPS, config_map(data={"a": "1"}))
    fixed = {"expression": "request.operation == 'DELETE' || object.data.a == oldObject.data.a"}
    await define(client, fixed, {"expression": "request.operation != 'DELETE' || object == null"}, name="fixed")
    await define(client, {"expression": "request.operation != 'DELETE'"}, name="kept")
    for policy in ("fixed", "kept"):
        await bind(client, name=policy, policy=policy)
    await client.ask("PATCH", f"{MAPS}/m", {"data": {"b": "2"}}, MERGE)
    await client.ask("PATCH", f"{MAPS}/m", {"data": {"a": "2"}}, MERGE, code=422)
    refused = await client.ask("DELETE", f"{MAPS}/m", code=422)
    assert "'kept'" in refused["message"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.validations"),
        ({"validations": [{"expression": "]"}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": " "}]}, "spec.validations[0].expression"),
        ({"validations": [SMALL], "matchConstraints": {}}, "spec.matchConstraints.resourceRules"),
        ({"validations": [SMALL], "matchConditions": [{"name": "a", "expression": "1 +"}]}, "matchConditions[0]"),
        ({"validations": [SMALL], "variables": [{"name": "1", "expression": "1"}]}, "spec.variables[0].name"),
        ({"validations": [{**SMALL, "reason": "Because"}]}, "spec.validations[0].reason"),
        ({"auditAnnotations": [{"key": "a b", "valueExpression": "''"}]}, "spec.auditAnnotations[0].key"),
        ({"validations": [SMALL], "paramKind": {"kind": "A"}}, "spec.paramKind.apiVersion"),
        ({"validations": [SMALL], "matchConstraints": {"resourceRules": [rule("READ")]}}, "operations[0]"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused(client: Client, spec: Json, field: str) -> None:
    body = {"matchConstraints": {"resourceRules": [rule()]}, **spec}
    path = f"{GROUP}/validatingadmissionpolicies"
    refused = await client.ask("POST", path, {"metadata": {"name": "p"}, "spec": body}, code=422)
    assert any(field in cause["field"] for cause in refused["details"]["causes"])


async def test_a_policy_does_not_become_one_that_cannot_be(client: Client) -> None:
    await define(client, SMALL)
    change = {"spec": {"validations": [{"expression": "]"}]}}
    await client.ask("PATCH", f"{GROUP}/validatingadmissionpolicies/p", change, MERGE, code=422)


DEPLOYMENTS = {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
TYPED = [
    pytest.param("object.spec.replicas > 1", "", id="numbers"),
    pytest.param(
        "object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'", id=">"
    ),
    pytest.param("'a' + object.spec.replicas == ''", "for '_+_' applied to '(string, int)'", id="+"),
    pytest.param("object.spec.replica == 1", "undefined field 'replica'", id="a field that there is not"),
    pytest.param("variables.wrong", "undefined field 'none'", id="a variable"),
    pytest.param("object.metadata.labels.any == 'x' && size(object.metadata.labels) > 0", "", id="labels"),
    pytest.param("object.spec.template.spec.containers.all(c, c.image.startsWith('a'))", "", id="a list"),
    pytest.param("object.spec.template.spec.containers[0].images == ''", "undefined field 'images'", id="an item"),
    pytest.param("params.a.b + 1 > request.dryRun", "", id="what is not known"),
    pytest.param("object.spec.strategy.rollingUpdate.maxSurge > 1", "", id="a number or a text"),
    pytest.param("object == oldObject", "", id="all of it"),
]


@pytest.mark.parametrize(("expression", "want"), TYPED)
async def test_types_are_looked_at(client: Client, expression: str, want: str) -> None:
    variables = [{"name": "wrong", "expression": "object.spec.none"}]
    await define(
        client, {"expression": expression}, matchConstraints={"resourceRules": [DEPLOYMENTS]}, variables=variables
    )
    found = await client.ask("GET", f"{GROUP}/validatingadmissionpolicies/p")
    assert found["status"]["observedGeneration"] == 1
    warnings = found["status"]["typeChecking"].get("expressionWarnings", [])
    about = {one["fieldRef"]: one["warning"] for one in warnings}
    about.pop("spec.variables[0].expression")
    assert list(about) == (["spec.validations[0].expression"] if want else [])
    assert want in "".join(about.values())


async def test_types_are_looked_at_again_when_a_policy_changes(client: Client) -> None:
    await define(client, {"expression": "object.none == 1"})
    path = f"{GROUP}/validatingadmissionpolicies/p"
    changed = await client.ask("PATCH", path, {"spec": {"validations": [SMALL]}}, MERGE)
    assert changed["status"] == {"observedGeneration": 2, "typeChecking": {}}


async def test_types_of_schemas_that_hold_themselves_are_looked_at(client: Client) -> None:
    rules = {"apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["v1"], "resources": ["customresourcedefinitions"]}
    name = "object.spec.versions[0].schema.openAPIV3Schema.properties.a.properties.b.nothing"
    await define(
        client, {"expression": f"{name} == 1"}, matchConstraints={"resourceRules": [{**rules, "operations": ["*"]}]}
    )
    found = await client.ask("GET", f"{GROUP}/validatingadmissionpolicies/p")
    (warning,) = found["status"]["typeChecking"]["expressionWarnings"]
    assert "undefined field 'nothing'" in warning["warning"]


ALLOWED = [
    ("authorizer.requestResource.check('create').allowed()", True),
    ("authorizer.requestResource.check('delete').allowed()", False),
    ("authorizer.group('').resource('configmaps').namespace('default').name('m').check('create').allowed()", True),
    ("authorizer.group('').resource('configmaps').namespace('other').check('create').allowed()", False),
    ("authorizer.group('').resource('pods').subresource('exec').namespace('default').check('create').allowed()", False),
    ("authorizer.path('/version').check('get').allowed()", True),
    ("authorizer.path('/metrics').check('get').allowed()", False),
    ("authorizer.serviceAccount('default', 'robot').path('/version').check('get').allowed()", True),
    ("authorizer.serviceAccount('default', 'robot').requestResource.check('get').allowed()", False),
    (
        "authorizer.serviceAccount('default', 'robot').group('').resource('secrets').namespace('default')"
        ".labelSelector('a=b').fieldSelector('metadata.name=x').check('get').allowed()",
        False,
    ),
    ("authorizer.requestResource.check('create').reason() != ''", True),
    ("authorizer.requestResource.check('create').errored()", False),
    ("authorizer.requestResource.check('create').error() == ''", True),
]


@pytest.mark.parametrize(("expression", "holds"), ALLOWED)
async def test_expressions_ask_the_authorizer(expression: str, holds: bool) -> None:
    server = make()
    admin = Client(server)
    await give(server, ["create"], ["configmaps"], namespace="default")
    await define(admin, {"expression": expression})
    await bind(admin)
    made = await Client(server, JANE).send("POST", MAPS, config_map())
    assert made.status == (201 if holds else 422)


@pytest.mark.parametrize("expression", ["authorizer.path('').check('get').allowed()", "authorizer.check('get')"])
async def test_unfinished_questions_are_errors(client: Client, expression: str) -> None:
    await define(client, {"expression": expression})
    await bind(client)
    await client.ask("POST", MAPS, config_map(), code=422)
