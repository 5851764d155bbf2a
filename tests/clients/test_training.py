"""Training jobs as their users run them: Kubeflow's SDK, a chart with real TensorFlow, real torchrun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.environments import client_image, environment, run_program
from tests.clients.helmprogram import helm_of
from tests.e2e.worlds import EmbeddedWorld, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.clients, pytest.mark.timeout(2400)]


@pytest.fixture
def queue(sandbox: EmbeddedWorld, namespace: str) -> str:
    """Return the name of a queue and of a priority class, made for the test."""
    sandbox.apply(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": namespace},
            "spec": {"weight": 2},
        }
    )
    sandbox.kubectl("create", "priorityclass", namespace, "--value=1000")
    return namespace


def test_the_sdk_of_kubeflow(sandbox: EmbeddedWorld, namespace: str, queue: str) -> None:
    assert run_program(
        "kubeflow-training", "training_client.py", sandbox, namespace, "strato/host", queue, queue, timeout=900
    ) == [
        "a TFJob of four roles is created and awaited",
        "its pods are found by role and their logs are read",
        "it is deleted",
        "a function runs as a job",
    ]


def test_the_sdk_of_trainer_v2(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("kubeflow", "trainer_client.py", sandbox, namespace, "strato/host", timeout=900) == [
        "a runtime is found",
        "a function trains on two nodes and its logs are read",
        "it is listed with its events, and deleted",
        "one that fails is known to have failed",
    ]


@pytest.mark.slow
def test_a_chart_trains_with_parameter_servers(
    sandbox: EmbeddedWorld, namespace: str, queue: str, tmp_path: Path
) -> None:
    """TensorFlow's own servers, coordinator and gradients."""
    helm = helm_of(3, sandbox, namespace, tmp_path)
    own = ("-n", namespace)
    settings = {
        "image": client_image("tensorflow", sandbox),
        "python": str(environment("tensorflow") / "bin" / "python"),
        "queue": queue,
        "priorityClass": queue,
    }
    chosen = ",".join(f"{name}={value}" for name, value in settings.items())
    helm("install", "ranking", str(EXAMPLES / "tfjob" / "chart"), "--set", chosen)
    group = eventually(lambda: sandbox.items("podgroups", *own), what="the group was made")[0]["spec"]
    assert (group["queue"], group["priorityClassName"], group["minMember"]) == (queue, queue, 6)
    sandbox.kubectl("wait", "--for=condition=Succeeded", "tfjob/ranking", "--timeout=600s", *own)
    log = sandbox.kubectl("logs", "ranking-chief-0", *own).splitlines()
    assert log[-2:] == ["y = 3.0 x + -1.0 after 200 steps, on servers 0, 1", "worst error 0.0"]
    helm("uninstall", "ranking", "--wait")
    eventually(lambda: not sandbox.items("pods", *own), what="the pods went with the release")


@pytest.mark.slow
def test_torchrun_goes_on_when_a_worker_is_killed(sandbox: EmbeddedWorld, namespace: str) -> None:
    own = ("-n", namespace)
    folder = EXAMPLES / "pytorch-elastic"
    image, programs = client_image("torch", sandbox), environment("torch") / "bin"
    sandbox.kubectl("create", "configmap", "elastic", f"--from-file={folder / 'train.py'}", *own)
    for body in yaml.safe_load_all((folder / "job.yaml").read_text()):
        if body["kind"] == "PyTorchJob":
            _run_on(body, image, programs)
        sandbox.apply({**body, "metadata": {**body["metadata"], "namespace": namespace}})

    def log(*words: str) -> bool:
        text = sandbox.kubectl("logs", "elastic-worker-0", *own, check=False)
        return any(all(word in line for word in words) for line in text.splitlines())

    eventually(lambda: log("step", "by 2 workers"), timeout=600, what="two workers train")
    sandbox.kubectl("exec", "elastic-worker-1", *own, "--", "sh", "-c", "kill -9 -1", check=False)
    sandbox.kubectl("wait", "--for=condition=Succeeded", "pytorchjob/elastic", "--timeout=900s", *own)
    begun = [line for line in _pods_log(sandbox, namespace) if " begins at step " in line]
    assert any(not line.endswith(" step 0") for line in begun), "the group went on from its checkpoint"
    assert any("ends: y = 3.0 x + -1.0" in line for line in _pods_log(sandbox, namespace))


def _run_on(job: dict[str, Any], image: str, programs: Path) -> None:
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["image"] = image
    container["command"][0] = str(programs / container["command"][0])
    # torchrun of PyTorch 1.13 does not take its own default for these on Python 3.11
    container["env"] = [{"name": name, "value": "1"} for name in ("PET_TEE", "PET_REDIRECTS")]


def _pods_log(world: EmbeddedWorld, namespace: str) -> list[str]:
    own = ("-n", namespace)
    pods = [pod["metadata"]["name"] for pod in world.items("pods", *own)]
    return [line for pod in pods for line in world.kubectl("logs", pod, *own).splitlines()]
