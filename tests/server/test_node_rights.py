"""Nodes: they read what their pods use, and write what is theirs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from strato.api.wire import Response, User
from strato.clock import VirtualClock
from strato.server import bootstrap
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.identity import Authenticator
from strato.server.auth.nodes import PodsOfNodes
from strato.server.auth.tokens import Tokens
from strato.server.embedded import open_server
from tests.server.asking import ADMIN, MERGE, Client

CORE, DEFAULT = "/api/v1", "/api/v1/namespaces/default"
PODS, SECRETS, MAPS = f"{DEFAULT}/pods", f"{DEFAULT}/secrets", f"{DEFAULT}/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = f"{CORE}/nodes"
CONTAINER = {"name": "c", "image": "i"}
STATUS = {"status": {"phase": "Running"}}

USED = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "pull"}],
    "initContainers": [{**CONTAINER, "name": "i", "envFrom": [{"secretRef": {"name": "env-from"}}]}],
    "containers": [
        {
            **CONTAINER,
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "env-from"}}],
        }
    ],
    "volumes": [
        {"name": "a", "secret": {"secretName": "volume"}},
        {"name": "b", "configMap": {"name": "volume"}},
        {
            "name": "c",
            "projected": {
                "sources": [
                    {"secret": {"name": "projected"}},
                    {"configMap": {"name": "projected"}},
                    {"serviceAccountToken": {"path": "t", "audience": "vault"}},
                    {"serviceAccountToken": {"path": "u"}},
                ]
            },
        },
        {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
    ],
}
SECRET_NAMES = ("pull", "env-from", "env", "volume", "projected")
MAP_NAMES = ("env", "env-from", "volume", "projected")


def node_user(name: str) -> User:
    return bootstrap.node(name)


class World:
    """Nodes a and b, each with a pod: that of a uses everything above, that of b nothing."""

    def __init__(self) -> None:
        clock = VirtualClock()
        tokens = Authenticator(Tokens(), accounts=AccountTokens(None, clock))
        server, _ = open_server(clock, random.Random(1), None, rbac=True, bootstrap=bootstrap.objects(), tokens=tokens)
        self.server, self.admin = server, Client(server, ADMIN)
        self.a, self.b = (Client(server, node_user(name)) for name in "ab")
        self.hollow = Client(server, bootstrap.HOLLOW_NODES)
        self.uid = ""
        self.node_uid = ""

    async def fill(self) -> None:
        ask = self.admin.ask
        for name in ("robot", "other"):
            await ask("POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": name}})
        for name in (*SECRET_NAMES, "unused"):
            await ask("POST", SECRETS, {"metadata": {"name": name}})
            await ask("POST", MAPS, {"metadata": {"name": name}})
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk"}
        await ask("POST", f"{DEFAULT}/persistentvolumeclaims", {"metadata": {"name": "claim"}, "spec": claim})
        disk = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
        for name in ("disk", "other-disk"):
            await ask("POST", f"{CORE}/persistentvolumes", {"metadata": {"name": name}, "spec": disk})
        for name in "ab":
            made = await ask("POST", NODES, {"metadata": {"name": name}})
            self.node_uid = self.node_uid or made["metadata"]["uid"]
        made = await ask("POST", PODS, {"metadata": {"name": "pod-a"}, "spec": {**USED, "nodeName": "a"}})
        self.uid = made["metadata"]["uid"]
        await ask("POST", PODS, {"metadata": {"name": "pod-b"}, "spec": {"containers": [CONTAINER], "nodeName": "b"}})
        await ask("POST", PODS, {"metadata": {"name": "free"}, "spec": {"containers": [CONTAINER]}})
        await ask("POST", PODS, {"metadata": {"name": "victim"}, "spec": {"containers": [CONTAINER], "nodeName": "a"}})

    def mirror(self, **more: Any) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": self.node_uid, "controller": True}
        metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
        spec = {"containers": [CONTAINER], "nodeName": "a", "enableServiceLinks": True}
        return {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": {**spec, **more}}


@pytest.fixture
async def world() -> World:
    made = World()
    await made.fill()
    return made


async def code(client: Client, method: str, path: str, body: Any = None, media: str = "", **query: str) -> int:
    answer: Response = await client.send(method, path, body, media or "application/json", **query)
    return answer.status


READS: list[Any] = [
    *((f"{SECRETS}/{name}", 200, 403) for name in SECRET_NAMES),
    *((f"{MAPS}/{name}", 200, 403) for name in MAP_NAMES),
    (f"{SECRETS}/unused", 403, 403),
    (f"{SECRETS}/missing", 403, 403),
    (f"{MAPS}/unused", 403, 403),
    (SECRETS, 403, 403),
    (f"{CORE}/secrets", 403, 403),
    (MAPS, 403, 403),
    (f"{DEFAULT}/persistentvolumeclaims/claim", 200, 403),
    (f"{DEFAULT}/persistentvolumeclaims", 403, 403),
    (f"{CORE}/persistentvolumes/disk", 200, 403),
    (f"{CORE}/persistentvolumes/other-disk", 403, 403),
    (f"{CORE}/persistentvolumes", 403, 403),
    (f"{PODS}/pod-a", 200, 403),
    (f"{PODS}/pod-b", 403, 200),
    (f"{PODS}/free", 403, 403),
    (f"{CORE}/pods", 403, 403),
    (f"{PODS}/pod-a/log", 403, 403),
    (f"{NODES}/a", 200, 403),
    (NODES, 403, 403),
    (f"{CORE}/services", 200, 200),
    (f"{DEFAULT}/serviceaccounts/robot", 200, 403),
    (f"{DEFAULT}/serviceaccounts/other", 403, 403),
    (f"{DEFAULT}/serviceaccounts", 403, 403),
    (f"{CORE}/namespaces", 403, 403),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", 403, 403),
    ("/metrics", 403, 403),
    ("/version", 200, 200),
]


@pytest.mark.parametrize(("path", "by_a", "by_b"), READS)
async def test_a_node_reads_what_its_pods_use(world: World, path: str, by_a: int, by_b: int) -> None:
    assert (await code(world.a, "GET", path), await code(world.b, "GET", path)) == (by_a, by_b)


async def test_a_refusal_says_why(world: World) -> None:
    answer = await world.b.ask("GET", f"{SECRETS}/volume", code=403)
    assert answer["message"] == (
        'secrets "volume" is forbidden: User "system:node:b" cannot get resource "secrets" in API group "" in the '
        "namespace \"default\": no relationship found between node 'b' and this object"
    )


async def test_selectors_narrow_a_list_to_what_a_node_may_see(world: World) -> None:
    assert await code(world.a, "GET", f"{CORE}/pods", fieldSelector="spec.nodeName=a") == 200
    assert await code(world.a, "GET", f"{CORE}/pods", fieldSelector="spec.nodeName=b") == 403
    assert await code(world.a, "GET", f"{CORE}/pods", fieldSelector="spec.nodeName!=b") == 403
    assert await code(world.a, "GET", SECRETS, fieldSelector="metadata.name=volume") == 200
    assert await code(world.b, "GET", SECRETS, fieldSelector="metadata.name=volume") == 403
    assert await code(world.a, "GET", NODES, fieldSelector="metadata.name=a") == 200


async def test_what_a_pod_used_is_gone_with_it(world: World) -> None:
    assert await code(world.a, "GET", f"{SECRETS}/volume") == 200
    await world.admin.ask("DELETE", f"{PODS}/pod-a", {"gracePeriodSeconds": 0})
    assert await code(world.a, "GET", f"{SECRETS}/volume") == 403


async def test_a_pod_counts_from_its_binding_on(world: World) -> None:
    assert await code(world.b, "GET", f"{PODS}/free") == 403
    await world.admin.ask("POST", f"{PODS}/free/binding", {"target": {"name": "b"}})
    assert await code(world.b, "GET", f"{PODS}/free") == 200


async def test_labels_that_look_like_a_node_make_nobody_a_pod(world: World) -> None:
    assert await code(world.b, "GET", f"{SECRETS}/volume") == 403
    pod = {"metadata": {"name": "liar", "labels": {"nodeName": "b"}}, "spec": {**USED, "nodeName": "a"}}
    await world.admin.ask("POST", PODS, pod)
    assert await code(world.b, "GET", f"{SECRETS}/volume") == 403


def _writes(world: World) -> list[tuple[str, str, str, Any, str, int]]:
    owner = world.mirror()["metadata"]["ownerReferences"][0]
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}

    def labels(key: str) -> dict[str, Any]:
        return {"metadata": {"labels": {key: "x"}}}

    return [
        ("its pod's status", "PATCH", f"{PODS}/pod-a/status", STATUS, MERGE, 200),
        ("another node's pod's status", "PATCH", f"{PODS}/pod-b/status", STATUS, MERGE, 403),
        ("a free pod's status", "PATCH", f"{PODS}/free/status", STATUS, MERGE, 403),
        ("labels with the status", "PATCH", f"{PODS}/pod-a/status", {**STATUS, **labels("app")}, MERGE, 403),
        ("its pod", "PATCH", f"{PODS}/pod-a", labels("app"), MERGE, 403),
        ("a pod", "POST", PODS, {"metadata": {"name": "x"}, "spec": world.mirror()["spec"]}, "", 403),
        ("a binding", "POST", f"{PODS}/free/binding", {"target": {"name": "a"}}, "", 403),
        ("a mirror pod", "POST", PODS, world.mirror(), "", 201),
        ("a mirror pod elsewhere", "POST", PODS, world.mirror(nodeName="b"), "", 403),
        ("a mirror pod with an account", "POST", PODS, world.mirror(serviceAccountName="robot"), "", 403),
        ("a mirror pod with a secret", "POST", PODS, world.mirror(volumes=USED["volumes"][:1]), "", 403),
        ("a mirror pod with a token", "POST", PODS, world.mirror(volumes=USED["volumes"][2:3]), "", 403),
        ("a mirror pod with a claim", "POST", PODS, world.mirror(volumes=USED["volumes"][3:]), "", 403),
        ("a mirror pod with env", "POST", PODS, world.mirror(containers=USED["containers"]), "", 403),
        ("a mirror pod of nobody", "POST", PODS, world.mirror(metadata={"ownerReferences": []}), "", 403),
        (
            "a mirror pod of another uid",
            "POST",
            PODS,
            world.mirror(metadata={"ownerReferences": [{**owner, "uid": "x"}]}),
            "",
            403,
        ),
        ("an eviction", "POST", f"{PODS}/victim/eviction", {"metadata": {"name": "victim"}}, "", 201),
        ("an eviction elsewhere", "POST", f"{PODS}/pod-b/eviction", {"metadata": {"name": "pod-b"}}, "", 403),
        ("a pod elsewhere, away", "DELETE", f"{PODS}/pod-b", None, "", 403),
        ("its pod, away", "DELETE", f"{PODS}/pod-a", {"gracePeriodSeconds": 0}, "", 200),
        ("all pods, away", "DELETE", PODS, None, "", 403),
        ("its status", "PATCH", f"{NODES}/a/status", {"status": {"phase": "x"}}, MERGE, 200),
        ("another node's status", "PATCH", f"{NODES}/b/status", {"status": {"phase": "x"}}, MERGE, 403),
        ("a label of its own", "PATCH", f"{NODES}/a", labels("example.org/x"), MERGE, 200),
        ("a kubelet's label", "PATCH", f"{NODES}/a", labels("node.kubernetes.io/x"), MERGE, 200),
        ("a zone", "PATCH", f"{NODES}/a", labels("topology.kubernetes.io/zone"), MERGE, 200),
        ("a restricted label", "PATCH", f"{NODES}/a", labels("node-restriction.kubernetes.io/x"), MERGE, 403),
        ("one below it", "PATCH", f"{NODES}/a", labels("a.node-restriction.kubernetes.io/x"), MERGE, 403),
        ("a role label", "PATCH", f"{NODES}/a", labels("node-role.kubernetes.io/master"), MERGE, 403),
        ("a label with its status", "PATCH", f"{NODES}/a/status", labels("node-role.kubernetes.io/x"), MERGE, 403),
        ("a taint", "PATCH", f"{NODES}/a", taint, MERGE, 403),
        ("an owner", "PATCH", f"{NODES}/a", {"metadata": {"ownerReferences": [owner]}}, MERGE, 403),
        ("another node", "PATCH", f"{NODES}/b", labels("example.org/x"), MERGE, 403),
        ("a new node", "POST", NODES, {"metadata": {"name": "c"}}, "", 403),
        ("itself, away", "DELETE", f"{NODES}/a", None, "", 403),
        ("its lease", "POST", LEASES, {"metadata": {"name": "a"}, "spec": {}}, "", 201),
        ("another lease", "POST", LEASES, {"metadata": {"name": "b"}, "spec": {}}, "", 403),
        ("another lease, renewed", "PATCH", f"{LEASES}/b", {"spec": {"holderIdentity": "a"}}, MERGE, 403),
        ("a secret", "POST", SECRETS, {"metadata": {"name": "x"}}, "", 403),
        ("a used secret", "PATCH", f"{SECRETS}/volume", labels("x"), MERGE, 403),
        ("an event", "POST", f"{DEFAULT}/events", event, "", 201),
    ]  # fmt: skip


_NAMES = [row[0] for row in _writes(World())]


@pytest.mark.parametrize("name", _NAMES)
async def test_a_node_writes_what_is_its_own(world: World, name: str) -> None:
    _, method, path, body, media, want = next(row for row in _writes(world) if row[0] == name)
    answer = await world.a.send(method, path, body, media or "application/json")
    assert answer.status == want, answer.body


TOKEN = f"{DEFAULT}/serviceaccounts/robot/token"
TOKENS: list[Any] = [
    pytest.param({}, "robot", 201, id="bound to its pod"),
    pytest.param({"audiences": ["vault"]}, "robot", 201, id="for an audience of its pod's volumes"),
    pytest.param({"audiences": ["other"]}, "robot", 403, id="for another audience"),
    pytest.param({"audiences": ["vault", "other"]}, "robot", 403, id="for two audiences"),
    pytest.param({"boundObjectRef": None}, "robot", 403, id="bound to nothing"),
    pytest.param({"boundObjectRef": {"uid": ""}}, "robot", 403, id="without a uid"),
    pytest.param({"boundObjectRef": {"uid": "x"}}, "robot", 403, id="with another uid"),
    pytest.param({"boundObjectRef": {"name": "pod-b"}}, "robot", 403, id="bound to another node's pod"),
    pytest.param({"boundObjectRef": {"kind": "Node", "name": "a"}}, "robot", 403, id="bound to the node"),
    pytest.param({}, "other", 403, id="of an account none of its pods has"),
]


@pytest.mark.parametrize(("change", "account", "want"), TOKENS)
async def test_a_node_gets_tokens_of_its_pods(world: World, change: dict[str, Any], account: str, want: int) -> None:
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "pod-a", "uid": world.uid}
    changed = change.get("boundObjectRef", {})
    spec = {**change, "boundObjectRef": None if changed is None else {**reference, **changed}}
    path = f"{DEFAULT}/serviceaccounts/{account}/token"
    assert await code(world.a, "POST", path, {"spec": spec}) == want
    assert await code(world.b, "POST", path, {"spec": spec}) == 403


async def test_a_user_in_the_group_of_nodes_without_a_name_is_no_node(world: World) -> None:
    for user in (User("system:node:", ("system:nodes",)), User("a", ("system:nodes",)), User("system:node:a")):
        client = Client(world.server, user)
        assert await code(client, "GET", f"{SECRETS}/volume") == 403
        assert await code(client, "PATCH", f"{PODS}/pod-a/status", STATUS, MERGE) == 403


async def test_hollow_nodes_read_nothing_that_pods_use(world: World) -> None:
    for path in (SECRETS, f"{SECRETS}/volume", MAPS, f"{CORE}/persistentvolumes", f"{DEFAULT}/serviceaccounts"):
        assert await code(world.hollow, "GET", path) == 403
    assert await code(world.hollow, "POST", TOKEN, {"spec": {}}) == 403
    assert await code(world.hollow, "PATCH", f"{PODS}/pod-b/status", STATUS, MERGE) == 200


async def test_a_right_to_bind_does_not_let_a_node_bind(world: World) -> None:
    """What RBAC gives a node besides is still restricted to what is its own."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    await world.admin.ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": "n"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "n"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]
    body = {"metadata": {"name": "n"}, "roleRef": reference, "subjects": subjects}
    await world.admin.ask("POST", f"{rbac}/clusterrolebindings", body)
    assert await code(world.a, "POST", f"{PODS}/free/binding", {"target": {"name": "a"}}) == 403
    assert await code(world.a, "PATCH", f"{PODS}/pod-a", {"metadata": {"labels": {"a": "b"}}}, MERGE) == 403
    assert await code(world.a, "PATCH", f"{PODS}/pod-b/status", STATUS, MERGE) == 403
    assert await code(world.a, "DELETE", PODS) == 403
    assert await code(world.a, "GET", SECRETS) == 200


