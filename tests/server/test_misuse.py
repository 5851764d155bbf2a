"""Requests that must be refused, or that once did harm; the words are those of kube-apiserver 1.36."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server

_PODS = "/api/v1/namespaces/default/pods"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "a", "image": "i"}]},
}
_MAPS = "/api/v1/namespaces/default/configmaps"
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_UNREAD = (
    "the object provided is unrecognized (must be of type {}): couldn't get version/kind; "
    "json parse error: the body is not an object"
)
_NO_METHOD = "the server does not allow this method on the requested resource"


async def ask(server: ApiServer, method: str, path: str, body: Any = None, **query: str) -> Response:
    sent = b"" if body is None else json.dumps(body).encode()
    parameters = {name: [value] for name, value in query.items()}
    headers = {"content-type": "application/json"}
    return await server.handle(Request(method, path, parameters, headers, sent, User("admin")))


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "code", "message"),
    [
        pytest.param(
            "DELETE", "/api/v1/pods", None, {}, 405, _NO_METHOD, id="a bulk delete does not reach over all namespaces"
        ),
        pytest.param("POST", "/api/v1/pods", _POD, {}, 405, _NO_METHOD, id="a pod is created in a namespace"),
        pytest.param(
            "DELETE",
            "/api/v1/namespaces/default",
            None,
            {},
            403,
            'namespaces "default" is forbidden: this namespace may not be deleted',
            id="the default namespace stays",
        ),
        pytest.param(
            "POST",
            f"{_PODS}/p/binding",
            {"metadata": {"name": "q"}, "target": {"name": "n"}},
            {},
            400,
            "name in URL does not match name in Binding object",
            id="a binding names its pod",
        ),
        pytest.param("POST", f"{_PODS}/p/binding", [], {}, 400, _UNREAD.format("Binding"), id="a binding is an object"),
        pytest.param(
            "POST",
            _REVIEWS,
            [],
            {},
            400,
            _UNREAD.format("SelfSubjectAccessReview"),
            id="a review is an object",
        ),
        pytest.param(
            "DELETE",
            f"{_PODS}/p",
            {"preconditions": 5},
            {},
            400,
            "preconditions must be an object, not a number",
            id="preconditions are an object",
        ),
        pytest.param(
            "POST",
            _MAPS,
            {**_MAP, "foo": 1},
            {"fieldValidation": "Strict"},
            400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo"',
            id="strict decoding names the kind and the field",
        ),
    ],
)
async def test_request_is_refused(
    method: str, path: str, body: Any, query: dict[str, str], code: int, message: str
) -> None:
    server = in_memory_server(VirtualClock())
    assert (await ask(server, "POST", _PODS, _POD)).status == 201
    answer = await ask(server, method, path, body, **query)
    assert (answer.status, json.loads(answer.body)["message"]) == (code, message)
    assert (await ask(server, "GET", f"{_PODS}/p")).status == 200


async def test_finalize_with_no_finalizers_ends_a_deleted_namespace() -> None:
    server = in_memory_server(VirtualClock())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    await ask(server, "POST", "/api/v1/namespaces", space)
    await ask(server, "DELETE", "/api/v1/namespaces/n")
    answer = await ask(server, "PUT", "/api/v1/namespaces/n/finalize", {**space, "spec": {"finalizers": []}})
    assert answer.status == 200
    assert (await ask(server, "GET", "/api/v1/namespaces/n")).status == 404


async def test_each_unknown_field_is_a_warning_header_of_its_own() -> None:
    server = in_memory_server(VirtualClock())
    answer = await ask(server, "POST", _MAPS, {**_MAP, "foo": 1, "bar": 2})
    assert answer.headers["warning"].split("\n") == [
        '299 - "unknown field \\"foo\\""',
        '299 - "unknown field \\"bar\\""',
    ]


# ── bodies that once were answered 500, or held the server ────────────────────────────────────────────────────────

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE},
}
_JSON_PATCH, _STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
_QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"pods": "9" * 5000}},
}


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code"),
    [
        pytest.param("PUT", f"{_DEPLOYMENTS}/d/scale", {"spec": 5}, "", 400, id="a scale whose spec is a number"),
        pytest.param(
            "PUT", f"{_DEPLOYMENTS}/d/scale", {"metadata": [1]}, "", 400, id="a scale whose metadata is a list"
        ),
        pytest.param("PUT", f"{_DEPLOYMENTS}/d/scale", [], "", 400, id="a scale that is a list"),
        pytest.param(
            "PATCH", f"{_DEPLOYMENTS}/d/scale", {"spec": "x"}, _STRATEGIC, 422, id="a scale patched to no scale"
        ),
        pytest.param("PATCH", f"{_PODS}/p", [{"op": "remove", "path": ""}], _JSON_PATCH, 422, id="all is removed"),
        pytest.param(
            "PATCH", f"{_PODS}/p", [{"op": "add", "path": "", "value": None}], _JSON_PATCH, 400, id="null for all"
        ),
        pytest.param(
            "PATCH", f"{_PODS}/p", [{"op": "add", "path": "", "value": [1]}], _JSON_PATCH, 422, id="a list for all"
        ),
        pytest.param(
            "PATCH", f"{_PODS}/p", {"metadata": {"finalizers": [{}, []]}}, _STRATEGIC, 422, id="unhashable items"
        ),
        pytest.param(
            "POST", "/api/v1/namespaces/default/resourcequotas", _QUOTA, "", 400, id="a quantity of 5,000 digits"
        ),
        pytest.param("HEAD", f"{_PODS}/p", None, "", 405, id="HEAD"),
        pytest.param("DELETE", f"{_PODS}/p?gracePeriodSeconds=\u00b2", None, "", 400, id="another script's digits"),
        pytest.param("GET", f"{_PODS}?labelSelector={'a,' * 80_000}", None, "", 400, id="a selector of 160 kB"),
    ],
)
async def test_what_was_a_500_is_refused(method: str, path: str, body: Any, media: str, code: int) -> None:
    server = in_memory_server(VirtualClock())
    assert (await ask(server, "POST", _PODS, _POD)).status == 201
    assert (await ask(server, "POST", _DEPLOYMENTS, _DEPLOYMENT)).status == 201
    path, _, query = path.partition("?")
    name, _, value = query.partition("=")
    sent = b"" if body is None else json.dumps(body).encode()
    headers = {"content-type": media or "application/json"}
    asked = {name: [value]} if name else {}
    answer = await server.handle(Request(method, path, asked, headers, sent, User("admin")))
    assert answer.status == code, answer.body


async def test_keys_of_yaml_that_stand_twice_are_refused_when_asked_for() -> None:
    server = in_memory_server(VirtualClock())
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: '1'\n  k: '2'\n"
    headers = {"content-type": "application/yaml"}

    async def create(mode: str) -> Response:
        return await server.handle(Request("POST", _MAPS, {"fieldValidation": [mode]}, headers, body, User("admin")))

    refused = await create("Strict")
    assert refused.status == 400
    assert 'key \\"k\\" already set in map' in refused.body.decode()
    warned = await create("Warn")
    assert warned.status == 201
    assert "already set in map" in str(warned.headers)
    assert json.loads(warned.body)["data"] == {"k": "2"}


async def test_repeated_owners_take_linear_time() -> None:
    server = in_memory_server(VirtualClock())
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(n % 5_000)} for n in range(10_000)]
    body = {**_MAP, "metadata": {"name": "m", "ownerReferences": owners}}
    answer = await ask(server, "POST", _MAPS, body)
    assert answer.status == 201
    assert len(json.loads(answer.body)["metadata"]["ownerReferences"]) == 5_000


@pytest.mark.parametrize("amount", ["1e999", "1e-999", "9" * 2000, "١", "", True, []])
async def test_amounts_that_cannot_be_reckoned_with_are_not_stored(amount: Any) -> None:
    server = in_memory_server(VirtualClock())
    spec = {"limits": [{"type": "Container", "max": {"cpu": amount}}]}
    path = "/api/v1/namespaces/default/limitranges"
    answer = await ask(server, "POST", path, {"metadata": {"name": "l"}, "spec": spec})
    assert answer.status == 400
    assert (await ask(server, "POST", _PODS, _POD)).status == 201
