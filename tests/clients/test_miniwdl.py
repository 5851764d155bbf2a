"""miniwdl with the container back end that this package brings: its tasks are jobs in queues."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environments import environment
from tests.e2e.worlds import EmbeddedWorld, eventually

FLOWS = Path(__file__).parent / "miniwdl"
ROOT = Path(__file__).parents[2]
CONFIG = """\
[scheduler]
container_backend = strato
[task_runtime]
defaults = {{"docker": "strato/host"}}
[call_cache]
put = true
get = true
dir = {cache}
[strato]
namespace = {namespace}
"""
QUEUE = '{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}'

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]


class Engine:
    """miniwdl, configured for one namespace, in a folder of its own."""

    def __init__(self, world: EmbeddedWorld, namespace: str, folder: Path) -> None:
        self.world, self.namespace, self.folder = world, namespace, folder
        shutil.copytree(FLOWS, folder / "flows")
        (folder / "miniwdl.cfg").write_text(CONFIG.format(cache=folder / "cache", namespace=namespace))
        # a released package is installed beside miniwdl; here that is the tree under test
        subprocess.run([environment("miniwdl") / "bin" / "pip", "install", "-q", "-e", ROOT], check=True, timeout=600)

    def start(self, flow: str, *inputs: str) -> subprocess.Popen[str]:
        command = [environment("miniwdl") / "bin" / "miniwdl", "run", "--cfg", self.folder / "miniwdl.cfg"]
        return subprocess.Popen(
            [*map(str, command), "--dir", str(self.folder / "runs"), str(self.folder / "flows" / flow), *inputs],
            env={**os.environ, "KUBECONFIG": str(self.world.kubeconfig)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def outputs(self, running: subprocess.Popen[str]) -> dict[str, Any]:
        out, err = running.communicate(timeout=300)
        assert running.returncode == 0, err[-4000:]
        found: dict[str, Any] = json.loads(out)["outputs"]
        return found

    def jobs(self) -> list[dict[str, Any]]:
        return self.world.items("jobs.batch.volcano.sh", "-n", self.namespace)


@pytest.fixture
def engine(sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> Engine:
    return Engine(sandbox, namespace, tmp_path)


def test_a_workflow_of_scatters_and_sub_workflows_runs_as_jobs_once(engine: Engine) -> None:
    assert engine.outputs(engine.start("squares.wdl")) == {"squares.sum": 14}
    jobs = engine.jobs()
    assert len(jobs) == 4
    assert {job["status"]["state"]["phase"] for job in jobs} == {"Completed"}
    requests = jobs[0]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1", "memory": "64000000"}
    assert engine.outputs(engine.start("squares.wdl")) == {"squares.sum": 14}
    assert len(engine.jobs()) == 4, "what is in the call cache is not run again"


def test_a_task_that_fails_is_tried_again_and_its_exit_code_reported(engine: Engine) -> None:
    running = engine.start("fails.wdl", "why=nothing there")
    _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "exit status 7" in err
    assert len(engine.jobs()) == 2


def test_a_pod_that_is_evicted_costs_a_preemptible_try(engine: Engine) -> None:
    subprocess.run(
        ["kubectl", "--kubeconfig", str(engine.world.kubeconfig), "apply", "-f", "-"],
        input=QUEUE,
        text=True,
        check=True,
    )
    gate = engine.folder / "gate"
    gate.write_text("shut\n")
    running = engine.start("evicted.wdl", f"gate={gate}")

    def pods(phase: str) -> list[str]:
        items = engine.world.items("pods", "-n", engine.namespace)
        return [pod["metadata"]["name"] for pod in items if pod["status"].get("phase") == phase]

    eventually(lambda: bool(pods("Running")), what="the task runs")
    engine.world.kubectl("delete", "pod", pods("Running")[0], "-n", engine.namespace)
    eventually(lambda: len(engine.jobs()) == 2 and bool(pods("Running")), what="it is tried again")
    with gate.open("w") as file:  # the same file: it is mounted
        file.write("open\n")
    assert engine.outputs(running) == {"evicted.word": "through"}
    assert {job["spec"]["queue"] for job in engine.jobs()} == {"research"}


def test_an_interrupted_run_leaves_no_job(engine: Engine) -> None:
    gate = engine.folder / "gate"
    gate.write_text("shut\n")
    flow = engine.folder / "flows" / "evicted.wdl"
    flow.write_text(flow.read_text().replace('queue: "research"', 'queue: "default"'))
    running = engine.start("evicted.wdl", f"gate={gate}")
    eventually(lambda: bool(engine.jobs()), what="the task is a job")
    running.terminate()
    running.communicate(timeout=120)
    eventually(lambda: not engine.jobs(), what="its job is gone")
