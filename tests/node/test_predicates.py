"""New pods for which their node has no room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import PodSpec
from strato.node.predicates import Insufficient, insufficient
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

ROOM = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1G", "pods": "3", "nvidia.com/gpu": "1"}
SHARED = {"pods", "cpu", "memory", "ephemeral-storage"}


def asks(**amounts: str) -> PodSpec:
    requests = {name.replace("_", "-").replace("gpu", "nvidia.com/gpu"): amount for name, amount in amounts.items()}
    return msgspec.convert({"containers": [{"name": "c", "resources": {"requests": requests}}]}, PodSpec)


TABLE: list[Any] = [
    pytest.param(asks(cpu="2"), [], [], id="all of it"),
    pytest.param(asks(cpu="2001m"), [], [("cpu", 2001, 0, 2000)], id="more than there is"),
    pytest.param(asks(cpu="1"), [asks(cpu="1500m")], [("cpu", 1000, 1500, 2000)], id="beside another"),
    pytest.param(asks(memory="512Mi"), [asks(memory="512Mi")], [], id="the rest"),
    pytest.param(asks(), [asks(cpu="3", memory="2Gi")], [], id="nothing of what is overdrawn"),
    pytest.param(asks(cpu="0"), [asks(cpu="3")], [], id="an explicit nothing"),
    pytest.param(asks(), [asks()] * 3, [("pods", 1, 3, 3)], id="one pod too many"),
    pytest.param(asks(gpu="1"), [asks(gpu="1")], [], id="devices"),
    pytest.param(asks(ephemeral_storage="2G"), [], [("ephemeral-storage", 2 * 10**9, 0, 10**9)], id="disk"),
    pytest.param(asks(licences="9"), [], [], id="what the node does not know"),
    pytest.param(
        asks(memory="2Gi", cpu="3"), [], [("cpu", 3000, 0, 2000), ("memory", 2 << 30, 0, 1 << 30)], id="two at once"
    ),
]


@pytest.mark.parametrize(("wanted", "others", "lacking"), TABLE)
def test_room(wanted: PodSpec, others: list[PodSpec], lacking: list[Insufficient]) -> None:
    assert insufficient(wanted, others, ROOM, SHARED) == lacking


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the node's; what its pods leave is ended."""
    yield tmp_path / "node"
    teardown(tmp_path / "node")


def serve(world: World, name: str, cpu: str, script: str = "sleep 1000") -> None:
    world.sh(name, script, container={"resources": {"requests": {"cpu": cpu}}}, restartPolicy="Never")


async def test_a_pod_without_room_is_rejected_until_another_has_gone(directory: Path) -> None:
    api = FakeApi()
    async with running(directory, api, network=PodNetwork.HOST, cpus="2") as world:
        serve(world, "holder", "1500m")
        await until(lambda: world.api.phase("holder") == "Running")
        serve(world, "late", "1")
        found = await world.finished("late")
        text = "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
        assert (found["phase"], found["reason"]) == ("Failed", "OutOfcpu")
        assert found["message"] == f"Pod was rejected: {text}"
        assert ("OutOfcpu", text) in await world.events()
        serve(world, "beside", "500m", "true")
        assert (await world.finished("beside"))["phase"] == "Succeeded"
        serve(world, "after", "500m", "true")  # what has ended holds nothing
        assert (await world.finished("after"))["phase"] == "Succeeded"
        await world.api.cluster().delete(catalog.POD, "holder", "default", grace_period_seconds=0)
        serve(world, "next", "2")
        await until(lambda: world.api.phase("next") == "Running")
    async with running(directory, api, network=PodNetwork.HOST, cpus="1") as world:  # it runs: it stays
        serve(world, "again", "1")
        assert (await world.finished("again"))["reason"] == "OutOfcpu"
        assert world.api.phase("next") == "Running"
