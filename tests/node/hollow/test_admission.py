"""Hollow nodes do not start what a kubelet would reject."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.node.hollow import HollowNodes, HollowOffer
from strato.node.hollow.admission import HollowAdmission, in_order
from strato.node.hollow.heldpod import HollowPod
from strato.node.hollow.nodes import facts_of
from strato.node.hollow.runplan import RUN_SECONDS
from strato.server.embedded import in_memory_server
from tests.node.fake_api import FakeApi

Json = dict[str, Any]
NODE = "/api/v1/nodes/n"
OFFER = HollowOffer(
    capacity={"cpu": "4", "memory": "8Gi", "pods": "4", "ephemeral-storage": "10G", "nvidia.com/gpu": "2"},
    labels={"zone": "a"},
)
Story = Callable[[FakeApi, VirtualClock], Awaitable[None]]


def play(story: Story) -> FakeApi:
    clock, api = VirtualClock(), FakeApi()

    async def main() -> None:
        nodes = HollowNodes(api.cluster(), None, clock, random.Random(1), nodes={"n": OFFER})
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await clock.sleep(1)
        await story(api, clock)
        assert not task.done()
        await stop(task)

    run_virtual(clock, main())
    return api


def asks(**spec: Any) -> Json:
    """Return a pod's spec; ``cpu`` and other resources are its container's requests."""
    names = {
        "cpu": "cpu",
        "memory": "memory",
        "disk": "ephemeral-storage",
        "gpu": "nvidia.com/gpu",
        "fpga": "e.io/fpga",
    }
    requests = {names[key]: str(spec.pop(key)) for key in list(spec) if key in names}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}, **spec.pop("container", {})}
    return {"containers": [container], "restartPolicy": "Always", **spec}


def affine(*values: str) -> Json:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def lacks(resource: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    amounts = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"


NO_AFFINITY = "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
NO_PORTS = "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
UNTOLERATED = (
    "TaintToleration",
    "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
)
PORT = {"container": {"ports": [{"containerPort": 80, "hostPort": 8080}]}}
EVICTING = {"taints": [{"key": "away", "value": "y", "effect": "NoExecute"}]}
TABLE: list[Any] = [
    pytest.param([asks(cpu=3), asks(cpu=1)], {}, None, id="all of it"),
    pytest.param([asks(cpu=3), asks(cpu="1001m")], {}, lacks("cpu", 1001, 3000, 4000), id="too little cpu"),
    pytest.param([asks(memory="8Gi"), asks(memory="1")], {}, lacks("memory", 1, 8 << 30, 8 << 30), id="memory"),
    pytest.param([asks()] * 5, {}, lacks("pods", 1, 4, 4), id="one pod too many"),
    pytest.param([asks(gpu=1), asks(gpu=2)], {}, lacks("nvidia.com/gpu", 2, 1, 2), id="an extended resource"),
    pytest.param([asks(disk="11G")], {}, lacks("ephemeral-storage", 11 * 10**9, 0, 10**10), id="disk"),
    pytest.param([asks(fpga=1)], {}, None, id="what the node does not know is somebody else's"),
    pytest.param([asks(overhead={"cpu": "4"}), asks(cpu="1m")], {}, lacks("cpu", 1, 4000, 4000), id="overhead counts"),
    pytest.param(
        [asks(cpu=1, initContainers=asks(cpu=3)["containers"]), asks(cpu=2)],
        {},
        lacks("cpu", 2000, 3000, 4000),
        id="an init container's peak counts",
    ),
    pytest.param([asks(cpu=2, gpu=3)], {}, lacks("nvidia.com/gpu", 3, 0, 2), id="more than there ever is"),
    pytest.param(
        [asks(cpu=5, memory="9Gi", nodeSelector={"zone": "b"})], {}, lacks("cpu", 5000, 0, 4000), id="shortages first"
    ),
    pytest.param([asks(nodeSelector={"zone": "a"})], {}, None, id="a selector that holds"),
    pytest.param([asks(nodeSelector={"zone": "b"})], {}, NO_AFFINITY, id="a selector that does not"),
    pytest.param([asks(**affine("a", "b"))], {}, None, id="an affinity that holds"),
    pytest.param([asks(**affine("b"))], {}, NO_AFFINITY, id="an affinity that does not"),
    pytest.param([asks(**PORT), asks(**PORT)], {}, NO_PORTS, id="a host port that is taken"),
    pytest.param([asks()], EVICTING, UNTOLERATED, id="a taint that evicts"),
    pytest.param([asks(tolerations=[{"operator": "Exists"}])], EVICTING, None, id="a taint that is tolerated"),
    pytest.param(
        [asks()], {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True}, None, id="a cordon"
    ),
]


@pytest.mark.parametrize(("pods", "node", "rejected"), TABLE)
def test_a_pod_is_admitted_as_a_kubelet_does(pods: list[Json], node: Json, rejected: tuple[str, str] | None) -> None:
    """The pods come one after the other; all but the last have room."""

    async def story(api: FakeApi, clock: VirtualClock) -> None:
        await api.cluster().patch(catalog.NODE, "n", "", {"spec": node})
        for number, spec in enumerate(pods):
            api.create_pod(f"p{number}", "n", **spec)
            await clock.sleep(1)

    api = play(story)
    *others, last = [api.pod(f"p{number}") for number in range(len(pods))]
    assert all(pod is not None and pod["status"]["phase"] == "Running" for pod in others)
    assert last is not None
    events = [(body["reason"], body["message"]) for path, body in api.objects.items() if "/events/" in path]
    if rejected is None:
        assert (last["status"]["phase"], events) == ("Running", [])
        return
    reason, message = rejected
    found = last["status"]
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", reason, f"Pod was rejected: {message}")
    assert found["startTime"]
    assert {one["type"]: one["status"] for one in found["conditions"]}["Ready"] == "False"
    assert [one["state"] for one in found["containerStatuses"]] == [{"waiting": {"reason": "ContainerCreating"}}]
    assert events == [(reason, message)]


def test_what_has_ended_or_gone_holds_nothing() -> None:
    async def story(api: FakeApi, clock: VirtualClock) -> None:
        for number in range(12):  # most start from a template
            annotations = {RUN_SECONDS: "5"} if number % 3 == 0 else {}
            spec = asks(cpu=4, gpu=2, restartPolicy="Never" if number % 3 == 0 else "Always", **PORT)
            api.create_pod("p", "n", annotations=annotations, **spec)
            await clock.sleep(1)
            assert api.phase("p") == "Running"
            api.create_pod("late", "n", **asks(cpu="1m"))
            await clock.sleep(1)
            late = api.pod("late")
            assert late is not None
            assert late["status"]["reason"] == "OutOfcpu"
            await api.cluster().delete(catalog.POD, "late", "default", grace_period_seconds=0)
            if number % 3 == 0:
                await clock.sleep(4)
                assert api.phase("p") == "Succeeded"
            seconds = 0 if number % 3 == 1 else 30
            await api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=seconds)
            await clock.sleep(1)
            assert api.phase("p") == "gone"

    play(story)


def test_a_pod_that_is_being_deleted_holds_what_it_has_until_it_has_gone() -> None:
    async def story(api: FakeApi, clock: VirtualClock) -> None:
        api.create_pod("p", "n", **asks(cpu=4, container={"command": ["sleep", "infinity"]}))
        await clock.sleep(1)
        await api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=10)
        await clock.sleep(1)
        api.create_pod("early", "n", **asks(cpu=1))
        await clock.sleep(10)
        assert (api.phase("p"), api.phase("early")) == ("gone", "Failed")
        api.create_pod("late", "n", **asks(cpu=4))
        await clock.sleep(1)
        assert api.phase("late") == "Running"

    play(story)


def test_what_the_node_object_offers_counts() -> None:
    """Somebody may patch its status, as for resources that no kubelet knows, and a pod that runs stays."""

    async def story(api: FakeApi, clock: VirtualClock) -> None:
        api.create_pod("big", "n", **asks(cpu=3))
        await clock.sleep(1)
        patch = {"status": {"allocatable": {"cpu": "2", "e.io/fpga": "1"}}}
        await api.cluster().patch(catalog.NODE, "n", "", patch)
        await clock.sleep(1)
        api.create_pod("small", "n", **asks(cpu="1m"))
        api.create_pod("one", "n", **asks(fpga=1))
        await clock.sleep(1)
        api.create_pod("two", "n", **asks(fpga=1))
        await clock.sleep(1)

    api = play(story)
    reasons = {name: (api.pod(name) or {})["status"].get("reason") for name in ("big", "small", "one", "two")}
    assert reasons == {"big": None, "small": "OutOfcpu", "one": None, "two": "OutOfe.io/fpga"}


def test_a_node_that_starts_anew_goes_on_with_the_pods_that_ran() -> None:
    """They stay, though the node has become smaller; of the others, the oldest come first."""
    clock, names = VirtualClock(), ("z-ran", "y-ran", "c-oldest", "b-older", "a-younger")

    async def main() -> None:
        cluster = LocalCluster(in_memory_server(clock, random.Random(1)), User("admin", ("system:masters",)))

        async def create(name: str, cpu: int, **container: Any) -> None:
            spec = {"nodeName": "n", **asks(cpu=cpu, container=container)}
            await cluster.create(catalog.POD, {"metadata": {"name": name}, "spec": spec}, "default")
            await clock.sleep(2)

        async def start(cpu: str) -> asyncio.Task[None]:
            offer = HollowOffer(capacity={"cpu": cpu})
            nodes = HollowNodes(cluster, None, clock, random.Random(1), nodes={"n": offer})
            task = asyncio.create_task(nodes.run())
            await nodes.registered.wait()
            await clock.sleep(1)
            return task

        async def pods() -> dict[str, Json]:
            return {name: await cluster.get(catalog.POD, name, "default") for name in names}

        async def phases() -> dict[str, str]:
            return {name: body["status"]["phase"] for name, body in (await pods()).items()}

        task = await start("4")
        await create("z-ran", 1)
        await create("y-ran", 1, command=["sleep", "1000"])
        await stop(task)
        for name, cpu in (("c-oldest", 2), ("b-older", 1), ("a-younger", 1)):
            await create(name, cpu)
        task = await start("3")
        kept = dict.fromkeys(("z-ran", "y-ran", "b-older"), "Running")
        assert await phases() == kept | dict.fromkeys(("c-oldest", "a-younger"), "Failed")
        await stop(task)
        before = await pods()
        await stop(await start("2"))
        assert await pods() == before

    run_virtual(clock, main())


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_node_without_power_takes_up_what_ran_before_what_came_meanwhile() -> None:
    clock, api = VirtualClock(), FakeApi()

    async def main() -> None:
        nodes = HollowNodes(api.cluster(), None, clock, random.Random(1), nodes={"n": OFFER})
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await clock.sleep(1)
        api.create_pod("z-ran", "n", **asks(cpu=3))
        await clock.sleep(1)
        nodes.stop_node("n")
        api.create_pod("a-new", "n", **asks(cpu=2))
        await clock.sleep(1)
        nodes.start_node("n", is_rebooted=True)
        await clock.sleep(20)
        assert (api.phase("z-ran"), api.phase("a-new")) == ("Running", "Failed")
        api.create_pod("rest", "n", **asks(cpu=1))
        await clock.sleep(1)
        assert api.phase("rest") == "Running"
        await stop(task)

    run_virtual(clock, main())


def test_what_a_new_list_shows_as_over_makes_room_for_what_it_shows_first() -> None:
    """While the watch was away one pod was evicted and another bound in its place; the list has that one first."""

    async def story(api: FakeApi, clock: VirtualClock) -> None:
        api.create_pod("z-old", "n", **asks(cpu=4))
        await clock.sleep(1)
        cut, api.watchers[:] = (
            [one for one in api.watchers if "/pods" in one[0]],
            [one for one in api.watchers if "/pods" not in one[0]],
        )
        key = "/api/v1/namespaces/default/pods/z-old"
        await api.cluster().patch(catalog.POD, "z-old", "default", {"status": {"phase": "Failed"}})
        old = api.objects.pop(key)
        api.create_pod("a-new", "n", **asks(cpu=4))
        api.objects[key] = old
        api.watchers += cut
        expired = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
        for _, queue in cut:
            queue.put_nowait(json.dumps({"type": "ERROR", "object": expired}).encode() + b"\n")
        await clock.sleep(10)
        assert api.phase("a-new") == "Running"

    play(story)


def pod(name: str, cpu: int, *, started: str | None = None, created: str = "2026-01-01T00:00:00Z") -> Pod:
    body = {
        "metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": created},
        "spec": {"nodeName": "n", **asks(cpu=cpu)},
        "status": {"startTime": started},
    }
    return msgspec.convert(body, Pod)


def test_pods_that_become_known_together_come_by_age_after_those_that_ran() -> None:
    late, early, ran = pod("a", 1, created="2026-01-01T00:00:09Z"), pod("b", 1), pod("c", 1, started="2026-02-01")
    assert [one.metadata.name for one in in_order([late, early, ran])] == ["c", "b", "a"]


def test_a_node_that_the_api_does_not_have_is_judged_by_what_it_registers_with() -> None:
    known: list[Node | None] = [None]
    admission = HollowAdmission({"n": facts_of("n", 0, OFFER)}, lambda _: known[0])
    held = HollowPod(pod("a", 3), "", 0.0)
    admission.take(held)
    assert admission.refusal(pod("b", 1)) is None
    assert admission.refusal(pod("b", 2)) is not None
    known[0] = msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 8, "pods": 9}}}, Node)
    assert admission.refusal(pod("b", 2)) is None
    held.pod = pod("a", 7)
    admission.take(held)  # it was resized
    assert admission.refusal(pod("b", 2)) is not None
    admission.give_back(held)
    admission.give_back(held)
    assert admission.refusal(pod("b", 8)) is None
