"""Persistent volumes of Mesos on this machine: made, seen by tasks, kept over restarts, grown, destroyed."""

from __future__ import annotations

import base64
import http.client
import json
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.testing.mesosframework import FrameworkClient, command_task
from tests.e2e.worlds import EmbeddedWorld, embedded, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(300)]

RESERVED = {"reservations": [{"type": "DYNAMIC", "role": "data"}]}
INFO = {
    "user": "u", "name": "volumes", "roles": ["data"], "failover_timeout": 300.0,
    "capabilities": [{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}],
}  # fmt: skip


def disk(size: float, **fields: Any) -> dict[str, Any]:
    return {"name": "disk", "type": "SCALAR", "scalar": {"value": size}, **RESERVED, **fields}


def volume(size: float) -> dict[str, Any]:
    return disk(size, disk={"persistence": {"id": "v1"}, "volume": {"container_path": "kept", "mode": "RW"}})


class Caller:
    """A framework that is driven by its test: offers and ends of what was asked for are waited for."""

    def __init__(self, port: int) -> None:
        self.offers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        self.seen: set[str | None] = set()
        self.client = FrameworkClient(f"127.0.0.1:{port}", INFO, self._on_event)

    def _on_event(self, framework: FrameworkClient, event: dict[str, Any]) -> None:
        for offer in event.get("offers", {}).get("offers", ()):
            self.offers.put(offer)
        if event["type"] == "UPDATE":
            status = event["update"]["status"]
            framework.acknowledge(event)
            is_new = status.get("uuid") not in self.seen  # what a master before has sent comes again until it is told
            self.seen.add(status.get("uuid"))
            if is_new and status["state"] not in ("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING"):
                self.ends.put((status["task_id"]["value"], status["state"], status.get("message", "")))
        if event["type"] == "UPDATE_OPERATION_STATUS":
            status = event["update_operation_status"]["status"]
            self.ends.put((status["operation_id"]["value"], status["state"], status.get("message", "")))

    def accept(self, *operations: dict[str, Any]) -> list[str]:
        """Carry operations out on the next offer; return the states that were waited for, one each."""
        self.begin(*operations)
        ends = [self.ends.get(timeout=60) for _ in operations]
        return [" ".join(end).strip() for end in ends]

    def begin(self, *operations: dict[str, Any]) -> None:
        """Carry operations out on the next offers, of which as many are taken as it needs."""
        offers = [self.offers.get(timeout=60)]
        while not _suffice(offers, {operation["type"] for operation in operations}):
            offers.append(self.offers.get(timeout=60))
        for operation in operations:
            if operation["type"] == "LAUNCH":
                [info] = operation["launch"]["task_infos"]
                info["agent_id"] = offers[0]["agent_id"]
            else:
                operation["id"] = {"value": operation["type"]}
        ids = [offer["id"] for offer in offers]
        self.client.call("ACCEPT", offer_ids=ids, operations=list(operations), filters={"refuse_seconds": 0})


def _suffice(offers: list[dict[str, Any]], kinds: set[str]) -> bool:
    """Whether offers have what operations need: the volume unless they make it, and reserved disk for what grows."""
    found = [resource for offer in offers for resource in offer["resources"]]
    has_volume = any("persistence" in resource.get("disk", {}) for resource in found)
    disks = [resource for resource in found if resource["name"] == "disk" and "disk" not in resource]
    reserved = sum(resource["scalar"]["value"] for resource in disks if "reservations" in resource)
    if "RESERVE" in kinds:
        return True
    if "CREATE" in kinds:
        return bool(reserved >= 100)
    return has_volume and (reserved >= 50 or "GROW_VOLUME" not in kinds)


def launch(name: str, command: str, size: float) -> dict[str, Any]:
    info = command_task(name, {"agent_id": {"value": ""}}, command, 0.1, 32)
    info["resources"] = [*info["resources"], volume(size)]
    return {"type": "LAUNCH", "launch": {"task_infos": [info]}}


def _reserve_and_create() -> list[dict[str, Any]]:
    reserve = {"type": "RESERVE", "reserve": {"resources": [disk(200)]}}
    return [reserve, {"type": "CREATE", "create": {"volumes": [volume(100)]}}]


def _directories(world: EmbeddedWorld) -> list[Path]:
    return sorted((world.home / "volumes").glob("pvc-*"))


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[EmbeddedWorld]:
    options = ("--cpus", "2", "--node-memory", "2Gi", "--mesos", "--mesos-port", str(port))
    with embedded(tmp_path_factory.mktemp("mesosvolumes") / "home", *options) as found:
        yield found


