"""The Firmament service: messages on the wire, and an unmodified client's day."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.clock import VirtualClock
from strato.mincost.graph import FlowScheduler
from strato.mincost.models.cpu import CpuMemory
from strato.mincost.service import messages, scheduler
from strato.mincost.service.codec import WireError, decode, encode
from strato.mincost.service.scheduler import FirmamentService
from strato.mincost.world import FlowWorld


def service() -> FirmamentService:
    world = FlowWorld()
    return FirmamentService(
        FlowScheduler(world, CpuMemory(world, random.Random(1)), check_vectors=True), VirtualClock()
    )


def node(name: str) -> dict[str, Any]:
    room = {"cpu_cores": 4000.0, "ram_cap": 8000}
    return {
        "resource_desc": {"uuid": name, "type": 6, "max_pods": 10, "resource_capacity": room},
        "children": [{"resource_desc": {"uuid": f"{name}-pu", "type": 0}}],
    }


def pod(uid: int) -> dict[str, Any]:
    return {
        "task_descriptor": {"uid": uid, "job_id": "job", "resource_request": {"cpu_cores": 1000.0, "ram_cap": 100}},
        "job_descriptor": {"uuid": "job"},
    }


def call(served: FirmamentService, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Send a request through the wire format."""
    answer, request_type, reply_type = served.methods()[name]
    return decode(encode(answer(decode(encode(values, request_type), request_type)), reply_type), reply_type)


def test_a_pod_is_placed_on_the_nodes_pu_and_frees_it_again() -> None:
    served = service()
    assert call(served, "NodeAdded", node("n1"))["type"] == scheduler.NODE_ADDED_OK
    assert call(served, "NodeAdded", node("n1"))["type"] == scheduler.NODE_ALREADY_EXISTS
    assert call(served, "TaskSubmitted", pod(7))["type"] == scheduler.TASK_SUBMITTED_OK
    assert call(served, "TaskSubmitted", pod(7))["type"] == scheduler.TASK_ALREADY_SUBMITTED
    assert call(served, "Schedule", {})["deltas"] == [{"task_id": 7, "resource_id": "n1-pu", "type": 1}]
    assert call(served, "Schedule", {})["deltas"] == []
    assert call(served, "TaskCompleted", {"task_uid": 7})["type"] == scheduler.TASK_COMPLETED_OK
    assert call(served, "TaskRemoved", {"task_uid": 7})["type"] == scheduler.TASK_REMOVED_OK
    assert call(served, "TaskCompleted", {"task_uid": 7})["type"] == scheduler.TASK_NOT_FOUND
    assert call(served, "Check", {})["status"] == scheduler.SERVING


def test_who_finds_no_room_is_reported_and_a_lost_node_takes_its_tasks() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    for uid in range(1, 6):
        call(served, "TaskSubmitted", pod(uid))
    reply = call(served, "Schedule", {})
    assert len(reply["deltas"]) == 3  # the fit is strict: 4 × 1000 is not below 4000
    assert len(reply["unscheduled_tasks"]) == 2
    assert call(served, "NodeFailed", {"resource_uid": "n1"})["type"] == scheduler.NODE_FAILED_OK
    assert call(served, "NodeRemoved", {"resource_uid": "n1"})["type"] == scheduler.NODE_NOT_FOUND
    gone = reply["deltas"][0]["task_id"]
    assert call(served, "TaskFailed", {"task_uid": gone})["type"] == scheduler.TASK_FAILED_OK
    assert call(served, "TaskRemoved", {"task_uid": gone})["type"] == scheduler.TASK_REMOVED_OK
    assert call(served, "TaskRemoved", {"task_uid": gone})["type"] == scheduler.TASK_NOT_FOUND


def test_other_schedulers_pods_take_room() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    other = {"task_name": "ns/x", "resource_id": "n1", "cpu_utilization": 3500}
    assert call(served, "AddTaskInfo", other)["type"] == scheduler.INFO_SUBMITTED_OK
    assert call(served, "AddTaskInfo", {**other, "resource_id": "n2"})["type"] == scheduler.INFO_SUBMIT_FAILED
    assert call(served, "AddTaskInfo", {"task_name": "?", "type": 1})["type"] == scheduler.INFO_REMOVE_FAILED
    call(served, "AddTaskInfo", other)
    call(served, "TaskSubmitted", pod(1))
    assert call(served, "Schedule", {})["deltas"] == []
    assert call(served, "AddTaskInfo", {**other, "type": 1})["type"] == scheduler.INFO_REMOVED_OK
    assert len(call(served, "Schedule", {})["deltas"]) == 1


