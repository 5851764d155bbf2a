"""The stock controllers against the real server, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.apps import Deployment, ReplicaSet
from strato.api.coordination import Lease
from strato.api.core import ConfigMap, Endpoints, Event, Namespace, Node, Pod, ReplicationController, ServiceAccount
from strato.api.discovery import EndpointSlice
from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.clock import format_micro_time
from strato.controllers.kube.rolloutplan import Scale, plan_scales, resolve_bounds
from strato.errors import NotFound
from tests.controllers.world import ADMIN, MeddlingCluster, World, play


def config_map(name: str, owner: ConfigMap | None = None, *, blocks: bool = True) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if owner is not None:
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "blockOwnerDeletion": blocks,
            }
        ]
    return body


async def names(world: World) -> set[str]:
    items = (await world.cluster.list(ConfigMap, "default")).items
    return {item.metadata.name for item in items} - {"kube-root-ca.crt"}


@pytest.mark.parametrize(
    ("propagation", "left"),
    [("Background", set()), ("Foreground", set()), ("Orphan", {"child", "grandchild"})],
)
def test_deleting_an_owner(propagation: str, left: set[str]) -> None:
    async def scenario(world: World) -> None:
        owner = await world.cluster.create(ConfigMap, config_map("owner"), "default")
        child = await world.cluster.create(ConfigMap, config_map("child", owner), "default")
        await world.cluster.create(ConfigMap, config_map("grandchild", child), "default")
        await world.settle(1)
        await world.cluster.delete(ConfigMap, "owner", "default", propagation=propagation)
        await world.settle(5)
        assert await names(world) == left
        if left:
            orphan = await world.cluster.get(ConfigMap, "child", "default")
            assert not orphan.metadata.owner_references

    play(scenario)


def test_a_dependent_of_nobody_goes() -> None:
    async def scenario(world: World) -> None:
        owner = await world.cluster.create(ConfigMap, config_map("owner"), "default")
        await world.cluster.delete(ConfigMap, "owner", "default")
        await world.cluster.create(ConfigMap, config_map("late", owner), "default")
        again = await world.cluster.create(ConfigMap, config_map("owner"), "default")
        assert again.metadata.uid != owner.metadata.uid
        await world.settle(5)
        assert await names(world) == {"owner"}

    play(scenario)


def test_a_dependent_with_another_owner_stays() -> None:
    async def scenario(world: World) -> None:
        one = await world.cluster.create(ConfigMap, config_map("one"), "default")
        two = await world.cluster.create(ConfigMap, config_map("two"), "default")
        body = config_map("child", one)
        body["metadata"]["ownerReferences"] += config_map("x", two)["metadata"]["ownerReferences"]
        await world.cluster.create(ConfigMap, body, "default")
        await world.cluster.delete(ConfigMap, "one", "default")
        await world.settle(5)
        child = await world.cluster.get(ConfigMap, "child", "default")
        assert [r.name for r in child.metadata.owner_references or ()] == ["two"]

    play(scenario)


class ChangedFirst(MeddlingCluster):
    """Somebody changes the object named ``child`` just before its first deletion."""

    def __init__(self, world: World, change: dict[str, Any]) -> None:
        super().__init__(world.server, ADMIN)
        self._world, self._change = world, change

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        if request.method == "DELETE" and request.path.endswith("/child") and self._change:
            change, self._change = self._change, {}
            await self._world.cluster.patch(ConfigMap, "child", "default", {"metadata": change})
        return await super().exchange(request, stream=stream)


@pytest.mark.parametrize("adopts", [True, False])
def test_a_dependent_that_is_adopted_just_before_it_would_go_stays(adopts: bool) -> None:
    """What the caches show may be behind; what else changes of the object does not keep it."""

    async def scenario(world: World) -> None:
        one = await world.cluster.create(ConfigMap, config_map("one"), "default")
        two = await world.cluster.create(ConfigMap, config_map("two"), "default")
        child = config_map("child", one)
        await world.cluster.create(ConfigMap, child, "default")
        await world.settle(1)
        await world.stop_controllers()
        owners = [*child["metadata"]["ownerReferences"], *config_map("x", two)["metadata"]["ownerReferences"]]
        await world.start_controllers(
            ChangedFirst(world, {"ownerReferences": owners} if adopts else {"labels": {"a": "b"}})
        )
        await world.settle(1)
        await world.cluster.delete(ConfigMap, "one", "default")
        await world.settle(5)
        assert await names(world) == ({"two", "child"} if adopts else {"two"})
        if adopts:
            left = await world.cluster.get(ConfigMap, "child", "default")
            assert [r.name for r in left.metadata.owner_references or ()] == ["two"]

    play(scenario, enabled=("kube-garbage-collector",))


async def make_circle(world: World, size: int) -> None:
    """Make ConfigMaps that own each other in a circle, each blocking the deletion of the next."""
    made = [await world.cluster.create(ConfigMap, config_map("c0"), "default")]
    for number in range(1, size):
        made.append(await world.cluster.create(ConfigMap, config_map(f"c{number}", made[-1]), "default"))
    owners = config_map("x", made[-1])["metadata"]["ownerReferences"]
    await world.cluster.patch(ConfigMap, "c0", "default", {"metadata": {"ownerReferences": owners}})
    await world.settle(1)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("deleted", ["one", "all"])
def test_a_circle_of_blocking_owners_ends(size: int, deleted: str) -> None:
    async def scenario(world: World) -> None:
        await make_circle(world, size)
        for number in range(size if deleted == "all" else 1):
            await world.cluster.delete(ConfigMap, f"c{number}", "default", propagation="Foreground")
        await world.settle(10)
        assert await names(world) == set()

    play(scenario)


def test_an_object_in_a_circle_still_waits_for_a_dependent_outside_it() -> None:
    async def scenario(world: World) -> None:
        await make_circle(world, 2)
        owner = await world.cluster.get(ConfigMap, "c1", "default")
        held = config_map("held", owner)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await world.cluster.create(ConfigMap, held, "default")
        await world.cluster.delete(ConfigMap, "c0", "default", propagation="Foreground")
        await world.settle(10)
        assert {"c1", "held"} <= await names(world)
        await world.cluster.patch(ConfigMap, "held", "default", {"metadata": {"finalizers": None}})
        await world.settle(10)
        assert await names(world) == set()

    play(scenario)


def test_a_terminating_namespace_says_what_it_waits_for_and_asks_less_and_less_often() -> None:
    async def scenario(world: World) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await world.cluster.create(Namespace, body)
        held = config_map("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await world.cluster.create(ConfigMap, held, "team")
        await world.cluster.delete(Namespace, "team")
        await world.settle(120)
        found = {c.type: c for c in (await world.cluster.get(Namespace, "team")).status.conditions}
        assert {kind: (c.status, c.reason) for kind, c in found.items()} == {
            "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
            "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
            "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
            "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain"),
        }
        remaining = found["NamespaceContentRemaining"].message
        assert remaining == "Some resources are remaining: configmaps. has 1 resource instances"
        assert found["NamespaceFinalizersRemaining"].message == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        revision = (await world.cluster.get(Namespace, "team")).metadata.resource_version
        await world.settle(120)
        assert (await world.cluster.get(Namespace, "team")).metadata.resource_version == revision
        await world.cluster.patch(ConfigMap, "held", "team", {"metadata": {"finalizers": None}})
        await world.settle(16)
        with pytest.raises(NotFound):
            await world.cluster.get(Namespace, "team")

    play(scenario)


def test_pods_of_a_terminating_namespace_go_first() -> None:
    async def scenario(world: World) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await world.cluster.create(Namespace, body)
        waiting = pod("a", {})
        waiting["metadata"]["finalizers"] = ["example.com/hold"]
        await world.cluster.create(Pod, waiting, "team")
        await world.cluster.create(ConfigMap, config_map("mine"), "team")
        await world.cluster.delete(Namespace, "team")
        await world.settle(30)
        assert await world.cluster.get(ConfigMap, "mine", "team")
        await world.cluster.patch(Pod, "a", "team", {"metadata": {"finalizers": None}})
        await world.settle(30)
        with pytest.raises(NotFound):
            await world.cluster.get(Namespace, "team")

    play(scenario)


def test_a_namespace_is_furnished_and_emptied() -> None:
    async def scenario(world: World) -> None:
        ca = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt"},
            "data": {"ca.crt": "x"},
        }
        await world.cluster.create(ConfigMap, ca, "kube-system")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await world.cluster.create(Namespace, body)
        await world.settle(2)
        await world.cluster.get(ServiceAccount, "default", "team")
        assert (await world.cluster.get(ConfigMap, "kube-root-ca.crt", "team")).data["ca.crt"] == "x"
        await world.cluster.create(ConfigMap, config_map("mine"), "team")
        await world.cluster.delete(Namespace, "team")
        await world.settle(10)
        with pytest.raises(NotFound):
            await world.cluster.get(Namespace, "team")
        assert not (await world.cluster.list(ConfigMap, "team")).items

    play(scenario)


def pod(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def test_a_service_finds_the_pods_that_were_there_before_it() -> None:
    async def scenario(world: World) -> None:
        for name, labels in (
            ("a", {"app": "web", "tier": "front"}),
            ("b", {"app": "web", "tier": "back"}),
            ("c", {"app": "other", "tier": "front"}),
        ):
            await world.cluster.create(Pod, pod(name, labels), "default")
        await world.settle(3)

        async def names() -> list[str]:
            subsets = (await world.cluster.get(Endpoints, "web", "default")).subsets
            return [a.target_ref.name for subset in subsets for a in subset.addresses if a.target_ref]

        selector = {"app": "web", "tier": "front"}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": selector, "ports": [{"port": 80}]},
        }
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.settle(3)
        assert await names() == ["a"], "only a pod with every label"
        await world.cluster.patch(catalog.SERVICE, "web", "default", {"spec": {"selector": {"tier": None}}})
        await world.settle(3)
        assert await names() == ["a", "b"]
        await world.cluster.patch(catalog.SERVICE, "web", "default", {"spec": {"selector": {"app": "none"}}})
        await world.settle(3)
        assert await names() == []

    play(scenario)


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.05, 1.0])
def test_what_somebody_deletes_of_a_service_is_written_again(pause: float) -> None:
    """Of two slices one after the other, also while the first is being written again."""

    def declared(name: str, number: int) -> dict[str, Any]:
        made = pod(name, {"app": "web"})
        made["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": number}]
        return made

    async def scenario(world: World) -> None:
        for name, number in (("a", 8000), ("b", 8001)):
            await world.cluster.create(Pod, declared(name, number), "default")
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.settle(3)

        async def found() -> tuple[list[str], int]:
            slices = (await world.cluster.list(EndpointSlice, "default")).items
            endpoints = (await world.cluster.list(Endpoints, "default")).items
            return sorted(s.metadata.name for s in slices), len(endpoints)

        names, _ = before = await found()
        assert (len(names), before[1]) == (2, 1)
        for name in names:
            await world.cluster.delete(EndpointSlice, name, "default")
            await world.clock.sleep(pause)
        await world.settle(3)
        assert await found() == before
        await world.cluster.delete(Endpoints, "web", "default")
        await world.settle(3)
        assert await found() == before
        await world.cluster.delete(catalog.SERVICE, "web", "default")
        await world.settle(3)
        assert await found() == ([], 0), "a service that is gone has none"

    play(scenario)


def test_a_mirrored_slice_that_somebody_deletes_is_written_again() -> None:
    async def scenario(world: World) -> None:
        meta = {"name": "web"}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}]}}
        subsets = [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 8080}]}]
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.cluster.create(catalog.ENDPOINTS, endpoints, "default")
        await world.settle(3)
        (before,) = (await world.cluster.list(EndpointSlice, "default")).items
        await world.cluster.delete(EndpointSlice, before.metadata.name, "default")
        await world.settle(3)
        (after,) = (await world.cluster.list(EndpointSlice, "default")).items
        assert after.endpoints == before.endpoints
        assert after.metadata.uid != before.metadata.uid

    play(scenario)


def test_endpoints_follow_pods() -> None:
    async def scenario(world: World) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.cluster.create(Pod, pod("a", {"app": "web"}), "default")
        await world.cluster.create(Pod, pod("b", {"app": "other"}), "default")
        await world.settle(3)
        endpoints = await world.cluster.get(Endpoints, "web", "default")
        assert [(a.ip, a.target_ref.name if a.target_ref else "") for a in endpoints.subsets[0].addresses] == [
            ("10.0.0.1", "a")
        ]
        assert endpoints.subsets[0].ports[0].port == 8080
        slices = (await world.cluster.list(EndpointSlice, "default")).items
        assert [s.endpoints[0].addresses[0] for s in slices if s.endpoints] == ["10.0.0.1"]
        await world.cluster.delete(Pod, "a", "default")
        await world.settle(3)
        assert not (await world.cluster.get(Endpoints, "web", "default")).subsets
        await world.cluster.delete(catalog.SERVICE, "web", "default")
        await world.settle(3)
        assert not [s for s in (await world.cluster.list(EndpointSlice, "default")).items if "web" in s.metadata.name]

    play(scenario)


async def add_node(world: World, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    node = await world.cluster.create(Node, body)
    status = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": None}]}
    await world.cluster.patch(Node, name, "", {"status": status}, subresource="status")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format_micro_time(world.clock.now())},
    }
    await world.cluster.create(Lease, lease, "kube-node-lease")


async def renew(world: World, name: str) -> None:
    change = {"spec": {"renewTime": format_micro_time(world.clock.now())}}
    await world.cluster.patch(Lease, name, "kube-node-lease", change)


def test_a_silent_node_is_tainted_and_loses_its_pods() -> None:
    async def scenario(world: World) -> None:
        await add_node(world, "n")
        tolerations = [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            }
        ]
        await world.cluster.create(Pod, pod("p", {}, tolerations=tolerations), "default")
        await world.cluster.create(Pod, pod("forever", {}, tolerations=[{"operator": "Exists"}]), "default")
        for _ in range(10):
            await world.settle(10)
            await renew(world, "n")
        assert (await world.cluster.get(Node, "n")).is_ready
        await world.settle(45)
        node = await world.cluster.get(Node, "n")
        ready = node.status.condition("Ready")
        assert ready is not None
        assert ready.status == "Unknown"
        assert {(t.key, t.effect) for t in node.spec.taints} == {
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoSchedule"),
        }
        assert not (await world.cluster.get(Pod, "p", "default")).is_ready
        await world.settle(70)
        assert sorted(await world.pods()) == ["forever"]
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        await world.cluster.patch(Node, "n", "", {"status": status}, subresource="status")
        await renew(world, "n")
        await world.settle(5)
        assert not (await world.cluster.get(Node, "n")).spec.taints
        await world.cluster.delete(Node, "n")
        await world.settle(60)
        assert not await world.pods()
        with pytest.raises(NotFound):
            await world.cluster.get(Lease, "n", "kube-node-lease")

    play(scenario)


def deployment(replicas: int, image: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def test_a_deployment_scales_and_rolls() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(Deployment, deployment(3, "one"), "default")

        async def stands(replicas: int, image: str) -> bool:
            status = (await world.cluster.get(Deployment, "d", "default")).status
            pods = await world.pods()
            return (
                status.available_replicas == status.updated_replicas == status.replicas == replicas
                and len(pods) == replicas
                and all(p.spec.containers[0].image == image for p in pods.values())
            )

        await world.until(lambda: stands(3, "one"), 60)
        await world.cluster.patch(Deployment, "d", "default", {"spec": {"replicas": 5}})
        await world.until(lambda: stands(5, "one"), 60)
        template = deployment(5, "two")["spec"]["template"]
        await world.cluster.patch(Deployment, "d", "default", {"spec": {"template": template}})
        await world.until(lambda: stands(5, "two"), 60)
        sets = (await world.cluster.list(ReplicaSet, "default")).items
        assert sorted(s.spec.replicas for s in sets) == [0, 5]
        await world.cluster.delete(Deployment, "d", "default", propagation="Background")
        await world.settle(10)
        assert not await world.pods()

    play(scenario)


@pytest.mark.parametrize(
    ("replicas", "new", "old", "want"),
    [
        pytest.param(4, (0, 0, 0), [(4, 4, 4)], {"new": 1, "old0": 3}, id="surge of one, one may be missing"),
        pytest.param(4, (1, 0, 1), [(3, 3, 3)], {"new": 2}, id="nothing to spare, room for one more"),
        pytest.param(4, (4, 4, 4), [(1, 1, 1)], {"old0": 0}, id="the last old pods go"),
        pytest.param(4, (0, 0, 0), [(4, 0, 4)], {"new": 1, "old0": 3}, id="pods that serve nobody go first"),
        pytest.param(2, (4, 4, 4), [], {"new": 2}, id="scale down"),
    ],
)
def test_plan_scales(
    replicas: int, new: tuple[int, int, int], old: list[tuple[int, int, int]], want: dict[str, int]
) -> None:
    surge, unavailable = resolve_bounds(replicas, None, None)
    assert (
        plan_scales(
            replicas,
            Scale("new", *new),
            [Scale(f"old{n}", *scale) for n, scale in enumerate(old)],
            recreate=False,
            surge=surge,
            unavailable=unavailable,
        )
        == want
    )


def replication_controller(replicas: int, memory: str = "1Mi") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}},
        },
    }


def test_a_replication_controller_keeps_its_pods_and_says_so() -> None:
    async def scenario(world: World) -> None:
        made = await world.cluster.create(ReplicationController, replication_controller(3), "default")
        assert made.spec.selector == made.metadata.labels == {"app": "a"}

        async def stands(replicas: int) -> bool:
            status = (await world.cluster.get(ReplicationController, "r", "default")).status
            counts = {status.replicas, status.ready_replicas, status.available_replicas, status.fully_labeled_replicas}
            return counts == {replicas} and len(await world.pods()) == replicas

        await world.until(lambda: stands(3), 60)
        await world.cluster.patch(
            catalog.REPLICATIONCONTROLLER, "r", "default", {"spec": {"replicas": 1}}, subresource="scale"
        )
        await world.until(lambda: stands(1), 60)
        (pod,) = (await world.pods()).values()
        await world.cluster.delete(Pod, pod.metadata.name, "default")

        async def is_replaced() -> bool:
            return pod.metadata.name not in await world.pods() and await stands(1)

        await world.until(is_replaced, 60)
        await world.cluster.delete(ReplicationController, "r", "default", propagation="Background")
        await world.settle(10)
        assert not await world.pods()

    play(scenario)


def test_deleting_a_replication_controller_leaves_its_pods_where_nothing_else_is_asked_for() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(ReplicationController, replication_controller(2), "default")
        await world.settle(10)
        await world.cluster.delete(ReplicationController, "r", "default")
        await world.settle(10)
        pods = (await world.pods()).values()
        assert [len(pod.metadata.owner_references or ()) for pod in pods] == [0, 0]

    play(scenario)


def test_what_keeps_pods_from_being_made_is_a_condition_until_it_is_gone() -> None:
    async def scenario(world: World) -> None:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
        await world.cluster.create(
            catalog.RESOURCEQUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, "default"
        )
        await world.settle(5)
        await world.cluster.create(ReplicationController, replication_controller(3), "default")

        async def failures() -> list[str]:
            found = await world.cluster.get(ReplicationController, "r", "default")
            return [f"{one.type} {one.reason}" for one in found.status.conditions]

        async def has_failed() -> bool:
            return await failures() == ["ReplicaFailure FailedCreate"]

        await world.until(has_failed, 60)
        await world.cluster.patch(ReplicationController, "r", "default", {"spec": {"replicas": 2}})

        async def is_well() -> bool:
            return not await failures()

        await world.until(is_well, 120)

    play(scenario)


def custom(kind: str, name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": meta}


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    named = {"apiVersion": "example.com/v1beta1", "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return [{**named, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}]


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_dependents_of_custom_owners_are_collected(propagation: str) -> None:
    """Operators (dask-kubernetes among them) own what they make by an object of their own kind, in any version."""
    names = {"kind": "Cluster", "plural": "clusters", "singular": "cluster", "listKind": "ClusterList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {"name": "v1beta1", "served": True, "storage": False, "schema": schema},
                {"name": "v1", "served": True, "storage": True, "schema": schema},
            ],
        },
    }

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.CUSTOMRESOURCEDEFINITION, definition)
        await world.settle()
        clusters = Kind("example.com", "v1", "Cluster", "clusters")
        top = await world.cluster.create(clusters, custom("Cluster", "top"), "default")
        below = custom("Cluster", "below", ownerReferences=owned_by(top))
        middle = await world.cluster.create(clusters, below, "default")
        for name, owner, namespace in (("near", middle, "default"), ("far", middle, "kube-public")):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            body["metadata"]["ownerReferences"] = owned_by(owner)
            await world.cluster.create(catalog.CONFIGMAP, body, namespace)
        await world.settle()
        assert [m.metadata.name for m in (await world.cluster.list(ConfigMap, "default")).items] == ["near"]
        with pytest.raises(NotFound):  # its owner is in another namespace: there is none
            await world.cluster.get(ConfigMap, "far", "kube-public")
        events = (await world.cluster.list(Event, "kube-public")).items
        assert [event.reason for event in events] == ["OwnerRefInvalidNamespace"]
        await world.cluster.delete(clusters, "top", "default", propagation=propagation)
        await world.settle()
        left = [one["metadata"]["name"] for one in (await world.cluster.list(clusters, "default")).items]
        maps = [m.metadata.name for m in (await world.cluster.list(ConfigMap, "default")).items]
        assert (left, maps) == ((["below"], ["near"]) if propagation == "Orphan" else ([], []))
        await world.cluster.delete(catalog.CUSTOMRESOURCEDEFINITION, "clusters.example.com")
        await world.settle()
        assert (await world.cluster.list(ConfigMap, "default")).items == []

    play(scenario, enabled=("kube-garbage-collector",))


def test_a_named_port_that_differs_between_pods_makes_a_slice_each() -> None:
    async def scenario(world: World) -> None:
        spec = {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
        await world.cluster.create(catalog.SERVICE, body, "default")
        for name, number in (("x", 8080), ("y", 9090), ("z", 8080)):
            container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": number}]}
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}}}
            await world.cluster.create(catalog.POD, {**made, "spec": {"containers": [container]}}, "default")
        await world.settle()
        slices = (await world.cluster.list(EndpointSlice, "default")).items
        assert sorted((s.ports[0].port, len(s.endpoints)) for s in slices) == [(8080, 2), (9090, 1)]
        subsets = (await world.cluster.get(Endpoints, "s", "default")).subsets
        assert sorted((s.ports[0].port, len(s.addresses)) for s in subsets) == [(8080, 2), (9090, 1)]

    play(scenario)


def test_hand_made_endpoints_are_mirrored() -> None:
    def subsets(*ips: str) -> list[dict[str, Any]]:
        return [{"addresses": [{"ip": ip} for ip in ips], "ports": [{"name": "db", "port": 5432, "protocol": "TCP"}]}]

    async def scenario(world: World) -> None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}}
        await world.cluster.create(catalog.SERVICE, {**body, "spec": {"ports": [{"port": 5432}]}}, "default")
        given = {**body, "kind": "Endpoints", "subsets": subsets("10.1.2.3", "fd00::3")}
        await world.cluster.create(catalog.ENDPOINTS, given, "default")

        async def shown() -> list[tuple[str, list[str]]]:
            await world.settle()
            slices = (await world.cluster.list(EndpointSlice, "default")).items
            return sorted((s.address_type, [e.addresses[0] for e in s.endpoints]) for s in slices)

        assert await shown() == [("IPv4", ["10.1.2.3"]), ("IPv6", ["fd00::3"])]
        await world.cluster.patch(Endpoints, "db", "default", {"subsets": subsets("10.2.3.4")})
        assert await shown() == [("IPv4", ["10.2.3.4"])]
        skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        await world.cluster.patch(Endpoints, "db", "default", skip)
        assert await shown() == []

    play(scenario)


def test_pods_bear_a_taint_for_their_time_and_say_why_they_go() -> None:
    """Kubectl's taints do not say since when they are there."""

    def bearing(name: str, *, seconds: int | None) -> dict[str, Any]:
        borne: dict[str, Any] = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
        tolerations = [borne | ({} if seconds is None else {"tolerationSeconds": seconds})]
        return pod(name, {}, tolerations=[] if seconds == 0 else tolerations, nodeName="n")

    async def scenario(world: World) -> None:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}
        await world.cluster.create(catalog.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await world.cluster.patch(Node, "n", "", {"status": {"conditions": [ready]}}, subresource="status")
        for name, seconds in (("none", 0), ("some", 20), ("all", None)):
            await world.cluster.create(Pod, bearing(name, seconds=seconds), "default")
        await world.settle(1)
        await world.cluster.patch(Node, "n", "", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await world.settle(3)
        assert set(await world.pods()) == {"some", "all"}
        await world.cluster.create(Pod, bearing("late", seconds=20), "default")
        await world.settle(12)
        assert set(await world.pods()) == {"some", "all", "late"}
        await world.settle(6)
        assert set(await world.pods()) == {"all", "late"}
        await world.settle(12)
        assert set(await world.pods()) == {"all"}
        events = (await world.cluster.list(Event, "default")).items
        assert sum(event.reason == "TaintManagerEviction" for event in events) == 3

    play(scenario, enabled=("kube-node-lifecycle-controller",))
