"""Routes: what was found out about a path holds for another name, and nobody can tell."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import open_server
from strato.server.path import parse_path
from strato.server.registry import Served
from strato.server.routes import Route, Routes
from tests.profiles import examples

ADMIN = User("admin", ("system:masters",))
JANE, JOE = User("jane"), User("joe")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = "/api/v1/namespaces/default/pods"
JSON, MERGE = "application/json", "application/merge-patch+json"

Step = tuple[str, str, User, Any]


def _role(verbs: list[str], *names: str) -> dict[str, Any]:
    resources = ["pods", "pods/status", "pods/binding", "things", "namespaces"]
    rule = {"verbs": verbs, "apiGroups": ["*"], "resources": resources, "resourceNames": list(names)}
    return {"metadata": {"name": "may"}, "rules": [rule]}


DEFINITION = {
    "metadata": {"name": "things.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
WORLD: list[Step] = [
    ("POST", f"{RBAC}/clusterroles", ADMIN, _role(["*"])),
    ("POST", f"{RBAC}/clusterroles", ADMIN, _role(["create", "patch"])),
    ("PATCH", f"{RBAC}/clusterroles/may", ADMIN, _role(["create"])),
    ("PATCH", f"{RBAC}/clusterroles/may", ADMIN, _role(["*"], "a", "status")),
    ("PATCH", f"{RBAC}/clusterroles/may", ADMIN, _role(["*"])),
    (
        "POST",
        f"{RBAC}/clusterrolebindings",
        ADMIN,
        {
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "may"},
            "subjects": [{"kind": "User", "name": "jane"}],
        },
    ),
    ("DELETE", f"{RBAC}/clusterrolebindings/jane", ADMIN, {}),
    ("POST", CRDS, ADMIN, DEFINITION),
    ("DELETE", f"{CRDS}/things.example.org", ADMIN, {}),
]
NAMES = ("a", "b", "status", "binding", "finalize", "pods", "")
PLACES = (
    "/api/v1/namespaces",
    "/api/v1/namespaces/default",
    PODS,
    "/api/v1/pods",
    "/api/v1/namespaces/default/nodes",
    "/api/v1/nodes",
    "/apis/example.org/v1/namespaces/default/things",
    "/apis/example.org/v1/namespaces",
    "/api//v1/namespaces/default/pods",
    "/healthz",
)
PATHS = [
    place + tail
    for place in PLACES
    for name in NAMES
    for tail in ("", f"/{name}", f"/{name}/status", f"/{name}/binding", f"/{name}/log", f"/{name}/status/")
]
writes = st.tuples(
    st.sampled_from(["POST", "PATCH", "PUT", "DELETE"]),
    st.sampled_from(PATHS),
    st.sampled_from([ADMIN, JANE, JOE]),
    st.sampled_from(
        [{"metadata": {"name": "a"}}, {"metadata": {"labels": {"x": "y"}}}, {"status": {"phase": "Running"}}]
    ),
)


async def _answers(steps: list[Step]) -> list[tuple[int, bytes]]:
    server, _ = open_server(VirtualClock(), Random(1), None, rbac=True)
    prepared: list[Step] = [
        ("POST", "/api/v1/namespaces", ADMIN, {"metadata": {"name": "default"}}),
        *(
            ("POST", PODS, ADMIN, {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            for name in NAMES[:-1]
        ),
        WORLD[0],
        WORLD[5],
    ]
    answers = []
    for method, path, user, body in [*prepared, *steps]:
        media = MERGE if method == "PATCH" else JSON
        request = Request(method, path, {}, {"content-type": media}, json.dumps(body).encode(), user)
        answer = await server.handle(request)
        answers.append((answer.status, answer.body))
    return answers


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.one_of(writes, writes, writes, st.sampled_from(WORLD)), max_size=40))
@example([(method, path, ADMIN, {"metadata": {"name": "a"}}) for method in ("PATCH", "POST", "PUT") for path in PATHS])
@example([("PATCH", f"{PODS}/{name}", user, {}) for user in (JANE, JOE) for name in ("a", "b")])
@example([("PATCH", f"{PODS}/a", JANE, {}), WORLD[3], *(("PATCH", f"{PODS}/{name}", JANE, {}) for name in NAMES)])
@example([("PATCH", f"{PODS}/a", JANE, {}), WORLD[6], ("PATCH", f"{PODS}/b", JANE, {})])
@example(
    [
        WORLD[7],
        *[("POST", f"{PLACES[6]}", ADMIN, {"metadata": {"name": "x"}})] * 2,
        WORLD[8],
        ("POST", PLACES[6], ADMIN, {}),
    ]
)
async def test_known_routes_change_no_answer(steps: list[Step]) -> None:
    with_routes = await _answers(steps)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Routes, "find", lambda *_: None)
        without = await _answers(steps)
    assert with_routes == without


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_route_leads_only_to_what_the_path_means(method: str, path: str) -> None:
    routes, served = Routes(), Served(catalog.POD)
    target = parse_path(path)
    if target is None:
        return
    routes.note(Request(method, path), target, served, "patch", lambda *_: pytest.fail("not to be called"))
    for other in PATHS:
        found = routes.find(Request(method, other))
        if found is not None:
            route, name = found
            assert _target(route, name) == parse_path(other)


def _target(route: Route, name: str) -> tuple[str, ...]:
    return (route.group, route.version, route.plural, route.namespace, name, route.subresource)


async def test_most_of_a_burst_is_routed(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    find = Routes.find

    def noted(self: Routes, request: Request) -> tuple[Route, str] | None:
        result = find(self, request)
        found.append(result is not None)
        return result

    monkeypatch.setattr(Routes, "find", noted)
    steps: list[Step] = [("PATCH", f"{PODS}/{name}/status", JANE, {"status": {}}) for name in ("a", "b", "pods")]
    await _answers(steps)
    assert found[-3:] == [False, True, True]
