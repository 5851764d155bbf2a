"""Kubeflow's training jobs with kubectl. The same manifests in both worlds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e


def replica(container: str, count: int, seconds: int, policy: str = "Never") -> dict[str, Any]:
    body = {
        "name": container,
        "image": "busybox",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {"replicas": count, "restartPolicy": policy, "template": {"spec": {"containers": [body]}}}


def tfjob(namespace: str, *, seconds: int = 1, **policy: Any) -> dict[str, Any]:
    roles = {"Chief": 1, "PS": 1, "Worker": 2, "Evaluator": 1}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "t", "namespace": namespace},
        "spec": {
            "runPolicy": policy,
            "tfReplicaSpecs": {role: replica("tensorflow", count, seconds) for role, count in roles.items()},
        },
    }


def test_a_tfjob_runs_as_a_gang_and_goes(world: World, namespace: str) -> None:
    policy = {"queue": "default", "minAvailable": 5}
    world.apply(tfjob(namespace, schedulingPolicy=policy, ttlSecondsAfterFinished=3))
    eventually(
        lambda: (
            [
                one["type"]
                for one in (world.get("tfjob", "t", "-n", namespace).get("status") or {}).get("conditions", ())
                if one["status"] == "True"
            ][-1:]
            == ["Succeeded"]
        ),
        what="the job succeeded",
    )
    eventually(lambda: not world.items("tfjobs", "-n", namespace), what="the job went at the end of its time")
    eventually(lambda: not world.items("pods", "-n", namespace), what="its pods went with it")


def test_a_suspended_job_makes_nothing_until_it_is_resumed(world: World, namespace: str) -> None:
    world.apply(tfjob(namespace, seconds=600, suspend=True))
    eventually(
        lambda: "Suspended" in world.kubectl("get", "tfjob", "t", "-n", namespace), what="the job is shown as suspended"
    )
    assert not world.items("pods", "-n", namespace)
    world.kubectl(
        "patch", "tfjob", "t", "-n", namespace, "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":false}}}'
    )
    eventually(lambda: len(world.items("pods", "-n", namespace)) == 5, what="its pods were made")
    names = {one["metadata"]["name"] for one in world.items("services", "-n", namespace)}
    assert names >= {"t-chief-0", "t-ps-0", "t-worker-0", "t-worker-1", "t-evaluator-0"}


def test_a_job_that_makes_no_sense_is_refused_with_the_place(world: World, namespace: str) -> None:
    job = tfjob(namespace)
    job["spec"]["tfReplicaSpecs"]["Master"] = job["spec"]["tfReplicaSpecs"]["Chief"]
    with pytest.raises(Exception, match="must not have more than 1 Chief or Master role"):
        world.apply(job)


def elastic(namespace: str, **policy: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, **policy},
            "pytorchReplicaSpecs": {"Worker": replica("pytorch", 1, 600, "OnFailure")},
        },
    }


def test_workers_are_scaled_by_kubectl(world: World, namespace: str) -> None:
    world.apply(elastic(namespace))
    eventually(lambda: len(world.items("pods", "-n", namespace)) == 1, what="the worker was made")
    world.kubectl("scale", "pytorchjob", "p", "-n", namespace, "--replicas=3")
    eventually(lambda: len(world.items("pods", "-n", namespace)) == 3, what="two more were made")
    assert world.get("podgroup", "p", "-n", namespace)["spec"]["minMember"] == 1  # it runs with its fewest


def test_metrics_of_an_elastic_job_make_its_autoscaler(world: World, namespace: str) -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    world.apply(elastic(namespace, metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}]))
    eventually(lambda: world.get("hpa", "p", "-n", namespace), what="the autoscaler was made")
    spec = world.get("hpa", "p", "-n", namespace)["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]["kind"]) == (1, 4, "PyTorchJob")
    suspend = '{"spec":{"runPolicy":{"suspend":true}}}'
    world.kubectl("patch", "pytorchjob", "p", "-n", namespace, "--type=merge", "-p", suspend)
    eventually(lambda: world.get("hpa", "p", "-n", namespace) is None, what="the autoscaler went with the workers")
