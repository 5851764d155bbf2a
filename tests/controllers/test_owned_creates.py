"""Objects of an owner are made many in one call; what is there afterwards is said of each."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod, Service
from strato.api.meta import ObjectMeta
from strato.client.cluster import Cluster
from strato.clock import VirtualClock, run_virtual
from strato.controllers.ownedcreates import create_owned
from strato.controllers.owners import controller_reference
from strato.errors import AlreadyExists, ApiError, Forbidden
from strato.testing.faults import Faults, FaultyCluster
from tests.controllers.world import ADMIN, World

OWNER = ObjectMeta(name="o", namespace="default", uid="11111111-1111-4111-8111-111111111111")


def body(name: str = "", *, uid: str = OWNER.uid, **metadata: Any) -> dict[str, Any]:
    owner = ObjectMeta(name="o", namespace="default", uid=uid)
    meta = {"ownerReferences": [controller_reference("kubeflow.org/v1", "TFJob", owner)], **metadata}
    if name:
        meta["name"] = name
    spec = {"clusterIP": "None", "selector": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_of_each_object_is_said_what_is_there(at_once: int) -> None:
    async def story(clock: VirtualClock) -> None:
        world = World(clock)
        cluster: Cluster = FaultyCluster(world.server, ADMIN, clock, Random(1), faults=Faults(), at_once=at_once)
        mine = await cluster.create(Service, body("mine"), "default")
        other = "22222222-2222-4222-8222-222222222222"
        await cluster.create(catalog.SERVICE, body("others", uid=other), "default")
        wanted = [body("a"), body("mine"), body("others"), body("b"), body("c")]
        there, failures = await create_owned(cluster, Service, OWNER, wanted)
        assert [type(one) for one in failures] == [AlreadyExists]
        by_name = {one.metadata.name: one for one in there}
        assert by_name.keys() == {"a", "b", "c", "mine"}
        assert by_name["mine"].metadata.uid == mine.metadata.uid
        for name, one in by_name.items():
            stored = await cluster.get(Service, name, "default")
            assert (one.metadata.uid, one.metadata.resource_version) == (
                stored.metadata.uid,
                stored.metadata.resource_version,
            )
            assert one.key == stored.key
            assert one.metadata.controller == stored.metadata.controller

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_a_generated_name_is_known() -> None:
    async def story(clock: VirtualClock) -> None:
        made = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        there, failures = await create_owned(World(clock).cluster, Pod, OWNER, [made, made])
        assert not failures
        assert len({one.metadata.name for one in there}) == 2
        assert all(one.metadata.name.startswith("p-") for one in there)

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_what_fails_is_said_after_all_were_tried() -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = FaultyCluster(World(clock).server, ADMIN, clock, Random(1), faults=Faults())

        def refuse(request: Any) -> ApiError | None:
            return Forbidden("no") if b'"b"' in (request.body or b"") else None

        cluster.rules.append(refuse)
        there, failures = await create_owned(cluster, Service, OWNER, [body("a"), body("b"), body("c")])
        assert [one.metadata.name for one in there] == ["a", "c"]
        assert [type(one) for one in failures] == [Forbidden]

    clock = VirtualClock()
    run_virtual(clock, story(clock))
