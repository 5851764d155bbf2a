"""Two nodes of one machine: each runs its own pods, and they share what the machine has once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.node import SandboxNode
from strato.node.sandbox.settings import NodeOffer, NodePeriods
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import QUICK, World, until


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the machine's; what its pods leave is ended."""
    yield tmp_path / "node"
    teardown(tmp_path / "node")


@asynccontextmanager
async def two_nodes(directory: Path, api: FakeApi) -> AsyncIterator[tuple[World, SandboxNode]]:
    """Run nodes ``here`` and ``there``."""
    clock, rng = SystemClock(), random.Random(1)
    informers = Informers(api.cluster(), clock, rng)
    offer = NodeOffer(name="here", share=2)
    periods = NodePeriods(backoff=QUICK)
    first = SandboxNode(api.cluster(), clock, rng, informers, data_dir=directory, offer=offer, periods=periods)
    second = first.neighbour(api.cluster(), replace(offer, name="there"))
    running = [asyncio.create_task(node.run()) for node in (first, second)]
    try:
        await until(lambda: second.registered.is_set() or any(task.done() for task in running))
        yield World(api, first), second
    finally:
        for task in reversed(running):
            if task.done():
                task.result()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await informers.stop()


def start(api: FakeApi, name: str, node: str, script: str) -> None:
    fields = {"NODE": "spec.nodeName", "IP": "status.podIP", "HOST": "status.hostIP"}
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script], "env": env}
    api.create_pod(name, node, containers=[main], restartPolicy="Never")


def address_of(api: FakeApi, node: str) -> str:
    addresses = api.objects[f"/api/v1/nodes/{node}"]["status"]["addresses"]
    return next(str(one["address"]) for one in addresses if one["type"] == "InternalIP")


async def test_each_node_runs_its_own_pods(directory: Path) -> None:
    api = FakeApi()
    async with two_nodes(directory, api) as (world, second):
        script = "echo $NODE $IP $HOST"
        start(api, "a", "here", script)
        start(api, "b", "there", script)
        assert (await world.finished("a"))["phase"] == (await world.finished("b"))["phase"] == "Succeeded"
        told = [(await world.log(name)).split() for name in ("a", "b")]
        assert [node for node, _, _ in told] == ["here", "there"]
        assert told[0][1] != told[1][1], "pods have addresses of their own, whichever node they are on"
        assert [host for _, _, host in told] == [address_of(api, "here"), address_of(api, "there")]
        if world.node.summary().pod_network.startswith("10."):
            assert told[0][2] != told[1][2], "so have nodes, where pods do not share the machine's network"
        start(api, "c", "there", "exec sleep 1000")
        await until(lambda: api.phase("c") == "Running")
        assert await second.shut_down(0.5) == 1
        assert api.phase("c") == "Failed"


async def test_nodes_share_the_machine(directory: Path) -> None:
    api = FakeApi()
    async with two_nodes(directory, api):
        sizes = [api.objects[f"/api/v1/nodes/{node}"]["status"]["capacity"] for node in ("here", "there")]
    whole = FakeApi()
    assert sizes[0] == sizes[1]
    node = SandboxNode(
        whole.cluster(), SystemClock(), random.Random(1), data_dir=directory, offer=NodeOffer(name="here")
    )
    memory = int(node._machine.capacity["memory"].removesuffix("Ki"))
    assert abs(2 * int(sizes[0]["memory"].removesuffix("Ki")) - memory) <= 2


async def test_pods_of_both_nodes_are_taken_over_after_a_restart(directory: Path) -> None:
    api = FakeApi()
    async with two_nodes(directory, api):
        for name, node in (("a", "here"), ("b", "there")):
            start(api, name, node, "exec sleep 1000")
            await until(lambda name=name: api.phase(name) == "Running")  # type: ignore[misc]  # of a default's type
    pids = list(directory.glob("pods/*/containers/main/*/state.json"))
    assert len(pids) == 2
    before = sorted(path.read_text() for path in pids)
    async with two_nodes(directory, api) as (world, second):
        await until(lambda: len(world.node._workers) == len(second._workers) == 1)
        assert world.node.summary().pods == 2
        assert sorted(path.read_text() for path in pids) == before
        assert [api.phase(name) for name in ("a", "b")] == ["Running", "Running"]
