"""Webhooks that users configure, called over HTTPS on loopback: what they are asked, and what their answers do."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strato.api.wire import Request, Response, User
from tests.server.asking import ADMIN, MERGE, Client
from tests.server.webhookserver import Json, bundle, patch, webhook

from .configuring import GROUP, MAPS, config_map, configure, hook, rule, serving


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving() as client:
        yield client


def allow(_: Json) -> Json:
    return {"allowed": True}


def add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


async def test_a_mutating_webhook_changes_what_is_stored(client: Client) -> None:
    async with webhook(lambda _: patch(add("/data", {"a": "1"}), add("/metadata/labels", {"x": "y"}))) as one:
        await configure(client, hook(one.url()), mutates=True)
        made = await client.ask("POST", MAPS, config_map())
    assert (made["data"], made["metadata"]["labels"]) == ({"a": "1"}, {"x": "y"})
    assert (await client.ask("GET", f"{MAPS}/m")) == made


async def test_a_review_says_who_does_what_to_which_object(client: Client) -> None:
    async with webhook(allow) as one:
        await configure(client, hook(one.url()))
        await client.ask("POST", MAPS, config_map())
        await client.ask("PATCH", f"{MAPS}/m", {"data": {"a": "1"}}, MERGE, dryRun="All")
        await client.ask("DELETE", f"{MAPS}/m")
    created, updated, deleted = one.requests
    assert created["operation"] == "CREATE"
    assert created["kind"] == created["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (created["name"], created["namespace"], created["dryRun"]) == ("m", "default", False)
    assert created["userInfo"] == {"username": ADMIN.name, "groups": list(ADMIN.groups)}
    assert created["object"]["metadata"]["name"] == "m"
    assert created["oldObject"] is None
    assert created["options"]["kind"] == "CreateOptions"
    assert updated["operation"] == "UPDATE"
    assert (updated["dryRun"], updated["options"]["kind"]) == (True, "UpdateOptions")
    assert (updated["object"]["data"], updated["oldObject"].get("data")) == ({"a": "1"}, None)
    assert (deleted["operation"], deleted["object"]) == ("DELETE", None)
    assert deleted["oldObject"]["metadata"]["name"] == "m"
    assert deleted["options"]["kind"] == "DeleteOptions"
    assert len({one["uid"] for one in one.requests}) == 3


@pytest.mark.parametrize(
    ("status", "code", "want"),
    [
        pytest.param({"message": "no maps"}, 400, "denied the request: no maps", id="a message"),
        pytest.param({"code": 403, "reason": "Forbidden"}, 403, "denied the request: Forbidden", id="code and reason"),
        pytest.param({"code": 200, "message": 7}, 400, "denied the request without explanation", id="nonsense"),
        pytest.param({}, 400, "denied the request without explanation", id="nothing"),
    ],
)
async def test_a_refusal_is_answered_as_it_is_given(client: Client, status: Json, code: int, want: str) -> None:
    async with webhook(lambda _: {"allowed": False, "status": status}) as one:
        await configure(client, hook(one.url()))
        refused = await client.ask("POST", MAPS, config_map(), code=code)
    assert refused["message"] == f'admission webhook "a.example.com" {want}'
    await client.ask("GET", f"{MAPS}/m", code=404)


GARBAGE = [
    pytest.param(Response(200, b"not json"), "couldn't get version", id="no JSON"),
    pytest.param(Response(200, b"[]"), "response was absent", id="no review"),
    pytest.param(Response(500, b"{}"), "unexpected status 500", id="an error"),
    pytest.param(Response(302, headers={"Location": "/a"}), "redirects are not followed", id="a redirect"),
    pytest.param({"allowed": True, "uid": "x"}, "expected response.uid", id="the uid of another"),
    pytest.param({"allowed": 1}, "not true or false", id="an odd verdict"),
    pytest.param({"allowed": True, "patch": "e30="}, "not response.patchType", id="a patch without a type"),
    pytest.param({"allowed": True, "patchType": "JSONPatch"}, "not response.patch", id="a type without a patch"),
    pytest.param({"allowed": True, "patch": "e30=", "patchType": "Merge"}, "unsupported patch type", id="another type"),
    pytest.param({"allowed": True, "patch": "?", "patchType": "JSONPatch"}, "not base64", id="no base64"),
    pytest.param({"allowed": True, "patch": "Pw==", "patchType": "JSONPatch"}, "undecodable patch", id="no patch"),
    pytest.param({"allowed": True, "warnings": "x"}, "not a list of texts", id="odd warnings"),
    pytest.param(Response(200, b"[" * 100_000), "", id="a deep answer"),
]


@pytest.mark.parametrize(("answer", "want"), GARBAGE)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_an_answer_that_is_none_follows_the_failure_policy(
    client: Client, answer: Any, want: str, policy: str
) -> None:
    async with webhook(lambda _: answer) as one:
        await configure(client, hook(one.url(), failurePolicy=policy), mutates=True)
        made = await client.send("POST", MAPS, config_map())
    if policy == "Ignore":
        assert made.status == 201
        return
    assert made.status == 500
    text = json.loads(made.body)["message"]
    assert text.startswith('Internal error occurred: failed calling webhook "a.example.com": ')
    assert want in text or want == "couldn't get version"


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([add("/metadata/name", {"a": 1})], id="a name that is none"),
        pytest.param([{"op": "remove", "path": "/nothing"}], id="what is not there"),
        pytest.param([add("/kind", "Secret")], id="another kind"),
        pytest.param([add("/data", "text")], id="a wrong type"),
        pytest.param([add("/metadata/namespace", "other")], id="another namespace"),
    ],
)
async def test_a_patch_that_makes_no_object_is_refused(client: Client, operations: list[Json]) -> None:
    async with webhook(lambda _: patch(*operations)) as one:
        await configure(client, hook(one.url(), failurePolicy="Ignore"), mutates=True)
        made = await client.send("POST", MAPS, config_map())
    assert made.status >= 400, made.body
    assert (await client.send("GET", f"{MAPS}/m")).status == 404


async def test_what_a_webhook_makes_of_an_object_is_validated(client: Client) -> None:
    async with webhook(lambda _: patch(add("/data", {"no key!": "1"}))) as one:
        await configure(client, hook(one.url()), mutates=True)
        refused = await client.ask("POST", MAPS, config_map(), code=422)
    assert "data[no key!]" in refused["message"]


async def test_what_the_server_gives_an_object_cannot_be_changed(client: Client) -> None:
    made = patch(
        add("/metadata/uid", "mine"), add("/metadata/creationTimestamp", None), add("/metadata/resourceVersion", "9")
    )
    async with webhook(lambda _: made) as one:
        await configure(client, hook(one.url()), mutates=True)
        stored = await client.ask("POST", MAPS, config_map())
        changed = await client.ask("PATCH", f"{MAPS}/m", {"data": {"a": "1"}}, MERGE)
    assert stored["metadata"]["uid"] != "mine"
    assert stored["metadata"]["creationTimestamp"]
    assert changed["metadata"]["uid"] == stored["metadata"]["uid"]


async def test_validating_webhooks_see_what_mutating_ones_made_and_change_nothing(client: Client) -> None:
    async with webhook(lambda _: patch(add("/data", {"a": "1"}))) as one, webhook(allow) as other:
        await configure(client, hook(one.url()), mutates=True)
        await configure(client, hook(other.url()))
        await client.ask("POST", MAPS, config_map())
    assert other.requests[0]["object"]["data"] == {"a": "1"}
    async with webhook(lambda _: patch(add("/data", {"a": "1"}))) as one:
        await client.ask("DELETE", f"{GROUP}/mutatingwebhookconfigurations/hooks")
        await client.ask("DELETE", f"{GROUP}/validatingwebhookconfigurations/hooks")
        await configure(client, hook(one.url()))
        refused = await client.ask("POST", MAPS, config_map("n"), code=500)
    assert "validating webhook may not return response.patch" in refused["message"]


async def test_configurations_are_called_by_name_and_again_where_asked(client: Client) -> None:
    order: list[str] = []

    def named(name: str, *operations: Json) -> Any:
        def answer(_: Json) -> Json:
            order.append(name)
            return patch(*operations) if operations else {"allowed": True}

        return answer

    async with (
        webhook(named("first")) as one,
        webhook(named("second", add("/data", {"a": "1"}))) as two,
        webhook(named("third")) as three,
    ):
        await configure(client, hook(two.url()), mutates=True, name="b")
        await configure(
            client, hook(one.url(), reinvocationPolicy="IfNeeded"), hook(three.url(), "c.b.c"), mutates=True, name="a"
        )
        await client.ask("POST", MAPS, config_map())
    assert order == ["first", "third", "second", "first"]
    assert one.requests[1]["object"]["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("members", "called"),
    [
        ({"rules": [rule("CREATE")]}, True),
        ({"rules": [rule("UPDATE", "DELETE", "CONNECT")]}, False),
        ({"rules": [rule(apiGroups=["apps"])]}, False),
        ({"rules": [rule(apiGroups=["*"], apiVersions=["*"], resources=["*"])]}, True),
        ({"rules": [rule(resources=["*/*"])]}, True),
        ({"rules": [rule(resources=["configmaps/status"])]}, False),
        ({"rules": [rule(scope="Namespaced")]}, True),
        ({"rules": [rule(scope="Cluster")]}, False),
        ({"objectSelector": {"matchLabels": {"x": "y"}}}, True),
        ({"objectSelector": {"matchLabels": {"x": "z"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "none", "operator": "Exists"}]}}, False),
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'm'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "request.userInfo.username == 'nobody'"}]}, False),
        (
            {"matchConditions": [{"name": n, "expression": e} for n, e in (("a", "object.none"), ("b", "false"))]},
            False,
        ),
    ],
)
async def test_a_webhook_is_called_about_what_it_asks_for(client: Client, members: Json, called: bool) -> None:
    async with webhook(allow) as one:
        await configure(client, hook(one.url(), **members))
        await client.ask("POST", MAPS, config_map(metadata={"name": "m", "labels": {"x": "y"}}))
    assert bool(one.requests) is called


@pytest.mark.parametrize(("policy", "status"), [("Fail", 403), ("Ignore", 201)])
async def test_conditions_that_cannot_be_evaluated_follow_the_failure_policy(
    client: Client, policy: str, status: int
) -> None:
    conditions = [{"name": "a", "expression": "object.none == 1"}]
    async with webhook(lambda _: {"allowed": False}) as one:
        await configure(client, hook(one.url(), matchConditions=conditions, failurePolicy=policy))
        assert (await client.send("POST", MAPS, config_map())).status == status
    assert one.requests == []


async def test_a_webhook_that_hangs_holds_nobody_else(client: Client) -> None:
    hold = asyncio.Event()

    async def slow(_: Json) -> Json:
        await hold.wait()
        return {"allowed": True}

    async with webhook(slow) as one:
        await configure(client, hook(one.url(), timeoutSeconds=30))
        waiting = asyncio.ensure_future(client.send("POST", MAPS, config_map()))
        while not one.requests:
            await asyncio.sleep(0)
        secret = {"metadata": {"name": "s"}}
        assert (await client.send("POST", "/api/v1/namespaces/default/secrets", secret)).status == 201
        assert not waiting.done()
        hold.set()
        assert (await waiting).status == 201


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_is_silent_or_gone_follows_the_failure_policy(
    client: Client, policy: str, status: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/", "caBundle": bundle()}
        await configure(client, hook(config, timeoutSeconds=1, failurePolicy=policy))
        made = await client.send("POST", MAPS, config_map())
    assert made.status == status
    assert policy == "Ignore" or b"context deadline exceeded" in made.body
    assert (await client.send("POST", MAPS, config_map("n"))).status == status


async def test_an_update_is_decided_anew_where_the_object_changed_meanwhile(client: Client) -> None:
    """As a real server retries its update: webhooks are asked again, about the new state."""
    await client.ask("POST", MAPS, config_map(data={"a": "1"}))
    asked: list[Json] = []
    values = ["3", "2"]

    async def meddling(request: Json) -> Json:
        asked.append(request)
        if len(asked) == 1:
            await client.ask("PATCH", f"{MAPS}/m", {"data": {"b": values.pop()}}, MERGE)
        return {"allowed": True}

    async with webhook(meddling) as one:
        await configure(client, hook(one.url(), matchConditions=[{"name": "c", "expression": "'c' in object.data"}]))
        changed = await client.ask("PATCH", f"{MAPS}/m", {"data": {"c": "3"}}, MERGE)
        assert changed["data"] == {"a": "1", "b": "2", "c": "3"}
        assert [one["oldObject"]["data"] for one in asked] == [{"a": "1"}, {"a": "1", "b": "2"}]
        asked.clear()
        stale = {**changed, "data": {"c": "4"}}
        refused = await client.ask("PUT", f"{MAPS}/m", stale, code=409)
    assert "the object has been modified" in refused["message"]


async def test_a_deletion_is_decided_anew_where_the_object_changed_meanwhile(client: Client) -> None:
    await client.ask("POST", MAPS, config_map())
    asked: list[Json] = []

    async def meddling(request: Json) -> Json:
        asked.append(request)
        if len(asked) == 1:
            await client.ask("PATCH", f"{MAPS}/m", {"data": {"b": "2"}}, MERGE)
        return {"allowed": True, "warnings": ["it is gone"]}

    async with webhook(meddling) as one:
        await configure(client, hook(one.url(), rules=[rule("DELETE")]))
        gone = await client.send("DELETE", f"{MAPS}/m")
    assert gone.headers["warning"] == '299 - "it is gone"'
    assert [one["oldObject"].get("data") for one in asked] == [None, {"b": "2"}]


async def test_each_object_of_a_collection_is_asked_about(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.ask("POST", MAPS, config_map(name))
    async with webhook(lambda one: {"allowed": one["oldObject"]["metadata"]["name"] != "b"}) as one:
        await configure(client, hook(one.url(), rules=[rule("DELETE")]))
        await client.ask("DELETE", MAPS, code=400)
        left = await client.ask("GET", MAPS)
    assert [one["metadata"]["name"] for one in left["items"]] == ["b", "c"]


async def test_warnings_and_annotations_are_passed_on(client: Client) -> None:
    said = {"allowed": True, "warnings": ["one\ntwo", "x" * 5000], "auditAnnotations": {"key": "value"}}
    async with webhook(lambda _: said) as one:
        await configure(client, hook(one.url()))
        request = Request("POST", MAPS, {}, {}, json.dumps(config_map()).encode(), ADMIN, annotations={})
        made = await client.server.handle(request)
    assert made.headers["warning"].split("\n")[0] == '299 - "one two"'
    assert len(made.headers["warning"]) < 2000
    assert request.annotations == {"a.example.com/key": "value"}


async def test_a_dry_run_asks_only_who_has_no_effects(client: Client) -> None:
    async with webhook(allow) as one:
        await configure(client, hook(one.url(), sideEffects="NoneOnDryRun"))
        await client.ask("POST", MAPS, config_map(), dryRun="All")
    assert one.requests[0]["dryRun"] is True


async def test_configurations_themselves_and_reviews_are_exempt(client: Client) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    async with webhook(lambda _: {"allowed": False}) as one:
        await configure(client, hook(one.url(), rules=[everything]))
        await configure(client, hook(one.url(), rules=[everything]), mutates=True)
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        await client.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        await client.ask("POST", MAPS, config_map(), code=400)
        await client.ask("DELETE", f"{GROUP}/validatingwebhookconfigurations/hooks")
        await client.ask("DELETE", f"{GROUP}/mutatingwebhookconfigurations/hooks")
        await client.ask("POST", MAPS, config_map())


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("operation", "subresource", "kind"),
    [("CREATE", "binding", "Binding"), ("CREATE", "eviction", "Eviction"), ("UPDATE", "status", "Pod")],
)
async def test_subresources_are_asked_about(client: Client, operation: str, subresource: str, kind: str) -> None:
    await client.ask("POST", PODS, POD)
    about = {"name": "p", "namespace": "default"}
    sent: dict[str, tuple[str, Json]] = {
        "binding": ("POST", {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": {"name": "n"}}),
        "eviction": ("POST", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}),
        "status": ("PATCH", {"status": {"phase": "Running"}}),
    }
    method, body = sent[subresource]
    media = MERGE if method == "PATCH" else "application/json"
    refuses = True
    async with webhook(lambda _: {"allowed": not refuses}) as one:
        await configure(client, hook(one.url(), rules=[rule(operation, resources=[f"pods/{subresource}"])]))
        await client.ask(method, f"{PODS}/p/{subresource}", body, media, code=400)
        refuses = False
        await client.ask(method, f"{PODS}/p/{subresource}", body, media)
    asked = one.requests[0]
    assert (asked["operation"], asked["subResource"], asked["kind"]["kind"]) == (operation, subresource, kind)
    assert asked["resource"]["resource"] == "pods"


async def test_a_connection_is_asked_about(client: Client) -> None:
    await client.ask("POST", PODS, POD)
    async with webhook(lambda _: {"allowed": False, "status": {"message": "no shell"}}) as one:
        await configure(client, hook(one.url(), rules=[rule("CONNECT", resources=["pods/exec"])]))
        query = {"command": ["ls"], "stdout": ["1"]}
        refused = await client.server.handle(Request("POST", f"{PODS}/p/exec", query, {}, b"", ADMIN))
    assert b"no shell" in refused.body
    assert one.requests[0]["object"]["command"] == ["ls"]
    assert one.requests[0]["kind"]["kind"] == "PodExecOptions"


async def test_pods_that_are_alike_are_each_asked_about(client: Client) -> None:
    """The cache of accepted objects is not asked where webhooks are."""
    for name in ("a", "b", "c"):
        await client.ask("POST", PODS, {**POD, "metadata": {"name": name}})
    async with webhook(lambda _: patch(add("/metadata/labels", {"x": "y"}))) as one:
        await configure(client, hook(one.url(), rules=[rule("CREATE", resources=["pods"])]), mutates=True)
        made = [await client.ask("POST", PODS, {**POD, "metadata": {"name": name}}) for name in ("d", "e", "f")]
        await client.ask("DELETE", f"{GROUP}/mutatingwebhookconfigurations/hooks")
        plain = await client.ask("POST", PODS, {**POD, "metadata": {"name": "g"}})
    assert [one["metadata"]["labels"] for one in made] == [{"x": "y"}] * 3
    assert "labels" not in plain["metadata"]


async def test_the_clusters_own_writers_are_asked_about_too(client: Client) -> None:
    async with webhook(lambda _: patch(add("/data", {"a": "1"}))) as one:
        await configure(client, hook(one.url()), mutates=True)
        user = User("system:serviceaccount:kube-system:job-controller")
        bodies = [json.dumps(config_map(name)).encode() for name in ("a", "b")]
        requests = [Request("POST", MAPS, {}, {}, body, user, uncommitted=True) for body in bodies]
        answers = await client.server.handle_all(requests)
    assert [json.loads(one.body)["data"] for one in answers] == [{"a": "1"}] * 2


async def test_creations_of_one_batch_wait_together_and_others_for_those_before(client: Client) -> None:
    both = asyncio.Event()
    names: list[str] = []

    async def slow(request: Json) -> Json:
        names.append(request["name"])
        if len(names) == 2:
            both.set()
        await both.wait()
        return {"allowed": True}

    def sent(method: str, path: str, body: Json) -> Request:
        return Request(method, path, {}, {"content-type": MERGE}, json.dumps(body).encode(), ADMIN, uncommitted=True)

    async with webhook(slow) as one:
        await configure(client, hook(one.url(), rules=[rule("CREATE")]))
        requests = [sent("POST", MAPS, config_map(name)) for name in ("a", "b")]
        for request in requests:
            request.headers = {}
        answers = await client.server.handle_all([*requests, sent("PATCH", f"{MAPS}/b", {"data": {"x": "y"}})])
    assert [answer.status for answer in answers] == [201, 201, 200]
    assert json.loads(answers[2].body)["data"] == {"x": "y"}


async def test_a_mutating_webhooks_warnings_are_passed_on_once(client: Client) -> None:
    warned = {**patch(add("/data", {"a": "1"})), "warnings": ["filled in"]}
    async with webhook(lambda _: warned) as one:
        await configure(client, hook(one.url(), rules=[rule(resources=["configmaps", "pods"])]), mutates=True)
        made = await client.send("POST", MAPS, config_map())
    assert made.headers["warning"] == '299 - "filled in"'


async def test_a_change_of_scale_is_asked_about(client: Client) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    await client.ask("POST", path, {"metadata": {"name": "d"}, "spec": spec})

    def few(request: Json) -> Json:
        return {"allowed": request["object"]["spec"]["replicas"] < 5}

    about = rule("UPDATE", apiGroups=["apps"], resources=["deployments/scale"])
    async with webhook(few) as one:
        await configure(client, hook(one.url(), rules=[about]))
        await client.ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": 9}}, MERGE, code=400)
        scaled = await client.ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": 2}}, MERGE)
    assert scaled["spec"]["replicas"] == 2
    asked = one.requests[0]
    assert (asked["kind"]["kind"], asked["oldObject"]["spec"]["replicas"]) == ("Scale", 1)


async def test_a_large_patch_is_applied_in_steps(client: Client) -> None:
    operations = [add("/data", {}), *(add(f"/data/k{number}", "x" * 100) for number in range(2000))]
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    async with webhook(lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}) as one:
        await configure(client, hook(one.url()), mutates=True)
        made = await client.ask("POST", MAPS, config_map())
    assert len(made["data"]) == 2000
