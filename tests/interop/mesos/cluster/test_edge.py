"""The master beside an API server, a scheduler and hollow nodes, in virtual time: holds, pods, deletions, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import ConfigMap, Node, Pod
from strato.api.heldroom import HELD_ROOM
from strato.api.meta import Json
from strato.api.wire import Request
from strato.client.cluster import PatchType
from strato.interop.mesos.cluster.run import MesosMaster, MesosSettings
from strato.interop.mesos.master.state import MasterOptions
from strato.interop.mesos.wire import JSON, RecordReader
from strato.testing import pod
from strato.testing.harness import Harness, run_in_virtual_time
from tests.interop.mesos.worlds import task


class Front:
    """A master on a harness, and one framework of it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        world = harness.world
        self.master = MesosMaster(
            harness.cluster, world.informers, harness.clock, Random(3),
            settings=MesosSettings(port=0), options=MasterOptions(),
        )  # fmt: skip
        self.running = asyncio.ensure_future(self.master.run())
        self.stream: Any = None
        self.stream_id = ""
        self.id: Json | None = None
        self.info: Json = {"user": "u", "name": "n", "failover_timeout": 1000}
        self.events: list[Json] = []
        self.reader = RecordReader()

    async def post(self, kind: str, **body: Any) -> int:
        call = {"type": kind, kind.lower(): body, **({"framework_id": self.id} if self.id else {})}
        headers = {"content-type": JSON, **({"mesos-stream-id": self.stream_id} if kind != "SUBSCRIBE" else {})}
        request = Request("POST", "/api/v1/scheduler", headers=headers, body=msgspec.json.encode(call))
        response = await self.master._endpoints.handle(request)
        if response.stream is not None:
            self.stream, self.stream_id = response.stream, response.headers["Mesos-Stream-Id"]
        return response.status

    async def subscribe(self) -> None:
        await self.master.serves.wait()
        info = {**self.info, **({"id": self.id} if self.id else {})}
        assert await self.post("SUBSCRIBE", framework_info=info) == 200
        self.id = (await self.next("SUBSCRIBED"))["subscribed"]["framework_id"]

    async def next(self, kind: str) -> Json:
        """Return the next event of a type; what comes before it is left out."""
        async with asyncio.timeout(100):
            while True:
                while self.events:
                    event = self.events.pop(0)
                    if event["type"] == kind:
                        return event
                for record in self.reader.feed(await anext(self.stream)):
                    self.events.append(json.loads(record))

    async def offer(self) -> Json:
        found: Json = (await self.next("OFFERS"))["offers"]["offers"][0]
        return found

    async def status(self) -> Json:
        found: Json = (await self.next("UPDATE"))["update"]["status"]
        return found

    async def acknowledge(self, status: Json) -> None:
        await self.post("ACKNOWLEDGE", **{name: status[name] for name in ("agent_id", "task_id", "uuid")})

    async def launch(self, offer: Json, *names: str, command: str = "sleep 30") -> None:
        agent = offer["agent_id"]["value"]
        tasks = [task(name, agent, command={"value": command}) for name in names]
        operations = [{"type": "LAUNCH", "launch": {"task_infos": tasks}}]
        assert await self.post("ACCEPT", offer_ids=[offer["id"]], operations=operations) == 202

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def held(self) -> Json:
        """Return what is held of the only node."""
        [node] = (await self.harness.cluster.list(Node)).items
        found: Json = json.loads(node.metadata.annotation(HELD_ROOM) or "{}")
        return found

    async def pods(self) -> list[Pod]:
        """Return the pods of tasks."""
        return list((await self.harness.cluster.list(Pod, "mesos")).items)

    async def has_no_pods(self) -> bool:
        """Whether all are gone."""
        return not await self.pods()


def played(story: Callable[[Front], Awaitable[None]]) -> None:
    async def test(harness: Harness) -> None:
        front = Front(harness)
        try:
            await story(front)
        finally:
            await front.end()

    run_in_virtual_time(test, nodes="1x4cpu,8Gi")


async def _is_empty(front: Front) -> bool:
    return await front.held() == {}


def test_what_is_offered_is_held_until_pods_ask_for_it() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        offer = await front.offer()
        assert (await front.held())["cpu"] == "4000m"
        await front.harness.apply(pod("other", cpu="1"))
        await front.launch(offer, "a", "b")
        pods = {each.metadata.label("mesos.strato.dev/task"): each for each in await front.pods()}
        assert pods.keys() == {"a", "b"}
        assert {each.spec.node_name for each in pods.values()} == {offer["hostname"]}
        await front.harness.eventually(lambda: _is_empty(front))
        await front.harness.eventually(lambda: front.harness.pod("other").spec.node_name != "")
        offer = await front.offer()
        assert offer["resources"][0]["scalar"]["value"] == 1

    played(story)


