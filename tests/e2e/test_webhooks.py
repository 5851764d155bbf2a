"""Webhooks and admission policies as kubectl's users meet them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually
from tests.server.webhookserver import Webhook, patch, webhook

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"


@contextlib.contextmanager
def calling(answer: Callable[[Json], Json]) -> Iterator[Webhook]:
    """Serve a webhook beside the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = webhook(answer)

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=60)

    hook = run(serving.__aenter__())
    try:
        yield hook
    finally:
        run(serving.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def stored(world: World, *manifests: Json) -> Iterator[None]:
    """Store objects of the cluster, and remove them in the end."""
    for manifest in manifests:
        world.apply({"apiVersion": GROUP, **manifest})
    try:
        yield
    finally:
        for manifest in manifests:
            world.kubectl("delete", manifest["kind"], manifest["metadata"]["name"])


def configuration(kind: str, namespace: str, hook: Webhook, **members: Any) -> Json:
    rules = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    one = {
        "name": "maps.example.com",
        "clientConfig": hook.url(),
        "rules": rules,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **members,
    }
    return {"kind": kind, "metadata": {"name": namespace}, "webhooks": [one]}


def create(world: World, namespace: str, name: str, *literals: str) -> str:
    """Return what kubectl prints, errors and warnings too."""
    sent = [f"--from-literal={literal}" for literal in literals]
    return spoken(world, "create", "configmap", name, "-n", namespace, *sent)


def spoken(world: World, *args: str, stdin: str | None = None) -> str:
    """Return what kubectl prints, whether it succeeds or not."""
    done = world.kubectl_process(*args, stdin=stdin, check=False)
    return done.stdout + done.stderr


def test_a_mutating_webhook_fills_in(world: World, namespace: str) -> None:
    marks = patch({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})
    with (
        calling(lambda _: marks) as hook,
        stored(world, configuration("MutatingWebhookConfiguration", namespace, hook)),
    ):
        names = (f"m{number}" for number in range(1000))
        eventually(lambda: create(world, namespace, next(names)) and hook.requests, what="the webhook is called")
        create(world, namespace, "last", "a=1")
    found = world.get("configmap", "last", "-n", namespace)
    assert found["metadata"]["labels"] == {"seen": "yes"}
    assert hook.requests[-1]["object"]["data"] == {"a": "1"}


def test_a_validating_webhook_refuses_creations_and_deletions(world: World, namespace: str) -> None:
    def answer(request: Json) -> Json:
        obj = request["object"] or request["oldObject"]
        kept = "keep" in (obj.get("data") or {}) and request["operation"] == "DELETE"
        bad = "bad" in (obj.get("data") or {})
        return {"allowed": not (kept or bad), "status": {"message": f"{request['operation']} is refused", "code": 403}}

    with calling(answer) as hook, stored(world, configuration("ValidatingWebhookConfiguration", namespace, hook)):
        eventually(
            lambda: "CREATE is refused" in create(world, namespace, "bad", "bad=1"),
            what="the webhook refuses",
            every=0.5,
        )
        assert "created" in create(world, namespace, "kept", "keep=1")
        refused = spoken(world, "delete", "configmap", "kept", "-n", namespace)
        assert 'admission webhook "maps.example.com" denied the request: DELETE is refused' in refused
        world.kubectl("patch", "configmap", "kept", "-n", namespace, "--type=merge", "-p", '{"data":null}')
        world.kubectl("delete", "configmap", "kept", "-n", namespace)


def test_a_webhook_that_is_gone_stops_writes_until_its_configuration_goes(world: World, namespace: str) -> None:
    with calling(lambda _: {"allowed": True}) as hook:
        pass
    with stored(world, configuration("ValidatingWebhookConfiguration", namespace, hook)):
        names = (f"m{number}" for number in range(1000))
        eventually(
            lambda: 'failed calling webhook "maps.example.com"' in create(world, namespace, next(names)),
            what="the webhook is missed",
        )
    eventually(lambda: "created" in create(world, namespace, next(names)), what="writes pass again")


def policy(namespace: str, **spec: Any) -> Json:
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    return {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {"matchConstraints": {"resourceRules": rules}, **spec},
    }


def binding(namespace: str, *actions: str, **spec: Any) -> Json:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    body = {
        "policyName": namespace,
        "validationActions": list(actions),
        "matchResources": {"namespaceSelector": selector},
    }
    return {"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": namespace}, "spec": {**body, **spec}}


def test_a_policy_with_parameters_refuses(world: World, namespace: str) -> None:
    create(world, namespace, "limits", "most=2")
    rule = {
        "expression": "size(variables.data) <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most + ' entries, not ' + string(size(variables.data))",
    }
    variables = [{"name": "data", "expression": "has(object.data) ? object.data : {}"}]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"name": "limits", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    with stored(
        world,
        policy(namespace, validations=[rule], variables=variables, paramKind=kind),
        binding(namespace, "Deny", paramRef=ref),
    ):
        names = (f"m{number}" for number in range(1000))
        refused = eventually(
            lambda: (
                "denied request: at most 2 entries"
                in (said := create(world, namespace, next(names), "a=1", "b=2", "c=3"))
                and said
            ),
            what="the policy refuses",
            every=0.5,
        )
        assert f"ValidatingAdmissionPolicy '{namespace}' with binding '{namespace}' denied request: " in refused
        assert "created" in create(world, namespace, "small", "a=1")