def term(key: str, *values: str) -> dict[str, Any]:
    return {"expressions": [{"key": key, "operator": "In", "values": list(values)}]}


def beside(app: str) -> dict[str, Any]:
    return {"selector": {"labels": {"key": "app", "value": app}}}


AFFINITIES = [
    pytest.param({"nodes": {"required": {"terms": [term("zone", "x"), term("zone", "b")]}}}, {"b"}, id="one of terms"),
    pytest.param({"nodes": {"preferred": [{"weight": 5, "term": term("zone", "c")}]}}, {"c"}, id="preferred node"),
    pytest.param({"pods": {"required": [beside("web")]}}, {"a"}, id="beside a pod"),
    pytest.param({"pods": {"preferred": [{"weight": 9, "term": beside("web")}]}}, {"a"}, id="rather beside a pod"),
    pytest.param({"anti_pods": {"required": [beside("web")]}}, {"b", "c"}, id="never beside a pod"),
    pytest.param(
        {"anti_pods": {"preferred": [{"weight": 9, "term": beside("web")}]}}, {"b", "c"}, id="rather not beside a pod"
    ),
    pytest.param({"pods": {"required": [beside("nobody")]}}, set(), id="beside nobody there is"),
    pytest.param({"pods": {"required": [beside("new")]}}, {"a", "b", "c"}, id="the first of its own kind"),
]


@pytest.mark.parametrize(("affinity", "places"), AFFINITIES)
def test_affinity_on_the_wire_decides_the_place(affinity: dict[str, Any], places: set[str]) -> None:
    served = service()
    web = pod(1)
    web["task_descriptor"] |= {
        "labels": [{"key": "app", "value": "web"}],
        "label_selectors": [{"type": 0, "key": "zone", "values": ["a"]}],
        "task_namespace": "ns",
    }
    for name in ("a", "b", "c"):
        here = node(name)
        here["resource_desc"]["labels"] = [{"key": "zone", "value": name}]
        call(served, "NodeAdded", here)
    call(served, "TaskSubmitted", web)
    assert call(served, "Schedule", {})["deltas"][0]["resource_id"] == "a-pu"
    new = pod(2)
    labels = [{"key": "app", "value": "new"}]
    new["task_descriptor"] |= {"affinity": affinity, "labels": labels, "task_namespace": "ns"}
    call(served, "TaskSubmitted", new)
    found = {d["resource_id"].removesuffix("-pu") for d in call(served, "Schedule", {})["deltas"]}
    assert found <= places
    assert bool(found) == bool(places)


@pytest.mark.parametrize("kind", ["anti_pods", "pods"], ids=["apart", "together"])
def test_tasks_of_one_round_keep_their_rules_about_one_another(kind: str) -> None:
    served = service()
    for name in ("a", "b", "c"):
        call(served, "NodeAdded", node(name))
    for uid in (1, 2):
        new = pod(uid)
        labels = [{"key": "app", "value": "x"}]
        new["task_descriptor"] |= {
            "affinity": {kind: {"required": [beside("x")]}},
            "labels": labels,
            "job_id": f"{uid}",
        }
        new["task_descriptor"]["resource_request"]["cpu_cores"] += uid  # classes of their own
        call(served, "TaskSubmitted", new)
    found = [d["resource_id"] for _ in range(3) for d in call(served, "Schedule", {})["deltas"]]
    assert len(found) == 2
    assert len(set(found)) == (2 if kind == "anti_pods" else 1)


def test_what_a_node_reserves_is_not_given_to_pods_and_whom_it_avoids_goes_elsewhere() -> None:
    served = service()
    small = node("small")
    small["resource_desc"]["reserved_resources"] = {"cpu_cores": 3500.0}
    call(served, "NodeAdded", small)
    call(served, "TaskSubmitted", pod(1))
    assert call(served, "Schedule", {})["deltas"] == []
    for name in ("avoids", "plain"):
        here = node(name)
        here["resource_desc"]["avoids"] = [{"kind": "ReplicaSet", "uid": "u"}] if name == "avoids" else []
        call(served, "NodeAdded", here)
    owned = pod(2)
    owned["task_descriptor"]["owner_ref_uid"] = "u"
    call(served, "TaskRemoved", {"task_uid": 1})
    call(served, "TaskSubmitted", owned)
    assert [d["resource_id"] for d in call(served, "Schedule", {})["deltas"]] == ["plain-pu"]


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_clear_error(data: bytes) -> None:
    try:
        decode(data, messages.TASK_DESCRIPTION)
    except WireError:
        return


