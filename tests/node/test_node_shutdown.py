"""Real pods when their node is shut down, killed, or has forgotten them: nobody's container runs twice in silence."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.node.podstatus import NODE_SHUTDOWN, NOT_LOCATED
from strato.node.sandbox.cleanup import teardown
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import GO_VOLUME, World, running, until


@pytest.fixture(autouse=True)
def cleared(tmp_path: Path) -> Iterator[None]:
    """Leave nothing on the machine, also of a test that fails."""
    yield
    if (tmp_path / "node").exists():
        teardown(tmp_path / "node")


def status_of(api: FakeApi, name: str) -> dict[str, Any]:
    status: dict[str, Any] = api.objects[f"/api/v1/namespaces/default/pods/{name}"]["status"]
    return status


def restarts(api: FakeApi) -> int:
    return int(status_of(api, "p")["containerStatuses"][0]["restartCount"])


def runs(tmp_path: Path, name: str) -> int:
    """How often a pod's container has begun: each writes a line."""
    path = tmp_path / "go" / name
    return len(path.read_text().split()) if path.exists() else 0


async def start(world: World, tmp_path: Path, name: str, then: str = "exec sleep 1000", **spec: Any) -> None:
    """Run a pod whose container writes a line when it begins."""
    world.sh(name, f"echo hello; echo x >> /go/{name}; {then}", **GO_VOLUME(tmp_path), **spec)
    await until(lambda: runs(tmp_path, name) == 1 and world.api.phase(name) != "Pending")
    while not await world.log(name):  # its supervisor, which writes it, may be killed next
        await asyncio.sleep(0.01)


async def test_pods_end_with_their_node_as_a_kubelet_ends_them(tmp_path: Path) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        for policy in ("Never", "OnFailure", "Always"):
            await start(world, tmp_path, policy.lower(), restartPolicy=policy)
        await start(world, tmp_path, "done", "true", restartPolicy="Never")
        await world.finished("done")
        waits = [{"name": "v", "configMap": {"name": "missing"}}]
        api.create_pod("waits", "here", containers=[{"name": "main", "command": ["true"]}], volumes=waits)
        await until(lambda: len(world.node._workers) == 5)
        assert await world.node.shut_down(5.0) == 3
        assert "Killing" in {reason for reason, _ in await world.events()}
    teardown(tmp_path / "node")
    for name in ("never", "onfailure", "always"):
        status = status_of(api, name)
        assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Terminated", NODE_SHUTDOWN)
        [disruption] = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"]
        assert (disruption["status"], disruption["reason"]) == ("True", "TerminationByKubelet")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert status_of(api, "done")["phase"] == "Succeeded"
    assert api.phase("waits") in ("", "Pending")
    async with running(tmp_path / "node", api) as world:
        await until(lambda: len(world.node._workers) == 1)  # of the pod that never began
        assert await world.log("never") == "hello\n"
    assert {name: runs(tmp_path, name) for name in ("never", "onfailure", "always", "done")} == {
        "never": 1,
        "onfailure": 1,
        "always": 1,
        "done": 1,
    }


async def test_who_ignores_the_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        await start(world, tmp_path, "deaf", "trap '' TERM; while :; do sleep 0.05; done", restartPolicy="Never")
        assert await world.node.shut_down(0.2) == 1
        ended = status_of(api, "deaf")["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == 137


@pytest.mark.parametrize("has_torn_down", [False, True], ids=["as after a power cut", "with strato down after it"])
@pytest.mark.parametrize(
    ("policy", "phase", "again"),
    [("Never", "Failed", 1), ("OnFailure", "Running", 2), ("Always", "Running", 2)],
)
async def test_containers_killed_with_their_node_go_by_their_restart_policy(
    tmp_path: Path, has_torn_down: bool, policy: str, phase: str, again: int
) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        await start(world, tmp_path, "p", restartPolicy=policy)
        [worker] = world.node._workers.values()
        pid = worker._containers[0]._last.pid
    if has_torn_down:
        assert teardown(tmp_path / "node") == 1
    else:
        os.kill(pid, signal.SIGKILL)
    async with running(tmp_path / "node", api) as world:
        await until(lambda: api.phase("p") == phase and restarts(api) == again - 1)
        await until(lambda: runs(tmp_path, "p") == again)
        status = status_of(api, "p")["containerStatuses"][0]
        before = status["state"] if again == 1 else status["lastState"]
        assert before["terminated"]["exitCode"] == 137
        assert again == 2 or await world.log("p") == "hello\n"


async def test_pods_that_are_kept_begin_anew_all_of_them(tmp_path: Path) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        await start(world, tmp_path, "p", restartPolicy="Never")
    teardown(tmp_path / "node", anew=True)
    async with running(tmp_path / "node", api) as world:
        await until(lambda: runs(tmp_path, "p") == 2)
        await until(lambda: api.phase("p") == "Running")
        assert status_of(api, "p")["containerStatuses"][0]["restartCount"] == 0
    teardown(tmp_path / "node")  # this time they are not kept
    async with running(tmp_path / "node", api) as world:
        assert (await world.finished("p"))["phase"] == "Failed"
    assert runs(tmp_path, "p") == 2


@pytest.mark.parametrize(("policy", "phase", "again"), [("Never", "Failed", 1), ("Always", "Running", 2)])
async def test_what_the_machine_has_forgotten_does_not_run_as_if_it_never_had(
    tmp_path: Path, policy: str, phase: str, again: int
) -> None:
    """A backup was restored, or somebody deleted the node's directory."""
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        await start(world, tmp_path, "p", restartPolicy=policy)
    teardown(tmp_path / "node")
    shutil.rmtree(tmp_path / "node")
    async with running(tmp_path / "node", api) as world:
        await until(lambda: api.phase("p") == phase and restarts(api) == again - 1)
        await until(lambda: runs(tmp_path, "p") == again)
        status = status_of(api, "p")["containerStatuses"][0]
        lost = (status["state"] if again == 1 else status["lastState"])["terminated"]
        assert (lost["exitCode"], lost["reason"], lost["message"]) == (137, "ContainerStatusUnknown", NOT_LOCATED)
