"""extender: while it is waited for, the event loop goes on, and the world stays as the cycle sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.scheduler import Scheduler
from strato.scheduler.config import parse_config
from strato.scheduler.framework.suspension import suspendable, wait_for
from strato.server.embedded import in_memory_server
from tests.scheduler import worlds
from tests.scheduler.faulty import ADMIN
from tests.scheduler.plugins.test_extender import serving
from tests.scheduler.test_service import create

PATIENCE = 30.0
"""Seconds after which a test that fails ends; one that passes waits for none of them."""


def config(url: str, verb: str) -> Any:
    return parse_config(f"""
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: predicates
  - name: extender
    arguments:
      extender.urlPrefix: {url}
      extender.httpTimeout: 100s
      extender.cycleTimeout: 200s
      extender.{verb}Verb: {verb}
""")


@asynccontextmanager
async def scheduling(url: str, verb: str) -> AsyncIterator[tuple[LocalCluster, Scheduler, asyncio.Task[None]]]:
    clock = SystemClock()
    cluster = LocalCluster(in_memory_server(clock), ADMIN)
    await cluster.create(catalog.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    informers = Informers(cluster, clock, Random(1))
    scheduler = Scheduler(cluster, informers, clock, Random(1), config=config(url, verb))
    task = asyncio.create_task(scheduler.run())
    try:
        await asyncio.wait_for(scheduler.ready.wait(), 60)
        yield cluster, scheduler, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await informers.stop()


class Loop:
    """Counts the turns of the event loop, and lets threads wait until there have been more."""

    def __init__(self) -> None:
        self.turns = 0
        self._more = threading.Condition()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            with self._more:
                self.turns += 1
                self._more.notify_all()

    def advances(self) -> bool:
        """Wait in another thread until the loop has turned twenty times more."""
        with self._more:
            wanted = self.turns + 20
            return self._more.wait_for(lambda: self.turns >= wanted, PATIENCE)


async def until_bound(cluster: LocalCluster, name: str) -> str:
    async with asyncio.timeout(PATIENCE):
        while not (node := (await cluster.get(Pod, name, "ns")).spec.node_name):
            await asyncio.sleep(0.01)
    return node


@pytest.mark.parametrize("verb", ["onSessionOpen", "predicate", "prioritize", "jobReady"])
async def test_loop_goes_on_while_the_extender_is_silent(verb: str) -> None:
    loop = Loop()
    advanced: list[bool] = []

    def answer(_: str, __: Any) -> Any:
        advanced.append(loop.advances())
        return {"jobReady": {"status": True}}.get(verb, {})

    counting = asyncio.create_task(loop.run())
    with serving(answer) as (url, _):
        async with scheduling(url, verb) as (cluster, _, _):
            await create(cluster, worlds.node("n"), worlds.pod("p", scheduler="default-scheduler"))
            assert await until_bound(cluster, "p") == "n"
    counting.cancel()
    assert advanced
    assert all(advanced)


async def test_changes_that_come_while_a_cycle_waits_are_taken_after_it() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(_: str, __: Any) -> Any:
        asked.set()
        go_on.wait(PATIENCE)
        return {}

    with serving(answer) as (url, _):
        async with scheduling(url, "predicate") as (cluster, scheduler, _):
            await create(cluster, worlds.node("n"), worlds.pod("p", scheduler="default-scheduler"))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            await create(cluster, worlds.node("later"), worlds.pod("q", scheduler="default-scheduler"))
            await cluster.delete(Pod, "p", "ns", grace_period_seconds=0)
            await asyncio.sleep(0.1)
            assert set(scheduler.world.tasks) == {"ns/p"}  # as the cycle saw it
            assert "later" not in scheduler.world.nodes.row_of
            go_on.set()
            await until_bound(cluster, "q")
            assert set(scheduler.world.tasks) == {"ns/q"}
            assert "later" in scheduler.world.nodes.row_of


async def test_scheduler_that_is_stopped_while_a_cycle_waits_stops() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(_: str, __: Any) -> Any:
        asked.set()
        go_on.wait(PATIENCE)
        return {}

    with serving(answer) as (url, _):
        async with scheduling(url, "predicate") as (cluster, _, task):
            await create(cluster, worlds.node("n"), worlds.pod("p", scheduler="default-scheduler"))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            task.cancel()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            go_on.set()


async def test_suspendable_returns_and_raises_what_the_function_does() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("no")

    def work() -> int:
        with pytest.raises(KeyError):
            wait_for(fail())
        return wait_for(double(20)) + wait_for(double(1))

    assert await suspendable(work) == 42
    assert await asyncio.to_thread(work) == 42  # nobody to go on meanwhile

    def broken() -> None:
        wait_for(double(1))
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await suspendable(broken)
