"""Queues, plain pods' groups, and finished jobs that expire."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import Request, Response
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.controllers import choose_controllers
from strato.controllers.context import ControllerContext
from strato.controllers.manager import DEFAULT, UnknownController
from strato.controllers.queue import QueueController, next_state
from strato.errors import NotFound, UsageError
from strato.metrics import Registry
from tests.controllers.world import ADMIN, MeddlingCluster, World, play, task, vcjob

STATES = [
    ("", "SyncQueue", 0, "Open"),
    ("Open", "SyncQueue", 3, "Open"),
    ("Open", "CloseQueue", 0, "Closed"),
    ("Open", "CloseQueue", 1, "Closing"),
    ("Closed", "CloseQueue", 1, "Closed"),
    ("Closed", "SyncQueue", 1, "Closed"),
    ("Closed", "OpenQueue", 0, "Open"),
    ("Closing", "SyncQueue", 1, "Closing"),
    ("Closing", "SyncQueue", 0, "Closed"),
    ("Closing", "OpenQueue", 1, "Open"),
    ("Unknown", "SyncQueue", 0, "Unknown"),
    ("Unknown", "CloseQueue", 0, "Closed"),
]


@pytest.mark.parametrize(("state", "action", "groups", "want"), STATES)
def test_queue_states(state: str, action: str, groups: int, want: str) -> None:
    assert next_state(state, action, groups) == want


async def order(world: World, action: str, queue: str) -> None:
    body: dict[str, Any] = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "q-"},
        "action": action,
        "target": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": "u"},
    }
    await world.cluster.create(catalog.COMMAND, body, "default")


async def state(world: World, name: str) -> str:
    return (await world.cluster.get(Queue, name)).status.state


async def add_queue(world: World, name: str, parent: str = "") -> None:
    spec: dict[str, Any] = {"weight": 1} | ({"parent": parent} if parent else {})
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    await world.cluster.create(Queue, body)
    await world.settle(1)


def test_a_parent_closes_and_reopens_its_children() -> None:
    async def scenario(world: World) -> None:
        await add_queue(world, "p")
        await add_queue(world, "c", "p")
        await add_queue(world, "by-hand", "p")
        assert await state(world, "c") == "Open"
        assert (await world.cluster.get(Queue, "p")).spec.parent == "root"
        await order(world, "CloseQueue", "by-hand")
        await world.settle(1)
        await order(world, "CloseQueue", "p")
        await world.settle(1)
        assert [await state(world, n) for n in ("p", "c", "by-hand")] == ["Closed"] * 3
        await order(world, "OpenQueue", "p")
        await world.settle(1)
        assert [await state(world, n) for n in ("p", "c", "by-hand")] == ["Open", "Open", "Closed"]

    play(scenario)


def test_a_closing_queue_closes_with_its_last_group() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=60)), "default")
        await world.until_phase("j", "Running")
        await order(world, "CloseQueue", "default")
        await world.settle(2)
        assert await state(world, "default") == "Closing"
        await world.until_phase("j", "Completed")
        await world.settle(2)
        assert await state(world, "default") == "Closed"

    play(scenario, enabled=DEFAULT)  # there is no node: its pods would be collected


async def add_group(world: World, name: str, queue: str = "default") -> None:
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 1, "queue": queue},
    }
    await world.cluster.create(PodGroup, body, "default")


def test_a_queue_closes_when_its_last_group_goes_in_the_very_moment() -> None:
    class Late(MeddlingCluster):
        """Deletes the group between the decision that the queue is closing and its writing."""

        async def exchange(self, request: Request, *, stream: bool = False) -> Response:
            if request.path.endswith("/queues/default/status") and b"Closing" in request.body:
                await world_of[0].cluster.delete(PodGroup, "g", "default")
                await asyncio.sleep(0)
            return await super().exchange(request, stream=stream)

    world_of: list[World] = []

    async def scenario(world: World) -> None:
        world_of.append(world)
        await world.stop_controllers()
        await world.start_controllers(Late(world.server, ADMIN))
        await world.settle(1)
        await add_group(world, "g")
        await world.settle(1)
        await order(world, "CloseQueue", "default")
        await world.settle(2)
        assert await state(world, "default") == "Closed"

    play(scenario, enabled=("queue-controller",))


def test_groups_are_counted_by_queue_and_phase_and_cost_an_open_queue_no_work() -> None:
    async def scenario(world: World) -> None:
        await add_queue(world, "other", "root")
        metrics, asked = Registry(), []
        informers = Informers(world.cluster, world.clock, Random(1))
        context = ControllerContext(
            cluster=world.cluster,
            informers=informers,
            clock=world.clock,
            random=Random(2),
            recorder=EventRecorder(world.cluster, world.clock, "q"),
            metrics=metrics,
        )
        controller = QueueController(context)
        await informers.wait_synced()
        world.spawn(controller.run())
        await world.settle(1)
        controller._ask = lambda queue, action: asked.append(queue)  # type: ignore[method-assign]  # a double
        for number in range(3):
            await add_group(world, f"g{number}")
        await add_group(world, "elsewhere", "other")
        await world.cluster.patch(PodGroup, "g1", "default", {"status": {"phase": "Running"}})
        await world.cluster.delete(PodGroup, "g2", "default")
        await world.settle(1)
        text = metrics.render().decode()
        for queue, phase, count in (("default", "pending", 1), ("default", "running", 1), ("other", "pending", 1)):
            assert f'volcano_queue_pod_group_{phase}_count{{queue_name="{queue}"}} {count}.0' in text
        assert controller.group_count("default") == 2
        assert asked == []
        await world.cluster.patch(Queue, "default", "", {"status": {"state": "Closing"}}, subresource="status")
        await world.cluster.delete(PodGroup, "g0", "default")
        await world.settle(1)
        assert asked == ["default"] * 2, "for it is closing, and has fewer groups"
        await informers.stop()

    play(scenario, enabled=("queue-controller",), admit=False)


def test_a_plain_pod_gets_a_group() -> None:
    async def scenario(world: World) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": {"volcano.sh/preemptable": "true"}},
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}],
            },
        }
        pod = await world.cluster.create(Pod, body, "default")
        await world.settle(1)
        name = f"podgroup-{pod.metadata.uid}"
        group = await world.cluster.get(PodGroup, name, "default")
        assert group.spec.min_member == 1
        assert group.spec.min_resources is not None
        assert group.spec.min_resources["cpu"] == "500m"
        assert group.metadata.annotation("volcano.sh/preemptable") == "true"
        marked = await world.cluster.get(Pod, "p", "default")
        assert marked.metadata.annotation("scheduling.k8s.io/group-name") == name
        await world.cluster.delete(Pod, "p", "default")
        await world.settle(5)
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, name, "default")

    play(scenario)


def test_a_finished_job_expires_with_its_pods() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=5), ttlSecondsAfterFinished=30), "default")
        await world.until_phase("j", "Completed")
        await world.settle(20)
        assert await world.pods()
        await world.settle(30)
        assert not await world.pods()
        with pytest.raises(NotFound):
            await world.job("j")

    play(scenario)


def test_controllers_are_chosen_by_name() -> None:
    assert choose_controllers(["*", "-sharding-controller"]) == choose_controllers([""]) == DEFAULT
    assert set(choose_controllers(["*"])) == {*DEFAULT, "sharding-controller"}
    assert "kube-garbage-collector" not in choose_controllers(["*"])
    assert "gc-controller" not in choose_controllers(["*", "-gc-controller"])
    assert choose_controllers(["+job-controller"]) == ("job-controller",)
    with pytest.raises(UnknownController, match="nope"):
        choose_controllers(["nope"])
    with pytest.raises(UsageError, match="named twice"):
        choose_controllers(["gc-controller", "-gc-controller"])
