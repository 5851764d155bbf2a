"""Which verb, resource, namespace and name a request is authorised as, and which paths are open to whom."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import aiohttp
import pytest

from strato.api.wire import User
from strato.clock import VirtualClock
from strato.errors import Forbidden
from strato.http import listen
from strato.metrics import Registry
from strato.server import bootstrap, http
from strato.server.api import ApiServer
from strato.server.auth.identity import ANONYMOUS, Authenticator
from strato.server.auth.impersonation import impersonated
from strato.server.auth.policy import RbacPolicy
from strato.server.auth.rbac import Rbac
from strato.server.auth.tokens import Tokens
from strato.server.embedded import open_server
from strato.server.path import Attributes
from tests.server.asking import ADMIN, MERGE, Client

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1"
NAMESPACE = "/api/v1/namespaces/default"
JANE = User("jane", ("system:authenticated",))
MONITOR = User("prometheus", ("system:monitoring", "system:authenticated"))


def make() -> ApiServer:
    server, _ = open_server(VirtualClock(), random.Random(1), None, rbac=True, bootstrap=bootstrap.objects())
    return server


async def give(server: ApiServer, verbs: list[str], resources: list[str], *names: str, namespace: str = "") -> None:
    """Give Jane a rule, everywhere or in a namespace."""
    admin, kind = Client(server, ADMIN), "Role" if namespace else "ClusterRole"
    rule = {"verbs": verbs, "apiGroups": ["*"], "resources": resources, "resourceNames": list(names)}
    place = f"{ROLES}/namespaces/{namespace}/role" if namespace else f"{ROLES}/clusterrole"
    await admin.ask("POST", f"{place}s", {"metadata": {"name": "r"}, "rules": [rule]})
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "jane"}]
    reference = {"apiGroup": RBAC, "kind": kind, "name": "r"}
    body = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
    await admin.ask("POST", f"{place}bindings", body)


PATHS: list[Any] = [
    # path, anonymous, authenticated, monitoring, viewer
    ("/healthz", 200, 200, 200, 200),
    ("/livez", 200, 200, 200, 200),
    ("/readyz", 200, 200, 200, 200),
    ("/readyz/etcd", 403, 403, 200, 403),
    ("/version", 200, 200, 200, 200),
    ("/metrics", 403, 403, 200, 403),
    ("/metrics/", 403, 403, 403, 403),
    ("/api", 403, 200, 200, 200),
    ("/api/v1", 403, 200, 200, 200),
    ("/apis", 403, 200, 200, 200),
    ("/apis/apps/v1", 403, 200, 200, 200),
    ("/openapi/v2", 403, 200, 200, 200),
    ("/openapi/v3", 403, 200, 200, 200),
    ("/", 403, 403, 403, 403),
    ("/debug/pprof", 403, 403, 403, 403),
    ("/logs", 403, 403, 403, 403),
    ("/logs/x", 403, 403, 403, 403),
    ("/api/v1/pods", 403, 403, 403, 200),
    ("/api/v1/secrets", 403, 403, 403, 403),
    ("/api/v1/nonsense", 403, 403, 403, 403),
    ("/api/v2/pods", 403, 403, 403, 404),
    ("/apis/example.org/v1/things", 403, 403, 403, 403),
    ("/api//v1/pods", 403, 403, 403, 403),
    ("/apis/apps//v1/deployments", 403, 403, 403, 404),
]


@pytest.mark.parametrize(("path", "anonymous", "known", "monitoring", "viewer"), PATHS)
async def test_paths_are_open_to(path: str, anonymous: int, known: int, monitoring: int, viewer: int) -> None:
    server, tokens = make(), Tokens()
    users = (JANE, MONITOR, bootstrap.VIEWER)
    tokens.ensure(users)
    app = http.create_app(
        server,
        Authenticator(tokens),
        Registry(),
        authorize_path=server.authorize_path,
        impersonate=partial(impersonated, authorizer=server.authorizer),
    )
    listening = await listen.serve(app)
    found = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{listening.port}") as session:
        for user in (None, *users):
            headers = {"Authorization": f"Bearer {tokens.token(user.name)}"} if user is not None else {}
            async with session.get(path, headers=headers) as answer:
                found.append(answer.status)
    await listening.stop()
    assert found == [anonymous, known, monitoring, viewer]


async def test_a_refused_path_is_named() -> None:
    answer = await Client(make(), ANONYMOUS).ask("GET", "/openapi/v2", code=403)
    assert answer["message"] == 'forbidden: User "system:anonymous" cannot get path "/openapi/v2"'
    assert not answer.get("details")


async def test_who_may_get_a_namespace_in_it_gets_it() -> None:
    server = make()
    await give(server, ["get", "update", "patch"], ["namespaces", "namespaces/status"], namespace="default")
    jane = Client(server, JANE)
    assert (await jane.ask("GET", NAMESPACE))["metadata"]["name"] == "default"
    await jane.ask("PATCH", NAMESPACE, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    for path in ("/api/v1/namespaces/kube-system", "/api/v1/namespaces"):
        await jane.ask("GET", path, code=403)
    # what was found out about one namespace holds for no other
    answer = await jane.ask("PATCH", "/api/v1/namespaces/kube-system", {"metadata": {}}, MERGE, code=403)
    assert answer["message"] == (
        'namespaces "kube-system" is forbidden: User "jane" cannot patch resource "namespaces" in API group "" in the '
        'namespace "kube-system"'
    )


async def test_a_named_object_is_listed_and_watched_by_its_name() -> None:
    server = make()
    await give(server, ["list", "watch", "deletecollection"], ["configmaps"], "one")
    jane, maps = Client(server, JANE), f"{NAMESPACE}/configmaps"
    await jane.ask("GET", maps, fieldSelector="metadata.name=one")
    assert (await jane.send("GET", maps, fieldSelector="metadata.name=one", watch="true")).status == 200
    for selector in ("metadata.name=two", "metadata.name!=one", "metadata.namespace=default", ""):
        await jane.ask("GET", maps, code=403, **({"fieldSelector": selector} if selector else {}))
    await jane.ask("DELETE", maps, code=403, fieldSelector="metadata.name=one")


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%b"])
async def test_a_name_that_no_path_can_hold_is_no_name_that_a_list_asks_for(name: str) -> None:
    server = make()
    await give(server, ["list"], ["configmaps"], name)
    await Client(server, JANE).ask("GET", f"{NAMESPACE}/configmaps", code=403, fieldSelector=f"metadata.name={name}")


async def test_an_update_that_creates_needs_the_right_to_create() -> None:
    server = make()
    await give(server, ["update", "get"], ["leases"])
    jane, path = Client(server, JANE), "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    answer = await jane.ask("PUT", path, {"metadata": {"name": "l"}, "spec": {}}, code=403)
    assert 'cannot create resource "leases" in API group "coordination.k8s.io"' in answer["message"]
    await Client(server, ADMIN).ask("PUT", path, {"metadata": {"name": "l"}, "spec": {}})


VERBS: list[Any] = [
    # verb, resource, and what may be done with that right alone
    ("get", "pods", [("GET", "/pods/p"), ("HEAD", "/pods/p")]),
    ("list", "pods", [("GET", "/pods")]),
    ("watch", "pods", [("GET", "/pods?watch=true")]),
    ("create", "pods", [("POST", "/pods")]),
    ("update", "pods", [("PUT", "/pods/p")]),
    ("patch", "pods", [("PATCH", "/pods/p")]),
    ("delete", "pods", [("DELETE", "/pods/p")]),
    ("deletecollection", "pods", [("DELETE", "/pods")]),
    ("get", "pods/status", [("GET", "/pods/p/status"), ("HEAD", "/pods/p/status")]),
    ("patch", "pods/status", [("PATCH", "/pods/p/status")]),
    ("get", "pods/log", [("GET", "/pods/p/log")]),
    ("create", "pods/eviction", [("POST", "/pods/p/eviction")]),
    ("create", "pods/binding", [("POST", "/pods/p/binding")]),
    ("create", "bindings", [("POST", "/bindings")]),
    ("create", "pods/exec", [("POST", "/pods/p/exec")]),
    ("get", "pods/proxy", [("GET", "/pods/p/proxy"), ("GET", "/pods/p/proxy/a/b")]),
    ("create", "serviceaccounts/token", [("POST", "/serviceaccounts/s/token")]),
    ("create", "serviceaccounts", [("POST", "/serviceaccounts")]),
    ("patch", "deployments/scale", [("PATCH", "/deployments/d/scale")]),
    ("get", "deployments/scale", [("GET", "/deployments/d/scale"), ("HEAD", "/deployments/d/scale")]),
    ("patch", "deployments", [("PATCH", "/deployments/d")]),
    ("get", "secrets", [("GET", "/secrets/s"), ("HEAD", "/secrets/s")]),
    ("list", "secrets", [("GET", "/secrets")]),
]
ASKED = sorted({ask for _, _, asks in VERBS for ask in asks})


@pytest.mark.parametrize(("verb", "resource", "may"), VERBS, ids=[f"{row[0]} {row[1]}" for row in VERBS])
async def test_a_right_opens_what_it_names_and_nothing_else(
    verb: str, resource: str, may: list[tuple[str, str]]
) -> None:
    server = make()
    await give(server, [verb], [resource])
    jane = Client(server, JANE)
    opened = []
    for method, path in ASKED:
        base, _, query = path.partition("?")
        group = "/apis/apps/v1/namespaces/default" if "deployments" in path else NAMESPACE
        media = MERGE if method == "PATCH" else "application/json"
        answer = await jane.send(method, group + base, {}, media, **({"watch": "true"} if query else {}))
        if answer.status != 403:
            opened.append((method, path))
    assert opened == sorted(may)


IMPERSONATION: list[Any] = [
    (["users"], [("user", "bob")], True),
    (["groups"], [("user", "bob")], False),
    (["users"], [("user", "bob"), ("group", "dev")], False),
    (["users", "groups"], [("user", "bob"), ("group", "dev")], True),
    (["users"], [("user", "bob"), ("uid", "7")], False),
    (["users", "uids"], [("user", "bob"), ("uid", "7")], True),
    (["users", "userextras"], [("user", "bob"), ("extra-scopes", "view")], False),
    (["users", "userextras/scopes"], [("user", "bob"), ("extra-scopes", "view")], True),
    (["users", "userextras/other"], [("user", "bob"), ("extra-scopes", "view")], False),
    (["users", "userextras/acme.com/project"], [("user", "bob"), ("extra-acme.com%2fproject", "x")], True),
    (["users"], [("user", "system:serviceaccount:default:sa")], False),
    (["serviceaccounts"], [("user", "system:serviceaccount:default:sa")], True),
    (["users"], [("user", "system:serviceaccount:no/t:sa")], True),
]


@pytest.mark.parametrize(("resources", "fields", "want"), IMPERSONATION)
async def test_each_part_of_an_impersonation_is_asked_for(
    resources: list[str], fields: list[tuple[str, str]], want: bool
) -> None:
    server = make()
    await give(server, ["impersonate"], resources)
    headers = [(f"impersonate-{name}".encode(), value.encode()) for name, value in fields]
    if want:
        assert impersonated(JANE, headers, server.authorizer).name == fields[0][1]
    else:
        with pytest.raises(Forbidden, match="cannot impersonate resource"):
            impersonated(JANE, headers, server.authorizer)


async def test_a_self_review_shows_who_one_is_and_acts_as() -> None:
    headers = [(b"impersonate-user", b"bob"), (b"impersonate-uid", b"7"), (b"impersonate-extra-a", b"x")]
    server = make()
    bob = impersonated(ADMIN, headers, server.authorizer)
    review = await Client(server, bob).ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"] == {
        "username": "bob",
        "uid": "7",
        "groups": ["system:authenticated"],
        "extra": {"a": ["x"]},
    }


async def test_whoever_does_not_say_who_he_is_reviews_himself_as_anonymous() -> None:
    server = make()
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:basic-user"}
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}]
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
    await Client(server, ADMIN).ask("POST", f"{ROLES}/clusterrolebindings", binding)
    nobody, access = Client(server, None), "/apis/authorization.k8s.io/v1/selfsubject"
    review = await nobody.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"] == {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
    for path, allowed in (("/version", True), ("/metrics", False)):
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        assert (await nobody.ask("POST", f"{access}accessreviews", {"spec": spec}))["status"]["allowed"] is allowed
    rules = (await nobody.ask("POST", f"{access}rulesreviews", {"spec": {"namespace": "default"}}))["status"]
    assert not any("pods" in rule["resources"] for rule in rules["resourceRules"])
    assert any("/version" in rule["nonResourceURLs"] for rule in rules["nonResourceRules"])


async def test_access_reviews_say_what_holds_and_why() -> None:
    server = make()
    await give(server, ["get"], ["pods"], namespace="default")
    reviews = "/apis/authorization.k8s.io/v1"

    async def review(kind: str, client: Client | None = None, **spec: Any) -> Any:
        return (await (client or Client(server, ADMIN)).ask("POST", f"{reviews}/{kind}", {"spec": spec}))["status"]

    pods = {"verb": "get", "resource": "pods", "namespace": "default"}
    assert await review("subjectaccessreviews", user="jane", resourceAttributes=pods) == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "jane"',
    }
    elsewhere = {**pods, "namespace": "kube-system"}
    assert await review("subjectaccessreviews", user="jane", resourceAttributes=elsewhere) == {"allowed": False}
    path = {"verb": "get", "path": "/metrics"}
    status = await review("subjectaccessreviews", groups=["system:monitoring"], nonResourceAttributes=path)
    assert status["allowed"] is True
    jane = Client(server, JANE)
    no_path = await review("selfsubjectaccessreviews", jane, nonResourceAttributes={"verb": "get"})
    assert no_path["allowed"] is False
    assert (await review("selfsubjectaccessreviews", jane, resourceAttributes=pods))["allowed"] is True
    assert (await review("selfsubjectaccessreviews", jane, nonResourceAttributes=path))["allowed"] is False
    local = "namespaces/default/localsubjectaccessreviews"
    assert (await review(local, user="jane", resourceAttributes=pods))["allowed"] is True
    for spec in ({"resourceAttributes": elsewhere}, {"nonResourceAttributes": path}, {}):
        await Client(server, ADMIN).ask("POST", f"{reviews}/{local}", {"spec": {"user": "jane", **spec}}, code=422)


async def test_a_binding_to_a_role_that_is_gone_is_named_in_the_refusal() -> None:
    server = make()
    await give(server, ["get"], ["pods"])
    await Client(server, ADMIN).ask("DELETE", f"{ROLES}/clusterroles/r")
    answer = await Client(server, JANE).ask("GET", f"{NAMESPACE}/pods/p", code=403)
    assert answer["message"].endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "r" not found')


async def test_a_cluster_binding_never_means_a_role_of_a_namespace() -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}
    reference = {"kind": "Role", "name": "r"}
    subjects = [{"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "x"}]
    wrong = {"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
    rbac = Rbac(RbacPolicy.of((role, wrong)))
    assert not rbac.allows(JANE, Attributes("get", path="/x"))
    assert not rbac.allows(User("system:serviceaccount::x"), Attributes("get", path="/x"))


def test_what_is_remembered_of_users_is_bounded() -> None:
    rbac = Rbac(RbacPolicy.of(bootstrap.objects()))
    for number in range(5000):
        user = User(f"user-{number}", ("system:authenticated",))
        for name in range(20):
            assert not rbac.allows(user, Attributes("get", "", f"resource-{name}", namespace=f"n{name}"))
        assert not rbac.allows(user, Attributes("get", "", "x" * 4096))
    assert rbac._held.bytes <= 4 << 20
    assert sum(len(held.answers) for held, _ in rbac._held._entries.values()) <= 65_536
