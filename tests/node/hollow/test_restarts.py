"""Hollow nodes that start again find what an earlier start has left."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from strato.api import catalog
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, parse_time, run_virtual
from strato.node.hollow import HollowNodes, HollowOffer
from strato.node.shapes import RACK
from strato.server.embedded import in_memory_server
from tests.node.fake_api import FakeApi


def test_nodes_of_an_earlier_start_are_taken_over_with_few_requests() -> None:
    """A restart with thousands of nodes: one list of nodes, one of leases, and a patch of each lease."""
    clock = VirtualClock()
    api = FakeApi()

    async def run(offer: HollowOffer) -> list[tuple[str, str]]:
        before = len(api.requests)
        offered = dict.fromkeys((f"hollow-{number}" for number in range(100)), offer)
        nodes = HollowNodes(api.cluster(), None, clock, random.Random(1), nodes=offered)
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await clock.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [request for request in api.requests[before:] if "/nodes" in request[1]]

    async def main() -> None:
        first = await run(HollowOffer(labels={"a": "1"}))
        assert sum(method == "POST" for method, _ in first) == 100
        again = await run(HollowOffer(labels={"a": "1"}))
        assert [request for request in again if request[0] in ("POST", "PATCH", "PUT")] == []

    run_virtual(clock, main())


def test_nodes_that_are_to_be_otherwise_are_registered_again() -> None:
    clock = VirtualClock()

    async def main() -> None:
        cluster = LocalCluster(in_memory_server(clock, random.Random(1)), User("admin", ("system:masters",)))
        for offer in (
            HollowOffer(labels={"a": "1", RACK: "r1"}),
            HollowOffer(labels={"a": "2"}, capacity={"cpu": "9"}),
        ):
            offered = dict.fromkeys((f"hollow-{number}" for number in range(70)), offer)
            nodes = HollowNodes(cluster, None, clock, random.Random(1), nodes=offered)
            task = asyncio.create_task(nodes.run())
            await nodes.registered.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        node = await cluster.get(catalog.NODE, "hollow-7")
        assert (node["metadata"]["labels"]["a"], node["status"]["allocatable"]["cpu"]) == ("2", "9")
        assert RACK not in node["metadata"]["labels"], "a label of the earlier shape"

    run_virtual(clock, main())


def test_leases_of_an_earlier_start_are_taken_over() -> None:
    clock = VirtualClock()
    api = FakeApi()

    async def run() -> None:
        names = [f"hollow-{number}" for number in range(100)]
        nodes = HollowNodes(
            api.cluster(), None, clock, random.Random(1), nodes=dict.fromkeys(names, HollowOffer()), max_lease_rate=0
        )
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await clock.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def main() -> None:
        await run()
        await clock.sleep(1000)
        began = clock.now()
        await run()
        leases = [body for key, body in api.objects.items() if "/leases/" in key]
        assert len(leases) == 100
        assert all(parse_time(lease["spec"]["renewTime"]) >= began - 0.001 for lease in leases)

    run_virtual(clock, main())


def test_pods_that_run_as_written_are_not_written_again_and_end_in_time() -> None:
    clock = VirtualClock()

    async def main() -> None:
        cluster = LocalCluster(in_memory_server(clock, random.Random(1)), User("admin", ("system:masters",)))

        async def start() -> asyncio.Task[None]:
            nodes = HollowNodes(cluster, None, clock, random.Random(1), nodes={"n": HollowOffer()})
            task = asyncio.create_task(nodes.run())
            await nodes.registered.wait()
            await clock.sleep(1)
            return task

        async def stop(task: asyncio.Task[None]) -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        async def pods() -> dict[str, Any]:
            page = await cluster.list(catalog.POD, "default")
            return {pod["metadata"]["name"]: pod for pod in page.items}

        first = await start()
        for name, command in (("service", []), ("minute", ["sleep", "60"]), ("over", ["sleep", "15"])):
            container = {"name": "c", "image": "i", "command": command}
            spec = {"nodeName": "n", "restartPolicy": "Never", "containers": [container]}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await cluster.create(catalog.POD, body, "default")
        await clock.sleep(10)
        before = await pods()
        assert {pod["status"]["phase"] for pod in before.values()} == {"Running"}
        await stop(first)
        await clock.sleep(10)
        second = await start()
        after = await pods()
        assert after["service"] == before["service"], "not even its resource version has changed"
        assert after["minute"] == before["minute"]
        assert after["over"]["status"]["phase"] == "Succeeded", "it ended while nobody looked"
        await clock.sleep(37)
        assert (await pods())["minute"]["status"]["phase"] == "Running"
        await clock.sleep(3)
        assert (await pods())["minute"]["status"]["phase"] == "Succeeded"
        await cluster.delete(catalog.POD, "service", "default")
        await clock.sleep(1)
        assert "service" not in await pods()
        await stop(second)

    run_virtual(clock, main())
