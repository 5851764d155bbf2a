"""The example manifests of Volcano's own repository, read from its published module: every one does what it is for.

Nothing of them is kept here; the table names each file and what becomes of it. Hollow nodes stand for the images.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.gobuild import module_files
from tests.e2e.worlds import World, eventually

SOURCE = Path(__file__).parent / "vcctl"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

RUN = [
    ("job.yaml",),
    ("job-plugin.yaml",),
    ("task-start-dependency/job.yaml",),
    ("task-start-dependency/mpi.yaml",),
    ("jobflow/JobTemplate.yaml", "jobflow/JobFlow.yaml"),
    ("deployment/queue.yaml", "deployment/deployment.yaml"),
    ("hierarchical-jobs/queues.yaml", "hierarchical-jobs/jobs.yaml"),
    ("integrations/mpi/mpi-example.yaml",),
    ("integrations/mxnet/train/train-mnist-cpu.yaml",),
    ("integrations/paddlepaddle/ctr-paddlepaddle-on-volcano.yaml",),
    ("integrations/ray/ray-example.yaml",),
    ("integrations/tensorflow/benchmark/tf-example.yaml",),
    ("integrations/tensorflow/dist-mnist/tf-dist-mnist-example.yaml",),
    ("MindSpore-example/mindspore_cpu/mindspore-cpu.yaml",),
    ("kubecon-2019-china/drf/nginx-1.yaml", "kubecon-2019-china/drf/nginx-2.yaml"),
    ("kubecon-2019-china/gang/mpi-example.yaml",),
    ("kubecon-2019-china/horovod-sample/lm-horovod-tf-mnist-v0.5.yaml",),
    ("kubecon-2019-china/mpi-sample/mpi-example.yaml",),
    ("kubecon-2019-china/tf-sample/tf-example.yaml",),
]
"""Together, in this order, and then everything in them runs."""

WAIT = {
    "MindSpore-example/mindspore_gpu/mindspore-gpu.yaml": "nvidia.com/gpu",
}
"""Taken, and waiting for what our nodes do not have, which the pod group says."""

REFUSED = {
    "invalid_jobs/duplicatedPolicyEvent-webhook-deny.yaml": "duplicate event PodFailed",
    "invalid_jobs/duplicatedTaskName-webhook-deny.yaml": "duplicated task name",
    "invalid_jobs/minAvailable-webhook-deny.yaml": "'minAvailable' should not be greater than total replicas in tasks",
}
"""Made to be refused, with words of Volcano's webhook; a real server has the definitions' rules say them first."""

TAKEN = {
    "cronjob/cronjob.yaml": "every five minutes is longer than a test",
    "kubecon-2019-china/drf/nginx.yaml": "for the default scheduler, which is not ours",
    "kubecon-2019-china/gang/nginx.yaml": "for the default scheduler, which is not ours",
    "kubecon-2019-china/node-selector/nginx.yaml": "for one machine of the talk",
    "kubecon-2019-china/task-priority/nginx.yaml": "for the default scheduler, which is not ours",
    "kubecon-2019-china/task-priority/elastic-job.yaml": "its priority classes are of a version that is gone",
}

FOREIGN = {
    "integrations/argo/10-job-step.yaml": "a Workflow of Argo",
    "integrations/argo/20-job-DAG.yaml": "a Workflow of Argo",
    "kubecon-2019-china/spark-sample/spark-pi.yaml": "a SparkApplication, and a pod group of kube-batch",
    "kubecon-2019-china/task-priority/high-priority.yaml": "a version that Kubernetes took away in 1.22",
    "kubecon-2019-china/task-priority/normal-priority.yaml": "a version that Kubernetes took away in 1.22",
}


@pytest.fixture(scope="session")
def manifests() -> Path:
    return module_files(SOURCE, "volcano.sh/volcano") / "example"


def create(world: World, namespace: str, path: Path) -> list[dict[str, Any]]:
    """Create everything in a file, in the test's namespace, and return it as it was stored."""
    stored = []
    for body in filter(None, yaml.safe_load_all(path.read_text())):
        body["metadata"].pop("namespace", None)
        answer = world.kubectl("create", "-n", namespace, "-f", "-", "-o", "json", stdin=json.dumps(body))
        stored.append(json.loads(answer))
    return stored


