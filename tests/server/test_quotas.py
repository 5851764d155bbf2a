"""ResourceQuotas refuse what goes over them, in Kubernetes' words, and are charged before the answer."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod, ResourceQuota
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import Forbidden
from strato.server.embedded import in_memory_server

Json = dict[str, Any]


def play(scenario: Callable[[LocalCluster], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        await scenario(LocalCluster(in_memory_server(clock, random.Random(1)), User("admin", ("system:masters",))))

    run_virtual(clock, run())


async def quota(cluster: LocalCluster, name: str = "q", **spec: Any) -> None:
    await cluster.create(catalog.RESOURCEQUOTA, {"metadata": {"name": name}, "spec": spec}, "default")


def pod(name: str, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
    }


async def refusal(cluster: LocalCluster, kind: Any, body: Json) -> str:
    with pytest.raises(Forbidden) as caught:
        await cluster.create(kind, body, "default")
    assert caught.value.code == 403
    return caught.value.message


async def used(cluster: LocalCluster, name: str = "q") -> Json:
    return dict((await cluster.get(ResourceQuota, name, "default")).status.used)


def test_pods_over_the_quota_are_refused_and_the_others_charged() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard={"requests.cpu": "2", "requests.memory": "1Gi", "pods": "5"})
        for name in ("a", "b"):
            await cluster.create(catalog.POD, pod(name, {"cpu": "1", "memory": "256Mi"}), "default")
        text = await refusal(cluster, catalog.POD, pod("c", {"cpu": "500m", "memory": "256Mi"}))
        assert text == (
            'pods "c" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=2, '
            "limited: requests.cpu=2"
        )
        assert await used(cluster) == {"requests.cpu": "2", "requests.memory": "512Mi", "pods": "2"}
        text = await refusal(cluster, catalog.POD, pod("c", {"cpu": "1", "memory": "1Gi"}))
        assert "requested: requests.cpu=1,requests.memory=1Gi, used: requests.cpu=2,requests.memory=512Mi, " in text

    play(scenario)


def test_a_resize_is_charged_and_refused() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard={"requests.cpu": "2"})
        await cluster.create(catalog.POD, pod("a", {"cpu": "1"}), "default")

        async def resize(cpu: str) -> None:
            patch = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": cpu}]
            path = catalog.POD.path("default", "a", "resize")
            await cluster.raw(
                "PATCH", path, body=json.dumps(patch).encode(), content_type="application/json-patch+json"
            )

        with pytest.raises(Forbidden) as caught:
            await resize("3")
        assert caught.value.message == (
            'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1, '
            "limited: requests.cpu=2"
        )
        await resize("2")
        assert await used(cluster) == {"requests.cpu": "2"}

    play(scenario)


def test_containers_must_name_what_is_limited() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard={"limits.cpu": "2", "requests.memory": "1Gi"})
        assert await refusal(cluster, catalog.POD, pod("a", {"cpu": "1"})) == (
            'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c'
        )
        await cluster.create(catalog.POD, pod("a", limits={"cpu": "1", "memory": "1Gi"}), "default")

    play(scenario)


def test_a_quota_made_later_counts_what_is_there() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await cluster.create(catalog.POD, pod("a"), "default")
        await quota(cluster, hard={"pods": "1"})
        assert "requested: pods=1, used: pods=1, limited: pods=1" in await refusal(cluster, catalog.POD, pod("b"))

    play(scenario)


def test_scopes_decide_who_counts() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard={"pods": "1"}, scopes=["Terminating"])
        for name in ("a", "b"):
            await cluster.create(catalog.POD, pod(name), "default")
        await cluster.create(catalog.POD, pod("c", activeDeadlineSeconds=5), "default")
        await refusal(cluster, catalog.POD, pod("d", activeDeadlineSeconds=5))

    play(scenario)


def test_crowds_get_no_more_than_there_is() -> None:
    """Creations at the same time do not get the same room."""

    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard={"pods": "3"})
        done = await asyncio.gather(
            *(cluster.create(catalog.POD, pod(f"p{n}"), "default") for n in range(9)), return_exceptions=True
        )
        assert sum(isinstance(one, Forbidden) for one in done) == 6
        assert len((await cluster.list(Pod, "default")).items) == 3

    play(scenario)


OTHERS: list[tuple[str, Any, Json, Json, str]] = [
    ("config maps", catalog.CONFIGMAP, {"configmaps": "1"}, {}, "configmaps=1"),
    ("config maps by count", catalog.CONFIGMAP, {"count/configmaps": "1"}, {}, "count/configmaps=1"),
    (
        "custom objects by count",
        catalog.JOBTEMPLATE,
        {"count/jobtemplates.flow.volcano.sh": "1"},
        {"apiVersion": catalog.JOBTEMPLATE.api_version, "kind": "JobTemplate", "spec": {}},
        "count/jobtemplates.flow.volcano.sh=1",
    ),
    (
        "storage",
        catalog.PERSISTENTVOLUMECLAIM,
        {"requests.storage": "10Gi"},
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}}},
        "requests.storage=6Gi",
    ),
    (
        "ports of nodes",
        catalog.SERVICE,
        {"services.nodeports": "1"},
        {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
        "services.nodeports=1",
    ),
]


@pytest.mark.parametrize(("kind", "hard", "body", "asked"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_other_objects_count_and_room_comes_back_with_their_deletion(
    kind: Any, hard: Json, body: Json, asked: str
) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await quota(cluster, hard=hard)
        await cluster.create(kind, {"metadata": {"name": "one"}, **body}, "default")
        text = await refusal(cluster, kind, {"metadata": {"name": "two"}, **body})
        assert f'{kind.resource} "two" is forbidden: exceeded quota: q, requested: {asked}, used: {asked}, ' in text
        await cluster.delete(kind, "one", "default")
        if kind is catalog.PERSISTENTVOLUMECLAIM:  # it counts until nobody uses it
            await refusal(cluster, kind, {"metadata": {"name": "two"}, **body})
            await cluster.patch(kind, "one", "default", {"metadata": {"finalizers": None}})
        await cluster.create(kind, {"metadata": {"name": "two"}, **body}, "default")

    play(scenario)


def test_a_dry_run_and_a_taken_name_charge_nothing() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await cluster.create(catalog.POD, pod("a"), "default")
        await quota(cluster, hard={"pods": "2"})
        with pytest.raises(Exception, match="already exists"):
            await cluster.create(catalog.POD, pod("a"), "default")
        assert await used(cluster) == {}
        await cluster.create(catalog.POD, pod("b"), "default")
        assert await used(cluster) == {"pods": "2"}

    play(scenario)


GROWTH: list[tuple[str, Any, Json, Json, Json, str]] = [
    (
        "a claim that grows",
        catalog.PERSISTENTVOLUMECLAIM,
        {"requests.storage": "10Gi", "persistentvolumeclaims": "1"},
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "grows",
                "volumeName": "v",
                "resources": {"requests": {"storage": "6Gi"}},
            },
            "status": {"phase": "Bound"},
        },
        {"spec": {"resources": {"requests": {"storage": "11Gi"}}}},
        "requested: requests.storage=5Gi, used: requests.storage=6Gi, limited: requests.storage=10Gi",
    ),
    (
        "a service that becomes one of node ports",
        catalog.SERVICE,
        {"services.nodeports": "1", "services": "1"},
        {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}},
        {"spec": {"type": "NodePort"}},
        "requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1",
    ),
    (
        "a pod that gets a deadline and so another scope",
        catalog.POD,
        {"pods": "0"},
        pod("one"),
        {"spec": {"activeDeadlineSeconds": 60}},
        "requested: pods=1, used: pods=0, limited: pods=0",
    ),
]


@pytest.mark.parametrize(
    ("kind", "hard", "body", "change", "text"), [row[1:] for row in GROWTH], ids=[row[0] for row in GROWTH]
)
def test_an_update_is_charged_what_it_adds(kind: Any, hard: Json, body: Json, change: Json, text: str) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        scopes = {"scopes": ["Terminating"]} if kind is catalog.POD else {}
        await quota(cluster, hard=hard, **scopes)
        storage_class = {"metadata": {"name": "grows"}, "provisioner": "p", "allowVolumeExpansion": True}
        await cluster.create(catalog.STORAGECLASS, storage_class)
        metadata = {"metadata": {"name": "one"}}
        await cluster.create(kind, {**body, **metadata}, "default")
        if "status" in body:  # a claim may only grow once it is bound
            await cluster.patch(kind, "one", "default", {"status": body["status"]}, subresource="status")
        with pytest.raises(Forbidden) as caught:
            await cluster.patch(kind, "one", "default", change)
        assert caught.value.message == f'{kind.resource} "one" is forbidden: exceeded quota: q, {text}'
        await cluster.patch(kind, "one", "default", {"metadata": {"labels": {"a": "b"}}})  # adds nothing
        resource = text.split("requested: ", 1)[1].split("=", 1)[0]
        more = {"spec": {"hard": {resource: "20Gi"}}}
        await cluster.patch(catalog.RESOURCEQUOTA, "q", "default", more)
        await cluster.patch(kind, "one", "default", change)
        assert (await used(cluster))[resource] in ("11Gi", "2", "1")

    play(scenario)


def test_an_update_that_gives_back_is_let_through_above_the_quota() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        service = {"metadata": {"name": "one"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        await cluster.create(catalog.SERVICE, service, "default")
        await quota(cluster, hard={"services.nodeports": "0"})
        await cluster.patch(catalog.SERVICE, "one", "default", {"spec": {"type": "ClusterIP"}})

    play(scenario)