def test_what_a_task_writes_is_there_until_destroy(world: EmbeddedWorld, port: int) -> None:
    caller = Caller(port)
    caller.client.connect()
    write = launch("writes", "echo some words > kept/file && cat kept/file", 100)
    assert caller.accept(*_reserve_and_create(), write) == [
        "RESERVE OPERATION_FINISHED", "CREATE OPERATION_FINISHED",
        "writes TASK_FINISHED Command exited with status 0",
    ]  # fmt: skip
    [directory] = _directories(world)
    assert (directory / "file").read_text() == "some words\n"
    caller.client.close()
    world.stop()
    world.start()
    caller.client.connect()
    while not caller.offers.empty():
        caller.offers.get()  # of the master before
    read = launch("reads", "grep -q 'some words' kept/file", 100)
    assert caller.accept(read) == ["reads TASK_FINISHED Command exited with status 0"]
    grow = {"type": "GROW_VOLUME", "grow_volume": {"volume": volume(100), "addition": disk(50)}}
    assert caller.accept(grow) == ["GROW_VOLUME OPERATION_FINISHED"]
    assert caller.accept(launch("again", "test -s kept/file", 150)) == [
        "again TASK_FINISHED Command exited with status 0"
    ]
    [claim] = world.items("pvc", "-n", "mesos")
    assert claim["spec"]["resources"]["requests"]["storage"] == "150Mi"
    destroy: dict[str, Any] = {"type": "DESTROY", "destroy": {"volumes": [volume(150)]}}
    assert caller.accept(destroy) == ["DESTROY OPERATION_FINISHED"]
    eventually(lambda: not _directories(world), timeout=60, what="the directory is gone")
    create = {"type": "CREATE", "create": {"volumes": [volume(100)]}}
    assert caller.accept(create, launch("anew", "test ! -e kept/file", 100)) == [
        "CREATE OPERATION_FINISHED", "anew TASK_FINISHED Command exited with status 0",
    ]  # fmt: skip
    destroy["destroy"]["volumes"] = [volume(100)]
    assert caller.accept(destroy) == ["DESTROY OPERATION_FINISHED"]
    assert not caller.client.errors
    caller.client.call("TEARDOWN")
    caller.client.close()


def _ask(port: int, path: str, call: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Ask the operator API; of what is refused there is only the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(call), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, json.loads(body) if response.status == 200 else {}


def _read(port: int, path: str) -> str:
    status, found = _ask(port, "/api/v1", {"type": "READ_FILE", "read_file": {"path": path, "offset": 0}})
    return base64.b64decode(found["read_file"]["data"]).decode() if status == 200 else f"status {status}"


def test_a_tasks_log_and_its_volume_are_read_through_the_api(world: EmbeddedWorld, port: int) -> None:
    """What a task links to outside of its volume is not read, though the master may."""
    caller = Caller(port)
    caller.client.connect()
    line = "echo logged; echo words > kept/file; ln -s /etc/passwd kept/link; mkfifo kept/pipe; exec sleep 1000"
    assert caller.accept(*_reserve_and_create()) == ["RESERVE OPERATION_FINISHED", "CREATE OPERATION_FINISHED"]
    caller.begin(launch("runs", line, 100))
    [node] = world.items("nodes")
    agent = f"/slave({node['metadata']['name']})/api/v1"

    def containers() -> list[dict[str, Any]]:
        _, found = _ask(port, agent, {"type": "GET_CONTAINERS"})
        return list(found["get_containers"].get("containers", ()))

    [container] = eventually(containers, timeout=60, what="the container is listed")
    assert container["executor_id"] == {"value": "runs"}
    sandbox = f"/framework/{caller.client.id}/executor/runs/latest"
    eventually(lambda: _read(port, f"{sandbox}/stdout") == "logged\n", timeout=60, what="the log is read")
    eventually(lambda: _read(port, f"{sandbox}/kept/file") == "words\n", timeout=60, what="the volume is read")
    _, listed = _ask(port, agent, {"type": "LIST_FILES", "list_files": {"path": f"{sandbox}/kept"}})
    eventually(lambda: (_directories(world)[0] / "pipe").exists(), timeout=60, what="the task has made all its files")
    names = {info["path"].removeprefix(f"{sandbox}/kept/") for info in listed["list_files"]["file_infos"]}
    assert "file" in names
    assert _read(port, f"{sandbox}/kept/link") == _read(port, f"{sandbox}/kept/pipe") == "status 404"
    assert _read(port, f"{sandbox}/kept/../../../etc/passwd") == "status 404"
    caller.client.call("KILL", task_id={"value": "runs"})
    assert caller.ends.get(timeout=60)[:2] == ("runs", "TASK_KILLED")
    caller.client.call("TEARDOWN")
    caller.client.close()
