"""Bad hours of real processes: one hangs, the disk fills, both are suspended. All of it heals by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_jobs import submit, vcjob
from tests.e2e.worlds import EmbeddedWorld, embedded, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]

TWO = ("--no-sandbox", "--hollow-nodes", "2", "--cpu", "4", "--memory", "16Gi", "--processes", "2")


@contextmanager
def paused(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def raw(world: EmbeddedWorld, path: str) -> str:
    done = world.kubectl_process("get", "--raw", path, check=False)
    return done.stdout + done.stderr


def is_served(world: EmbeddedWorld, line: str) -> bool:
    return line in raw(world, "/metrics").splitlines()


def test_metrics_and_health_answer_while_the_other_process_hangs(tmp_path: Path) -> None:
    with embedded(tmp_path / "home", *TWO) as world:
        assert is_served(world, "strato_parts_up 1")
        server, parts = world.processes
        with paused(parts):
            assert is_served(world, "strato_parts_up 0")
            assert "apiserver_request_total" in raw(world, "/metrics")
            assert raw(world, "/readyz") == "ok"
        eventually(lambda: is_served(world, "strato_parts_up 1"), what="the parts are scraped again")
        with paused(server):
            pass
        submit(world, "default", vcjob("after", replicas=2))
        eventually(lambda: world.job_phase("after") == "Completed", what="job is Completed")


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """Mount a file system of that size, for root only."""
    directory.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(directory)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def config_map(name: str, size: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * size}}


def test_a_full_disk_is_said_and_all_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "64m") as disk,
        embedded(tmp_path / "home", *TWO, "--data-dir", str(disk / "data")) as world,
    ):
        filler = disk / "filler"
        with filler.open("wb") as file:
            try:
                while file.write(b"\0" * 65536):
                    file.flush()
            except OSError:
                pass
        taken = []
        for number in range(64):
            answer = world.kubectl(
                "create", "-f", "-", stdin=json.dumps(config_map(f"m{number}", 500_000)), check=False
            )
            if "created" not in answer:
                break
            taken.append(f"m{number}")
        else:
            raise AssertionError("the disk never filled")
        eventually(lambda: "[-]journal failed" in raw(world, "/readyz?verbose"), what="/readyz says so")
        assert "full" in raw(world, "/readyz?verbose")
        assert world.get("configmap", "kube-root-ca.crt")["metadata"]["name"]  # reading goes on
        filler.unlink()
        eventually(lambda: raw(world, "/readyz") == "ok", what="the cluster is ready again")
        submit(world, "default", vcjob("after", replicas=2))
        eventually(lambda: world.job_phase("after") == "Completed", what="job is Completed")
        world.kill()
        world.start()  # nothing that was acknowledged is lost
        assert set(taken) <= {item["metadata"]["name"] for item in world.items("configmaps", "-n", "default")}
        assert world.job_phase("after") == "Completed"


@pytest.mark.slow
@pytest.mark.parametrize("who", ["parts", "both"])
def test_nodes_and_pods_outlive_a_pause_that_is_longer_than_a_lease(tmp_path: Path, who: str) -> None:
    """A laptop's lid: the leases of all nodes are over when the processes run again."""
    with embedded(tmp_path / "home", *TWO) as world:
        submit(world, "default", vcjob("long", replicas=2, seconds=600))
        eventually(lambda: world.job_phase("long") == "Running", what="job runs")
        uids = {pod["metadata"]["uid"] for pod in world.items("pods", "-n", "default")}
        server, parts = world.processes
        with paused(parts, *([server] if who == "both" else [])):
            # the pause itself is what is tested: nothing else can make 45 s pass for a stopped process
            signal.sigtimedwait([], 45)
        for _ in range(3):
            eventually(
                lambda: [_ready(node) for node in world.items("nodes")] == ["True", "True"], what="the nodes are ready"
            )
            submit(world, "default", vcjob("short", replicas=2))
            eventually(lambda: world.job_phase("short") == "Completed", what="job is Completed")
            world.kubectl("delete", "vcjob", "short", "-n", "default")
        pods = world.items("pods", "-n", "default")
        assert uids <= {pod["metadata"]["uid"] for pod in pods}
        assert world.job_phase("long") == "Running"


def _ready(node: dict[str, Any]) -> str:
    return next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