@given(st.integers(0, 2**64 - 1), st.text(max_size=20), st.lists(st.integers(0, 2**64 - 1), max_size=4))
def test_messages_survive_the_wire(uid: int, name: str, waiting: list[int]) -> None:
    task = decode(encode({"uid": uid, "name": name}, messages.TASK), messages.TASK)
    assert (task["uid"], task["name"]) == (uid, name)
    reply = decode(encode({"unscheduled_tasks": waiting}, messages.DELTAS), messages.DELTAS)
    assert reply["unscheduled_tasks"] == waiting


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grpcio's own code
async def test_a_grpc_client_is_answered_and_bad_bytes_are_refused() -> None:
    grpc = pytest.importorskip("grpc")
    from strato.mincost.service.server import SERVICE

    async with listening(service()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        added = await channel.unary_unary(f"/{SERVICE}/NodeAdded")(encode(node("n1"), messages.TOPOLOGY))
        assert decode(added, messages.REPLY)["type"] == scheduler.NODE_ADDED_OK
        with pytest.raises(grpc.RpcError, match="TaskSubmitted"):
            await channel.unary_unary(f"/{SERVICE}/TaskSubmitted")(b"\x0a\xff")
        health = await channel.unary_unary(f"/{SERVICE}/Check")(b"")
        assert decode(health, messages.HEALTH)["status"] == scheduler.SERVING


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grpcio's own code
async def test_an_address_in_use_is_refused() -> None:
    pytest.importorskip("grpc")
    from strato.errors import UsageError
    from strato.mincost.service.server import start

    async with listening(service()) as port:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            await start(service(), f"127.0.0.1:{port}")


def submitted(**fields: Any) -> dict[str, Any]:
    wrong = pod(1)
    wrong["task_descriptor"]["resource_request"] |= fields
    return wrong


def roomy(**fields: Any) -> dict[str, Any]:
    wrong = node("n2")
    for name, value in fields.items():
        (wrong["resource_desc"] if name == "max_pods" else wrong["resource_desc"]["resource_capacity"])[name] = value
    return wrong


@contextlib.asynccontextmanager
async def listening(served: FirmamentService) -> AsyncIterator[int]:
    """Serve on a port, and stop whatever happens: a server that is left is no other test's fault."""
    from strato.mincost.service.server import start

    server, port = await start(served, "127.0.0.1:0")
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.fixture(scope="module")
def compiled() -> None:
    """Solve once off the wire: compiling inside a call would outlast a connection's handshake."""
    served = service()
    call(served, "NodeAdded", node("n1"))
    call(served, "TaskSubmitted", pod(1))
    call(served, "Schedule", {})


HUGE = (1 << 64) - 1
REFUSED = [
    pytest.param("TaskSubmitted", submitted(cpu_cores=float("nan")), "task 1: cpu_cores is nan", id="no number"),
    pytest.param("TaskSubmitted", submitted(cpu_cores=-5.0), "task 1: cpu_cores is -5.0", id="negative request"),
    pytest.param("TaskSubmitted", submitted(ram_cap=HUGE), "task 1: ram_cap is -1", id="request that overflows"),
    pytest.param("NodeAdded", roomy(ephemeral_storage=1 << 60), "node 'n2': ephemeral_storage", id="endless disk"),
    pytest.param("NodeAdded", roomy(max_pods=HUGE), "node 'n2': max_pods", id="endless slots"),
    pytest.param(
        "AddTaskInfo",
        {"task_name": "ns/x", "resource_id": "n1", "cpu_utilization": HUGE},
        "pod 'ns/x': cpu_utilization is -1",
        id="negative use",
    ),
]
ANSWERED = [
    pytest.param("TaskUpdated", pod(9), scheduler.TASK_NOT_FOUND, id="update of an unknown task"),
    pytest.param("TaskFailed", {"task_uid": 9}, scheduler.TASK_NOT_FOUND, id="end of an unknown task"),
    pytest.param("TaskSubmitted", {}, scheduler.TASK_JOB_NOT_FOUND, id="task without a job"),
    pytest.param("NodeUpdated", roomy(), scheduler.NODE_NOT_FOUND, id="update of an unknown node"),
    pytest.param("NodeRemoved", {"resource_uid": "n2"}, scheduler.NODE_NOT_FOUND, id="removal of an unknown node"),
    pytest.param("AddNodeStats", {"resource_id": "n2"}, scheduler.NODE_NOT_FOUND, id="figures of an unknown node"),
    pytest.param("AddTaskStats", {"task_id": 9}, scheduler.TASK_NOT_FOUND, id="figures of an unknown task"),
]


def described(**more: Any) -> dict[str, Any]:
    return {"resource_desc": {**node("n1")["resource_desc"], **more}}


def test_an_updated_node_has_its_new_size() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    for uid in range(1, 8):
        call(served, "TaskSubmitted", pod(uid))
    assert len(call(served, "Schedule", {})["deltas"]) == 3  # 4000 millicores: less than four fit
    larger = described(resource_capacity={"cpu_cores": 9000.0, "ram_cap": 8000}, max_pods=5)
    assert call(served, "NodeUpdated", larger)["type"] == scheduler.NODE_UPDATED_OK
    assert len(call(served, "Schedule", {})["deltas"]) == 2  # slots decide now
    kept = described(reserved_resources={"cpu_cores": 9000.0}, max_pods=0)
    del kept["resource_desc"]["resource_capacity"]
    call(served, "NodeUpdated", kept)
    machine = served._flow.world.machine("n1")
    assert (machine.slots, machine.capacity.cpu, machine.used.cpu) == (5, 9000, 5000 + 9000)
    call(served, "NodeUpdated", described(reserved_resources={"cpu_cores": 0.0}))
    assert served._flow.world.machine("n1").used.cpu == 5000


def test_an_updated_node_stands_in_its_new_rack() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    call(served, "NodeUpdated", described(labels=[{"key": "topology.kubernetes.io/rack", "value": "r7"}]))
    assert served._flow.world.machine("n1").rack == "r7"
    call(served, "NodeUpdated", described())
    assert served._flow.world.machine("n1").rack == ""


def test_an_impossible_size_in_an_update_changes_nothing() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    with pytest.raises(WireError, match="node 'n1': cpu_cores"):
        call(
            served,
            "NodeUpdated",
            described(resource_capacity={"cpu_cores": -1.0}, labels=[{"key": "rack", "value": "x"}]),
        )
    machine = served._flow.world.machine("n1")
    assert (machine.capacity.cpu, machine.rack) == (4000, "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grpcio's own code
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("method", "message", "expected"), REFUSED + ANSWERED)
async def test_bad_requests_over_grpc_are_named_and_change_nothing(
    method: str, message: dict[str, Any], expected: str | int
) -> None:
    grpc = pytest.importorskip("grpc")
    from strato.mincost.service.server import SERVICE

    served = service()
    async with listening(served) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        async def ask(name: str, values: dict[str, Any]) -> dict[str, Any]:
            _, request_type, reply_type = served.methods()[name]
            return decode(await channel.unary_unary(f"/{SERVICE}/{name}")(encode(values, request_type)), reply_type)

        await ask("NodeAdded", node("n1"))
        if isinstance(expected, int):
            assert (await ask(method, message))["type"] == expected
        else:
            with pytest.raises(grpc.RpcError) as refused:
                await ask(method, message)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert expected in refused.value.details()
        await ask("TaskSubmitted", pod(7))
        assert [d["task_id"] for d in (await ask("Schedule", {}))["deltas"]] == [7]


DROPPING = """
import itertools, sys, grpc
channel = grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}")
schedule = channel.unary_unary(sys.argv[2])
schedule(b"")
print("calling", flush=True)
for calls in itertools.repeat(10):
    for reply in [schedule.future(b"") for _ in range(calls)]:
        reply.result()
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grpcio's own code
@pytest.mark.usefixtures("compiled")
async def test_a_client_that_drops_in_the_middle_leaves_the_service_whole() -> None:
    grpc = pytest.importorskip("grpc")
    from strato.mincost.service.server import SERVICE

    served = service()
    async with listening(served) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x10\x01")  # half a frame
        await writer.drain()
        writer.transport.abort()
        # in a process of its own, as a client that dies is: killed when its calls are on their way
        dropping = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DROPPING, str(port), f"/{SERVICE}/Schedule", stdout=asyncio.subprocess.PIPE
        )
        assert dropping.stdout is not None
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as staying:
            assert await dropping.stdout.readline() == b"calling\n"
            kept = [staying.unary_unary(f"/{SERVICE}/Schedule")(b"") for _ in range(10)]
            dropping.kill()
            for call in kept:
                await call
            assert await dropping.wait() == -signal.SIGKILL
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary(f"/{SERVICE}/NodeAdded")(encode(node("n1"), messages.TOPOLOGY))
            await channel.unary_unary(f"/{SERVICE}/TaskSubmitted")(encode(pod(7), messages.TASK_DESCRIPTION))
            reply = decode(await channel.unary_unary(f"/{SERVICE}/Schedule")(b""), messages.DELTAS)
            assert [d["task_id"] for d in reply["deltas"]] == [7]
