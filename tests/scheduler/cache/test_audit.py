"""The self-audit: what the scheduler wrongly believes is found, repaired, counted and told, and only that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strato.api.core import Event
from strato.clock import VirtualClock
from strato.metrics import Registry
from strato.scheduler.cache.world import World
from tests.scheduler import worlds
from tests.scheduler.test_service import create, nodes_of, running, virtually

Json = dict[str, Any]
PERIOD = 30.0


def forget(world: World) -> None:
    world.remove_pod("ns/a")


def invent(world: World) -> None:
    worlds.feed(world, worlds.pod("ghost", phase="Running", nodeName="n1"))


def misplace(world: World) -> None:
    task = world.tasks["ns/a"]
    world.move(task, task.status, world.nodes.row_of["n2"])


def miscount(world: World) -> None:
    world.nodes.idle[world.nodes.row_of["n1"], 0] -= 1500


def misjudge(world: World) -> None:
    job = world.tasks["ns/a"].job
    assert job is not None
    job.used[0] += 500


def mislay(world: World) -> None:
    world.queues["default"].used[0] += 500


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        pytest.param(forget, "unknown pod", id="a pod that was forgotten"),
        pytest.param(invent, "pod that is gone", id="a pod that does not exist"),
        pytest.param(misplace, "pod in the wrong place", id="a pod on another node"),
        pytest.param(miscount, "node with wrong sums", id="sums that do not add up"),
        pytest.param(misjudge, "job with wrong sums", id="a job that is thought to use more"),
        pytest.param(mislay, "queue with wrong sums", id="a queue that is thought to use more"),
    ],
)
def test_wrong_beliefs_are_repaired(harm: Callable[[World], None], kind: str) -> None:
    async def story(clock: VirtualClock) -> None:
        metrics = Registry()
        async with running(clock, audit_seconds=PERIOD, metrics=metrics) as (cluster, scheduler):
            await create(cluster, worlds.node("n1"), worlds.group("g", 1), worlds.pod("a", "g"))
            await clock.sleep(2)
            assert await nodes_of(cluster) == {"a": "n1"}
            await create(cluster, worlds.node("n2"))
            await clock.sleep(5)
            good = worlds.fingerprint(scheduler.world)
            harm(scheduler.world)
            assert worlds.fingerprint(scheduler.world) != good
            await clock.sleep(3 * PERIOD + 1)
            assert worlds.fingerprint(scheduler.world) == good
            assert f'strato_cache_repairs_total{{kind="{kind}"}} 1.0' in metrics.render().decode()
            events = await cluster.list(Event)
            told = [event.message for event in events.items if event.reason == "CacheRepaired"]
            assert len(told) == 1

    virtually(story)


def test_right_beliefs_are_left_alone_while_pods_come_and_go() -> None:
    async def story(clock: VirtualClock) -> None:
        metrics = Registry()
        async with running(clock, audit_seconds=1.0, metrics=metrics) as (cluster, _):
            await create(cluster, worlds.node("n1", cpu="8"), worlds.group("g", 1))
            for number in range(12):
                await create(cluster, worlds.pod(f"p{number}", "g"))
                await clock.sleep(0.7)
            await clock.sleep(5)
            text = metrics.render().decode()
            assert "strato_cache_repairs_total{" not in text
            assert 'strato_cache_audited_total{kind="pod"}' in text

    virtually(story)
