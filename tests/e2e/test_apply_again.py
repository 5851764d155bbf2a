"""The same manifest once more: ``kubectl apply``, ``diff`` and ``replace`` change nothing, of every kind of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
BATCH, SCHEDULING, FLOW = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "flow.volcano.sh/v1alpha1"
TRAINING, TRAINER = "kubeflow.org/v1", "trainer.kubeflow.org/v1alpha1"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
CONSUMED = {"Command"}
"""Kinds that a controller deletes as it acts on them."""


def _template(container: str = "c", **pod: Any) -> Json:
    return {"spec": {"containers": [{"name": container, "image": "busybox", "command": ["sleep", "600"]}], **pod}}


def _of(api_version: str, kind: str, name: str = "", **members: Any) -> Json:
    """Return an object; those of different kinds have different names, as they own groups of their name."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name or kind.lower()}, **members}


def _training(kind: str, member: str, container: str, role: str = "Worker") -> Json:
    """Return a training that leaves out what may be left out."""
    roles = {role: {"replicas": 1, "template": _template(container)}}
    return _of(TRAINING, kind, spec={f"{member}ReplicaSpecs": roles})


BARE = {"tasks": [{"replicas": 1, "template": _template()}]}
MPI = {
    "plugins": {"mpi": ["--master=m", "--worker=w"]},
    "volumes": [{"mountPath": "/v", "volumeClaim": CLAIM}],
    "tasks": [
        {"name": "m", "replicas": 1, "template": _template(hostNetwork=True)},
        {"name": "w", "replicas": 2, "template": _template()},
    ],
}
RUNTIME = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": _template("node")}}}]}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}


def _manifests(unique: str) -> list[Json]:
    """Return objects that say no more than they must; ``unique`` names those of the whole cluster."""
    return [
        _of(BATCH, "Job", spec=BARE),
        _of(BATCH, "Job", "with-plugins", spec=MPI),
        _of(BATCH, "CronJob", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": BARE}}),
        _of(SCHEDULING, "PodGroup", spec={"minMember": 2, "minResources": {"cpu": "1000m"}}),
        _of(SCHEDULING, "Queue", unique, spec={"weight": 2, "capability": {"cpu": "4000m"}}),
        _of(FLOW, "JobTemplate", spec=BARE),
        _of(FLOW, "JobFlow", spec={"jobRetainPolicy": "retain", "flows": [{"name": "none"}]}),
        _of(
            "nodeinfo.volcano.sh/v1alpha1", "Numatopology", unique, spec={"policies": {"TopologyManagerPolicy": "none"}}
        ),
        _of(
            "topology.volcano.sh/v1alpha1",
            "HyperNode",
            unique,
            spec={"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "none"}}}]},
        ),
        _of("shard.volcano.sh/v1alpha1", "NodeShard", unique, spec={"nodesDesired": ["none"]}),
        _of(
            "config.volcano.sh/v1alpha1", "ColocationConfiguration", spec={"selector": {"matchLabels": {"no": "where"}}}
        ),
        _training("TFJob", "tf", "tensorflow"),
        _training("PyTorchJob", "pytorch", "pytorch"),
        _training("XGBoostJob", "xgb", "xgboost", "Master"),
        _training("PaddleJob", "paddle", "paddle"),
        _training("JAXJob", "jax", "jax"),
        _training("MPIJob", "mpi", "mpi", "Launcher"),
        _of(
            TRAINER, "ClusterTrainingRuntime", unique, spec={"mlPolicy": {"numNodes": 2}, "template": {"spec": RUNTIME}}
        ),
        _of(TRAINER, "TrainingRuntime", spec={"mlPolicy": {"numNodes": 2}, "template": {"spec": RUNTIME}}),
        _of(
            TRAINER,
            "TrainJob",
            spec={
                "runtimeRef": {"kind": "TrainingRuntime", "name": "trainingruntime"},
                "trainer": {"image": "busybox", "command": ["sleep", "600"]},
            },
        ),
        _of("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", spec={"targetRef": TARGET}),
        _of(
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscalerCheckpoint",
            spec={"vpaObjectName": "none", "containerName": "c"},
        ),
    ]


def _wanted(world: World, manifest: Json, namespace: str) -> tuple[Any, int]:
    """Return what is wanted, and its generation; a group's counts its status too, which ``replace`` leaves out."""
    resource = f"{manifest['kind']}.{manifest['apiVersion'].partition('/')[0]}"
    found = world.get(resource, manifest["metadata"]["name"], "-n", namespace)
    return found["spec"], 0 if manifest["kind"] == "PodGroup" else found["metadata"]["generation"]


@pytest.fixture
def manifests(world: World, namespace: str) -> Iterator[list[Json]]:
    """Return one object or more of each kind, and delete those that a namespace does not take along."""
    manifests = _manifests(namespace)
    yield manifests
    for manifest in manifests:
        if manifest["metadata"]["name"] == namespace:
            world.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", stdin=json.dumps(manifest))


@pytest.mark.timeout(300)
def test_the_same_manifests_once_more_change_nothing(world: World, namespace: str, manifests: list[Json]) -> None:
    ours = {body["spec"]["names"]["kind"] for body in yaml.safe_load_all(world.strato("crds"))}
    assert ours - CONSUMED == {manifest["kind"] for manifest in manifests}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})

    def applied() -> bool:  # a TrainJob is refused until the webhook has heard of its runtime
        return world.kubectl_process("apply", "-n", namespace, "-f", "-", stdin=text, check=False).returncode == 0

    eventually(applied, what="all are applied", every=1.0)
    claimed = "--for=jsonpath={.spec.volumes[0].volumeClaimName}"
    world.kubectl("wait", "-n", namespace, "vcjob/with-plugins", claimed)
    before = [_wanted(world, manifest, namespace) for manifest in manifests]
    for verb in ("apply", "diff", "replace", "diff"):
        world.kubectl(verb, "-n", namespace, "-f", "-", stdin=text)  # diff exits 1 when it shows any
    for manifest, wanted in zip(manifests, before, strict=True):
        assert _wanted(world, manifest, namespace) == wanted, manifest["kind"]


def test_a_job_that_runs_is_scaled_by_its_manifest(world: World, namespace: str) -> None:
    manifest = vcjob("again", replicas=2, seconds=600)
    for task in manifest["spec"]["tasks"]:
        task.pop("minAvailable", None)
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    manifest["spec"]["tasks"][0]["replicas"] = 3
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    task = world.get("vcjob", "again", "-n", namespace)["spec"]["tasks"][0]
    assert (task["replicas"], task["minAvailable"]) == (3, 3)
