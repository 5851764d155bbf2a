"""Nodes of ours publish what they offer by the factor they were started with, and by their annotations later."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from strato.api import catalog
from strato.api.amplification import CPU_INFO, RATIO, RAW, STARTED_WITH
from strato.api.core import Node
from strato.api.meta import Json
from strato.client.cluster import Cluster
from strato.clock import VirtualClock
from strato.node.hollow import HollowNodes, HollowOffer
from strato.node.sandbox.machine import cpu_info
from tests.controllers.world import World, play

ENABLED = ("cpu-overcommit-controller",)


async def run_node(world: World, factor: float, cpu: str = "4") -> asyncio.Task[None]:
    assert isinstance(world.clock, VirtualClock)
    offer = HollowOffer(capacity={"cpu": cpu}, cpu_overcommit_factor=factor)
    nodes = HollowNodes(world.cluster, None, world.clock, random.Random(1), nodes={"n": offer})
    task = asyncio.create_task(nodes.run())
    await nodes.registered.wait()
    await world.settle(30)
    return task


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def offered(cluster: Cluster) -> tuple[str, str, str]:
    node = await cluster.get(Node, "n")
    return str(node.status.capacity["cpu"]), str(node.status.allocatable["cpu"]), node.metadata.annotation(RATIO)


def test_a_node_offers_by_its_flag_and_by_its_annotations_later() -> None:
    async def scenario(world: World) -> None:
        task = await run_node(world, 2)
        assert await offered(world.cluster) == ("4", "8", '{"cpu":2.00}')
        change: Json = {"metadata": {"annotations": {"strato.dev/cpu-overcommit-factor": "3"}}}
        await world.cluster.patch(catalog.NODE, "n", "", change)
        await world.settle(30)
        assert await offered(world.cluster) == ("4", "12", '{"cpu":3.00}')
        await stop(task)
        task = await run_node(world, 2, cpu="6")
        assert await offered(world.cluster) == ("6", "18", '{"cpu":3.00}')
        await stop(task)

    play(scenario, enabled=ENABLED)


def test_a_node_that_starts_without_a_factor_is_as_it_was() -> None:
    async def scenario(world: World) -> None:
        await stop(await run_node(world, 2))
        task = await run_node(world, 1)
        assert await offered(world.cluster) == ("4", "4", "")
        node = await world.cluster.get(Node, "n")
        assert not {RAW, STARTED_WITH} & set(node.metadata.annotations or {})
        await stop(task)

    play(scenario, enabled=ENABLED)


def test_a_machine_says_which_processor_it_has(tmp_path: Path) -> None:
    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    root = f"{tmp_path}/"
    assert cpu_info(root) == {}
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU @ 2.60GHz\n" * 4)
    assert json.loads(cpu_info(root)[CPU_INFO]) == {
        "cpuModel": "Fast CPU @ 2.60GHz",
        "hyperThreadEnabled": False,
        "turboEnabled": False,
    }
    put("sys/devices/system/cpu/smt/active", "1\n")
    put("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
    found = json.loads(cpu_info(root)[CPU_INFO])
    assert (found["hyperThreadEnabled"], found["turboEnabled"]) == (True, True)