def test_a_policy_warns(world: World, namespace: str) -> None:
    rule = {"expression": "has(object.data)", "message": "it is empty"}
    with stored(world, policy(namespace, validations=[rule]), binding(namespace, "Warn")):
        names = (f"m{number}" for number in range(1000))
        warned = eventually(
            lambda: "Warning: " in (said := create(world, namespace, next(names))) and said,
            what="the policy warns",
            every=0.5,
        )
    assert "Validation failed for ValidatingAdmissionPolicy" in warned
    assert "it is empty" in warned


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"validations": [{"expression": "]"}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": "true"}], "failurePolicy": "Maybe"}, "spec.failurePolicy"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(world: World, namespace: str, spec: Json, field: str) -> None:
    body = json.dumps({"apiVersion": GROUP, **policy(namespace, **spec)})
    assert field in spoken(world, "create", "-f", "-", stdin=body)


def mutating(namespace: str, *mutations: Json, **spec: Any) -> tuple[Json, Json]:
    """Return a policy that changes config maps of a namespace, and its binding."""
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    body = {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never", "mutations": list(mutations)}
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    bound = {"policyName": namespace, "matchResources": selector}
    named = {"metadata": {"name": namespace}}
    return (
        {"kind": "MutatingAdmissionPolicy", **named, "spec": {**body, **spec}},
        {"kind": "MutatingAdmissionPolicyBinding", **named, "spec": bound},
    )


def test_a_mutating_policy_fills_in(world: World, namespace: str) -> None:
    merged = "Object{metadata: Object.metadata{labels: {'seen': variables.seen}, annotations: {'a': object.data.a}}}"
    patched = """has(object.data) ? [
        JSONPatch{op: 'test', path: '/data/a', value: '1'},
        JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('b'), value: object.metadata.labels.seen}
    ] : []"""
    mutations = (
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": merged}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression": patched}},
    )
    variables = [{"name": "seen", "expression": "'by-' + request.operation"}]
    with stored(world, *mutating(namespace, *mutations, variables=variables)):
        names = (f"m{number}" for number in range(1000))

        def filled() -> Json | None:
            name = next(names)
            create(world, namespace, name, "a=1")
            found = world.get("configmap", name, "-n", namespace)
            return found if found["metadata"].get("labels") else None

        found = eventually(filled, what="the policy fills in", every=0.5)
        create(world, namespace, "other", "a=2")
        other = world.get("configmap", "other", "-n", namespace)
    assert found["metadata"]["labels"] == {"seen": "by-CREATE"}
    assert found["metadata"]["annotations"] == {"a": "1"}
    assert (found["data"], other["data"]) == ({"a": "1", "b": "by-CREATE"}, {"a": "2"})


def test_a_mutating_policy_that_fails_refuses(world: World, namespace: str) -> None:
    wrong = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{datas: {'a': '1'}}"}}
    with stored(world, *mutating(namespace, wrong)):
        names = (f"m{number}" for number in range(1000))
        refused = eventually(
            lambda: "denied request" in (said := create(world, namespace, next(names))) and said,
            what="the policy refuses",
            every=0.5,
        )
    assert f"policy '{namespace}' with binding '{namespace}' denied request: error applying patch: " in refused
    assert ".datas: field not declared in schema" in refused


def test_a_mutating_policy_that_cannot_be_is_refused(world: World, namespace: str) -> None:
    wrong = {"patchType": "JSONPatch", "jsonPatch": {"expression": "]"}, "applyConfiguration": {"expression": "1"}}
    manifest, _ = mutating(namespace, wrong, {"patchType": "Merge"})
    said = spoken(world, "create", "-f", "-", stdin=json.dumps({"apiVersion": GROUP, **manifest}))
    for field in ("mutations[0].jsonPatch.expression", "mutations[0].applyConfiguration", "mutations[1].patchType"):
        assert field in said


def test_a_policy_asks_the_authorizer(world: World, namespace: str) -> None:
    account = f"authorizer.serviceAccount('{namespace}', 'robot').group('').resource('configmaps')"
    rule = {
        "expression": f"{account}.namespace('{namespace}').name(object.metadata.name).check('update').allowed()",
        "message": "robot may not change it",
    }
    world.kubectl(
        "create", "role", "robot", "--verb=update", "--resource=configmaps", "--resource-name=m", "-n", namespace
    )
    world.kubectl(
        "create", "rolebinding", "robot", "--role=robot", f"--serviceaccount={namespace}:robot", "-n", namespace
    )
    with stored(world, policy(namespace, validations=[rule]), binding(namespace, "Deny")):
        names = (f"n{number}" for number in range(1000))
        eventually(
            lambda: "robot may not change it" in create(world, namespace, next(names)),
            what="the policy refuses",
            every=0.5,
        )
        assert "created" in create(world, namespace, "m")


def test_a_policy_sees_its_own_version(world: World, namespace: str) -> None:
    rule = {
        "expression": "object.spec.targetCPUUtilizationPercentage < 50",
        "messageExpression": "string(object.spec.targetCPUUtilizationPercentage) + ' is too much'",
    }
    manifest = policy(namespace, validations=[rule])
    resources = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    manifest["spec"]["matchConstraints"]["resourceRules"] = [{"operations": ["CREATE"], **resources}]
    target = {"type": "Utilization", "averageUtilization": 70}
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    with stored(world, manifest, binding(namespace, "Deny")):
        names = (f"h{number}" for number in range(1000))

        def said() -> str:
            metadata = {"name": next(names), "namespace": namespace}
            return spoken(world, "create", "-f", "-", stdin=json.dumps({**kind, "metadata": metadata, "spec": spec}))

        eventually(lambda: "70 is too much" in said(), what="the policy sees the version of its rule", every=0.5)