@pytest.fixture
def queues(world: World, namespace: str) -> Iterator[list[str]]:
    """Return a list for names of queues; they are closed and deleted once the test's jobs have gone."""
    made: list[str] = []
    yield made
    if made:
        for kind in ("jobflows", "jobs.batch.volcano.sh", "deployments"):
            world.kubectl("delete", kind, "--all", "-n", namespace)
        eventually(lambda: not world.items("podgroups", "-n", namespace), what="no pod groups are left")
    for name in made:
        world.strato("queue", "operate", "-n", name, "-a", "close")
        eventually(lambda name=name: world.get("queue", name)["status"]["state"] == "Closed", what=f"{name} is closed")
        world.kubectl("delete", "queue", name)


def runs(world: World, namespace: str, made: dict[str, Any]) -> bool:
    """Return whether an object does what it is for; jobs that have run and finished did."""
    kind, name = made["kind"], made["metadata"]["name"]
    if kind == "Queue":
        return bool(world.get("queue", name)["status"].get("state") == "Open")
    if kind == "JobTemplate":
        return world.get("jobtemplate", name, "-n", namespace) is not None
    if kind == "JobFlow":
        return world.get("jobflow", name, "-n", namespace).get("status", {}).get("state", {}).get("phase") in {
            "Running", "Succeed",
        }  # fmt: skip
    if kind in {"ReplicaSet", "Deployment"}:
        status = world.get(kind.lower(), name, "-n", namespace).get("status", {})
        return bool(status.get("readyReplicas") == made["spec"]["replicas"])
    assert kind == "Job"
    status = world.get("vcjob", name, "-n", namespace).get("status", {})
    assert status.get("state", {}).get("phase") not in {"Failed", "Terminated", "Aborted"}, status
    return any(condition["status"] in {"Running", "Completed"} for condition in status.get("conditions", ()))


@pytest.mark.own_nodes
@pytest.mark.parametrize("files", RUN, ids=[" and ".join(files) for files in RUN])
def test_what_a_manifest_makes_runs(
    world: World, namespace: str, manifests: Path, queues: list[str], files: tuple[str, ...]
) -> None:
    made: list[dict[str, Any]] = []
    for file in files:
        stored = create(world, namespace, manifests / file)
        queues += [body["metadata"]["name"] for body in stored if body["kind"] == "Queue"]
        made += stored
    for body in made:
        eventually(
            lambda body=body: runs(world, namespace, body),
            what=f"{body['kind']} {body['metadata']['name']} runs",
            every=0.3,
        )


@pytest.mark.own_nodes
@pytest.mark.parametrize("file", WAIT)
def test_what_asks_for_more_than_there_is_waits_and_says_why(
    world: World, namespace: str, manifests: Path, file: str
) -> None:
    create(world, namespace, manifests / file)

    def said() -> bool:
        groups = world.items("podgroups", "-n", namespace)
        return any(
            condition["type"] == "Unschedulable" and WAIT[file] in condition["message"]
            for group in groups
            for condition in group.get("status", {}).get("conditions", ())
        )

    eventually(said, what=f"the pod group says {WAIT[file]!r}")
    assert [pod for pod in world.items("pods", "-n", namespace) if pod["spec"].get("nodeName")] == []


@pytest.mark.parametrize("file", REFUSED)
def test_what_is_made_to_be_refused_is_refused(world: World, namespace: str, manifests: Path, file: str) -> None:
    done = world.kubectl_process("create", "-n", namespace, "-f", str(manifests / file), check=False)
    assert done.returncode == 1
    assert REFUSED[file] in done.stderr


@pytest.mark.parametrize("file", TAKEN)
def test_what_needs_others_to_run_is_taken(world: World, namespace: str, manifests: Path, file: str) -> None:
    (made,) = create(world, namespace, manifests / file)
    assert made["metadata"]["uid"]


def test_no_manifest_is_forgotten(manifests: Path) -> None:
    known = {file for files in RUN for file in files} | {*WAIT, *REFUSED, *TAKEN, *FOREIGN}
    assert {path.relative_to(manifests).as_posix() for path in manifests.rglob("*.yaml")} == known