def test_a_task_lives_until_its_end_is_acknowledged() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.launch(await front.offer(), "a", command="sleep 5")
        states = []
        for _ in range(2):
            status = await front.status()
            states.append(status["state"])
            if status["state"] == "TASK_FINISHED":
                assert await front.pods(), "the pod stays until the framework knows"
            await front.acknowledge(status)
        assert states == ["TASK_RUNNING", "TASK_FINISHED"]
        await front.harness.eventually(front.has_no_pods)

    played(story)


def test_a_pod_that_somebody_deletes_is_a_task_that_is_lost() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.launch(await front.offer(), "a", command="sleep 1000")
        await front.acknowledge(await front.status())
        [made] = await front.pods()
        await front.harness.delete(Pod, made.metadata.name, "mesos")
        status = await front.status()
        assert (status["state"], status["reason"]) == ("TASK_LOST", "REASON_CONTAINER_PREEMPTED")
        await front.acknowledge(status)
        await front.harness.eventually(front.has_no_pods)

    played(story)


def test_a_master_that_starts_anew_goes_on() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.launch(await front.offer(), "a", command="sleep 1000")
        unacknowledged = await front.status()
        await front.end()
        later = Front(front.harness)
        later.id = front.id
        try:
            await later.subscribe()
            again = await later.status()
            assert (again["state"], again["uuid"]) == ("TASK_RUNNING", unacknowledged["uuid"])
            await later.acknowledge(again)
            assert await later.post("TEARDOWN") == 202
            await front.harness.eventually(front.has_no_pods)
            page = await front.harness.cluster.list(ConfigMap, "mesos", label_selector="mesos.strato.dev/master=mesos")
            assert not page.items
        finally:
            await later.end()

    played(story)


def test_what_ended_while_its_node_was_lost_is_said_when_it_is_back() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.launch(await front.offer(), "a", command="sleep 20")
        await front.acknowledge(await front.status())
        [node] = (await front.harness.cluster.list(Node)).items

        async def ready(status: str) -> None:
            condition = {"type": "Ready", "status": status, "reason": "Test"}
            body = {"status": {"conditions": [condition]}}
            await front.harness.cluster.patch(
                catalog.NODE, node.metadata.name, "", body, patch_type=PatchType.STRATEGIC, subresource="status"
            )

        await ready("Unknown")
        assert (await front.status())["state"] == "TASK_LOST"
        await front.harness.clock.sleep(30)
        await ready("True")
        states = []
        while states[-1:] != ["TASK_FINISHED"]:
            states.append((await front.status())["state"])
        assert states == ["TASK_RUNNING", "TASK_FINISHED"]

    played(story)


def test_a_framework_that_goes_at_once_leaves_no_pod() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.launch(await front.offer(), "a", "b", "c", command="sleep 1000")
        assert await front.post("TEARDOWN") == 202
        await front.harness.eventually(front.has_no_pods)

    played(story)


def test_a_master_that_ends_in_order_holds_nothing() -> None:
    async def story(front: Front) -> None:
        await front.subscribe()
        await front.offer()
        assert await front.held()
        await front.end()
        assert await front.held() == {}

    played(story)


def test_a_master_that_crashed_leaves_holds_that_the_next_one_corrects() -> None:
    async def story(front: Front) -> None:
        [node] = (await front.harness.cluster.list(Node)).items
        annotations = {HELD_ROOM: '{"cpu": "4"}'}
        body = {"metadata": {"annotations": annotations}}
        await front.harness.cluster.patch(catalog.NODE, node.metadata.name, "", body)
        await front.master.serves.wait()
        await front.harness.eventually(lambda: _is_empty(front))

    played(story)


def test_a_hollow_node_gives_no_volume_and_says_so() -> None:
    async def story(front: Front) -> None:
        capabilities = [{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}]
        front.info |= {"roles": ["r"], "capabilities": capabilities}
        await front.subscribe()
        offer = await front.offer()
        reserved = {"name": "disk", "type": "SCALAR", "scalar": {"value": 10},
                    "reservations": [{"type": "DYNAMIC", "role": "r"}]}  # fmt: skip
        volume = {**reserved, "disk": {"persistence": {"id": "v"}, "volume": {"container_path": "d", "mode": "RW"}}}
        operations = [{"type": "CREATE", "id": {"value": "o"}, "create": {"volumes": [volume]}}]
        await front.post("ACCEPT", offer_ids=[offer["id"]], operations=operations)
        status = (await front.next("UPDATE_OPERATION_STATUS"))["update_operation_status"]["status"]
        assert status["state"] == "OPERATION_ERROR"
        assert "see no persistent volumes" in status["message"]

    played(story)
