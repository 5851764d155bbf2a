"""Record, replay, the same decisions: with preemption, gangs, a drained node and another configuration meanwhile.

On the embedded server and, with STRATO_E2E_WORLD=kube, on a real kube-apiserver.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ownscheduler import own_world, stop_scheduler
from tests.e2e.worlds import STRATO, World, eventually

pytestmark = pytest.mark.e2e

POLICY = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
PACKING = POLICY.replace("nodeorder", "binpack")
NEVER_PREEMPTING = POLICY.replace("preempt, ", "")


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[World]:
    policy, log = tmp_path / "policy.conf", tmp_path / "scheduler.log-of-decisions"
    policy.write_text(POLICY)
    with own_world(tmp_path, policy, "--record", str(log)) as world:
        yield world


def priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def gang(name: str, size: int, least: int, cls: str, seconds: int) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"strato.dev/run-seconds": str(seconds)}},
        "spec": {"containers": [container], "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 1},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": least,
            "priorityClassName": cls,
            "tasks": [{"name": "w", "replicas": size, "template": template}],
        },
    }


def running(world: World, job: str) -> int:
    pods = world.items("pods", "-l", f"volcano.sh/job-name={job}")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def replay(log: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STRATO, "sim", "replay", str(log), *args], text=True, capture_output=True, timeout=300, check=False
    )


def test_a_replay_makes_all_recorded_decisions(recorded: World, tmp_path: Path) -> None:
    world, log = recorded, tmp_path / "scheduler.log-of-decisions"
    outside = tmp_path / "outside.log"
    command = [*STRATO, "-k", str(world.kubeconfig), "sim", "record", "-o", str(outside)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stderr is not None
        assert any("recording into" in line for line in follower.stderr)
        busy(world, tmp_path)
        follower.send_signal(signal.SIGTERM)
        assert follower.wait(timeout=60) == 0
    stop_scheduler(world)
    decides_the_same(log, tmp_path)

    seen = json.loads(replay(outside, "-o", "json").stdout)
    assert seen["binds"]["recorded"] >= 14 + 6 + 3
    assert seen["evictions"]["recorded"] >= 4
    assert not seen["exact"]


def busy(world: World, tmp_path: Path) -> None:
    """Gangs, one of which makes room for itself, a drained node, another configuration."""
    world.apply(priority("low", 1))
    world.apply(priority("high", 1000))
    world.apply(gang("large", 14, 2, "low", 3600))
    eventually(lambda: running(world, "large") == 14, what="the large job runs")
    world.apply(gang("urgent", 6, 6, "high", 20))  # room for two: four pods of the large job have to go
    eventually(lambda: running(world, "urgent") == 6, what="the urgent gang runs")
    (tmp_path / "policy.conf").write_text(PACKING)
    eventually(lambda: world.job_phase("urgent") == "Completed", what="the urgent gang ends")
    node = sorted(item["metadata"]["name"] for item in world.items("nodes"))[1]
    world.kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout=120s")
    world.apply(gang("later", 3, 3, "high", 10))
    eventually(lambda: world.job_phase("later") == "Completed", what="a job after the reload ends")
    world.kubectl("uncordon", node)
    eventually(lambda: running(world, "large") == 14, what="the large job has all its pods again")


def decides_the_same(log: Path, tmp_path: Path) -> None:
    """Look at what a scheduler's own log is good for."""
    same = replay(log)
    assert same.returncode == 0, same.stdout + same.stderr
    found = re.search(
        r"(\d+) of (\d+) binds and (\d+) of (\d+) evictions are the same; no decision differs", same.stdout
    )
    assert found is not None, same.stdout + same.stderr
    binds, _, evictions, _ = map(int, found.groups())
    assert binds >= 14 + 6 + 3
    assert evictions >= 4

    (tmp_path / "other.conf").write_text(NEVER_PREEMPTING)
    other = replay(log, "--policy", str(tmp_path / "other.conf"), "-o", "json", "--limit", "0")
    body = json.loads(other.stdout)
    assert body["evictions"]["same"] == 0
    assert body["evictions"]["recorded"] == evictions
    kept = [one for row in body["differences"] for one in row["evictions"]]
    assert len(kept) == evictions

    then = replay(log, "--at", "+3600s", "-o", str(tmp_path / "then"))
    assert then.returncode == 0, then.stderr
    state = str(tmp_path / "then" / "state.json")
    decided = subprocess.run(
        [*STRATO, "schedule", "-f", state, "-o", "json"], text=True, capture_output=True, timeout=300, check=True
    )
    assert json.loads(decided.stdout)["cycles"][0]["evictions"] == []