async def test_nothing_is_kept_of_pods_before_a_node_asks() -> None:
    world = World()
    await world.fill()
    index = PodsOfNodes(world.server.store)
    assert not index._uses
    assert index.has("a", "default/pod-a")
    for number in range(12):  # more nodes than are looked for in bytes
        assert not index.has(f"n{number}", "default/later")
    spec = {"containers": [CONTAINER], "nodeName": "n5"}
    await world.admin.ask("POST", PODS, {"metadata": {"name": "later", "labels": {"nodeName": "n6"}}, "spec": spec})
    assert index.has("n5", "default/later")
    assert not index.has("n6", "default/later")
    await world.admin.ask("DELETE", f"{PODS}/later", {"gracePeriodSeconds": 0})
    assert not index.has("n5", "default/later")


@pytest.mark.parametrize(
    ("selector", "is_allowed"),
    [
        pytest.param({"rawSelector": "spec.nodeName=a"}, True, id="its own, as text"),
        pytest.param({"rawSelector": "spec.nodeName=b"}, False, id="another node's, as text"),
        pytest.param({"rawSelector": "spec.nodeName"}, False, id="a text that is no selector"),
        pytest.param({"requirements": [("spec.nodeName", "In", ["a"])]}, True, id="its own, as a requirement"),
        pytest.param({"requirements": [("spec.nodeName", "NotIn", ["a"])]}, False, id="all others"),
        pytest.param({"requirements": [("spec.nodeName", "In", ["a", "b"])]}, False, id="its own and another's"),
        pytest.param(None, False, id="all pods"),
    ],
)
async def test_a_review_of_a_list_of_pods_looks_at_its_field_selector(
    world: World, selector: dict[str, Any] | None, is_allowed: bool
) -> None:
    asked: dict[str, Any] = {"verb": "list", "resource": "pods"}
    if selector is not None:
        listed = selector.get("requirements", ())
        requirements = [{"key": key, "operator": how, "values": values} for key, how, values in listed]
        asked["fieldSelector"] = {**selector, "requirements": requirements} if requirements else selector
    user = node_user("a")
    spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": asked}
    review = await world.admin.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert review["status"]["allowed"] is is_allowed
