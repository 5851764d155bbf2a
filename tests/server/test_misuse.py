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
            "preconditions must be an object, not int",
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
