"""The Firmament service: messages on the wire, and an unmodified client's day."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.clock import VirtualClock
from strato.flow.graph import FlowScheduler
from strato.flow.models.cpu import CpuMemory
from strato.flow.service import messages, scheduler
from strato.flow.service.codec import WireError, decode, encode
from strato.flow.service.scheduler import Service
from strato.flow.world import World


def service() -> Service:
    world = World()
    return Service(FlowScheduler(world, CpuMemory(world, random.Random(1)), check_vectors=True), VirtualClock())


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


def call(served: Service, name: str, values: dict[str, Any]) -> dict[str, Any]:
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
    assert call(served, "TaskRemoved", {"task_uid": gone})["type"] == scheduler.TASK_NOT_FOUND


def test_other_schedulers_pods_take_room() -> None:
    served = service()
    call(served, "NodeAdded", node("n1"))
    other = {"task_name": "ns/x", "resource_id": "n1", "cpu_utilization": 3500.0}
    call(served, "AddTaskInfo", other)
    call(served, "TaskSubmitted", pod(1))
    assert call(served, "Schedule", {})["deltas"] == []
    call(served, "AddTaskInfo", {**other, "type": 1})
    assert len(call(served, "Schedule", {})["deltas"]) == 1


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
    from strato.flow.service.server import SERVICE, start

    server, port = await start(service(), "127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        added = await channel.unary_unary(f"/{SERVICE}/NodeAdded")(encode(node("n1"), messages.TOPOLOGY))
        assert decode(added, messages.REPLY)["type"] == scheduler.NODE_ADDED_OK
        with pytest.raises(grpc.RpcError, match="TaskSubmitted"):
            await channel.unary_unary(f"/{SERVICE}/TaskSubmitted")(b"\x0a\xff")
        health = await channel.unary_unary(f"/{SERVICE}/Check")(b"")
        assert decode(health, messages.HEALTH)["status"] == scheduler.SERVING
    await server.stop(None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grpcio's own code
async def test_an_address_in_use_is_refused() -> None:
    pytest.importorskip("grpc")
    from strato.errors import UsageError
    from strato.flow.service.server import start

    server, port = await start(service(), "127.0.0.1:0")
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
        await start(service(), f"127.0.0.1:{port}")
    await server.stop(None)
