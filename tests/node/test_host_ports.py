"""New pods whose host ports another pod of the node holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import PodSpec
from strato.api.pods import host_ports, host_ports_clash
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

PORT = {"containerPort": 80, "hostPort": 8080}


def ports(*found: dict[str, Any], **spec: Any) -> PodSpec:
    return msgspec.convert({"containers": [{"name": "c", "ports": list(found)}], **spec}, PodSpec)


SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always", "ports": [PORT]}]}
BEFORE = {"initContainers": [{"name": "s", "ports": [PORT]}]}
CLASHES = [
    pytest.param(ports(PORT), ports(PORT), True, id="equal"),
    pytest.param(ports(PORT), ports({**PORT, "hostPort": 8081}), False, id="other numbers"),
    pytest.param(ports(PORT), ports({**PORT, "protocol": "UDP"}), False, id="other protocols"),
    pytest.param(ports({**PORT, "hostIP": "127.0.0.1"}), ports({**PORT, "hostIP": "127.0.0.2"}), False, id="addresses"),
    pytest.param(ports({**PORT, "hostIP": "127.0.0.1"}), ports(PORT), True, id="one at every address"),
    pytest.param(ports(PORT), ports({**PORT, "hostIP": "127.0.0.1"}), True, id="the other at every address"),
    pytest.param(ports(PORT), ports({"containerPort": 8080}, hostNetwork=True), True, id="the host's network"),
    pytest.param(ports(PORT), ports({"containerPort": 8080}), False, id="a container's own port"),
    pytest.param(ports(PORT), ports(**SIDECAR), True, id="a sidecar's"),
    pytest.param(ports(PORT), ports(**BEFORE), False, id="an init container's"),
    pytest.param(ports({"containerPort": 1}, {**PORT, "hostPort": 9}, PORT), ports(PORT), True, id="one of several"),
]


@pytest.mark.parametrize(("wanted", "held", "clash"), CLASHES)
def test_host_ports_clash(wanted: PodSpec, held: PodSpec, clash: bool) -> None:
    assert host_ports_clash(host_ports(wanted), host_ports(held)) is clash
    assert host_ports_clash(host_ports(held), host_ports(wanted)) is clash


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the node's; what its pods leave is ended."""
    yield tmp_path / "node"
    teardown(tmp_path / "node")


def serve(world: World, name: str, script: str = "sleep 1000", **port: Any) -> None:
    world.sh(name, script, container={"ports": [{**PORT, **port}]}, restartPolicy="Never")


async def test_a_pod_whose_host_port_is_taken_is_rejected_and_the_next_gets_it(directory: Path) -> None:
    async with running(directory, FakeApi(), network=PodNetwork.HOST) as world:
        serve(world, "holder")
        await until(lambda: world.api.phase("holder") == "Running")
        serve(world, "late")
        found = await world.finished("late")
        text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        assert (found["phase"], found["reason"]) == ("Failed", "NodePorts")
        assert found["message"] == f"Pod was rejected: {text}"
        assert ("NodePorts", text) in await world.events()
        serve(world, "beside", "true", hostPort=8081)
        assert (await world.finished("beside"))["phase"] == "Succeeded"
        await world.api.cluster().delete(catalog.POD, "holder", "default", grace_period_seconds=0)
        serve(world, "next")
        await until(lambda: world.api.phase("next") == "Running")


async def test_of_two_that_come_at_once_one_gets_the_port(directory: Path) -> None:
    async with running(directory, FakeApi(), network=PodNetwork.HOST) as world:
        for name in ("a", "b"):
            serve(world, name)
        await until(lambda: {world.api.phase("a"), world.api.phase("b")} == {"Running", "Failed"})


async def test_a_pod_that_runs_keeps_its_port_through_a_restart_of_the_node(directory: Path) -> None:
    api = FakeApi()
    async with running(directory, api, network=PodNetwork.HOST) as world:
        serve(world, "holder")
        await until(lambda: world.api.phase("holder") == "Running")
    serve(world, "a-late")
    async with running(directory, api, network=PodNetwork.HOST) as world:
        assert (await world.finished("a-late"))["reason"] == "NodePorts"
        assert world.api.phase("holder") == "Running"
