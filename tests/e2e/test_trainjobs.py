"""TrainJobs of Kubeflow's trainer v2 with kubectl. The same manifests in both worlds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def step(name: str, script: str, part: str, **more: Any) -> dict[str, Any]:
    container = {
        "name": "node" if part == "trainer" else name,
        "image": "busybox",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    pods = {"spec": {"restartPolicy": "Never", "schedulerName": "volcano", "containers": [container]}}
    job = {"metadata": {"labels": {STEP: part}}, "spec": {"backoffLimit": 0, "template": pods}}
    return {"name": name, "template": job, **more}


def runtime(namespace: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "r", "namespace": namespace},
        "spec": {
            "mlPolicy": {"numNodes": 2, "torch": {}},
            "podGroupPolicy": {"volcano": {}},
            "template": {"spec": {"replicatedJobs": list(steps), **more}},
        },
    }


def train_job(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t", "namespace": namespace},
        "spec": {"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}, **spec},
    }


def holds(world: World, namespace: str, wanted: str) -> bool:
    status = world.get("trainjob", "t", "-n", namespace).get("status") or {}
    return any(one["type"] == wanted and one["status"] == "True" for one in status.get("conditions") or ())


def test_data_are_fetched_and_two_nodes_train_as_a_gang(world: World, namespace: str) -> None:
    data = step("data", "sleep 1", "")
    node = step("node", "exit 9", "trainer", dependsOn=[{"name": "data", "status": "Complete"}])
    world.apply(runtime(namespace, data, node))
    world.apply(train_job(namespace, trainer={"command": ["sleep", "1"], "numProcPerNode": 1}))
    eventually(lambda: world.items("podgroup", "-n", namespace), what="the group was made")
    assert world.get("podgroup", "t", "-n", namespace)["spec"]["minMember"] == 2
    eventually(lambda: holds(world, namespace, "Complete"), what="the training is complete")
    selector = "jobset.sigs.k8s.io/jobset-name=t,jobset.sigs.k8s.io/replicatedjob-name=node"
    pods = world.items("pods", "-n", namespace, "-l", selector)
    assert sorted(pod["spec"]["hostname"] for pod in pods) == ["t-node-0-0", "t-node-0-1"]
    told = {one["name"]: one.get("value") for one in pods[0]["spec"]["containers"][0]["env"]}
    assert (told["PET_NNODES"], told["PET_MASTER_ADDR"], told["PET_MASTER_PORT"]) == ("2", "t-node-0-0.t", "29500")
    (first, second) = world.get("trainjob", "t", "-n", namespace)["status"]["jobsStatus"]
    assert [(one["name"], one["succeeded"]) for one in (first, second)] == [("data", 1), ("node", 1)]
    world.kubectl("delete", "trainjob", "t", "-n", namespace)
    eventually(lambda: not world.items("pods", "-n", namespace), what="its pods went with it")


def test_a_suspended_training_goes_on_and_begins_anew_when_it_fails(world: World, namespace: str) -> None:
    world.apply(runtime(namespace, step("node", "exit 3", "trainer"), failurePolicy={"maxRestarts": 1}))
    world.apply(train_job(namespace, suspend=True))
    eventually(lambda: holds(world, namespace, "Suspended"), what="the training is suspended")
    assert not world.items("pods", "-n", namespace)
    world.kubectl("patch", "trainjob", "t", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    eventually(lambda: holds(world, namespace, "Failed"), what="the training has failed")
    (failed,) = (
        one for one in world.get("trainjob", "t", "-n", namespace)["status"]["conditions"] if one["type"] == "Failed"
    )
    assert failed["reason"] == "ReachedMaxRestarts"
    labels = world.get("job", "t-node-0", "-n", namespace)["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/restart-attempt"] == "1"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"runtimeRef": {"name": "other"}}, "must be created before the TrainJob is created"),
        ({"trainer": {"env": [{"name": "PET_NNODES", "value": "9"}]}}, "must not have reserved envs"),
        ({"managedBy": "me"}, "ManagedBy must be"),
        ({"trainer": {"numNodes": -1}}, "should be greater than or equal to 0"),
    ],
)
def test_what_makes_no_sense_is_refused(world: World, namespace: str, spec: dict[str, Any], words: str) -> None:
    world.apply(runtime(namespace, step("node", "sleep 1", "trainer")))
    body = json.dumps(train_job(namespace, **spec))
    done = world.kubectl_process("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=body, check=False)
    assert words in done.stderr
