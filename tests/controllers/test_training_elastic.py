"""Elastic trainings beside a scheduler: they start with their fewest workers, give back first and grow again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import BY_KIND, JobShape
from strato.api.kubeflow import PyTorchJob
from strato.api.volcano.scheduling import ELASTIC_ANNOTATION, PodGroup
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.training.autoscaler import companions
from strato.controllers.trainingoptions import PodOptions
from strato.errors import NotFound
from strato.testing.harness import Harness
from tests.controllers.world import ADMIN, MeddlingCluster, World, play


def training(replicas: int, **policy: Any) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    worker = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}},
    }


def gang(name: str, replicas: int, priority: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    task = {"name": "t", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "tasks": [task], **({"priorityClassName": priority} if priority else {})},
    }


CONFIG = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: overcommit
"""
URGENT = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}


def running(harness: Harness, start: str) -> list[str]:
    pods = [one for one in harness.pods("default") if one.status.phase == "Running"]
    return [
        one.metadata.name for one in pods if one.metadata.name.startswith(start) and not one.metadata.deletion_timestamp
    ]


@pytest.mark.parametrize(
    ("replicas", "policy", "least"),
    [
        pytest.param(4, {"minReplicas": 1, "maxReplicas": 4}, 1, id="its fewest"),
        pytest.param(4, {"minReplicas": 3}, 3, id="one bound"),
        pytest.param(4, {}, 4, id="no bounds"),
        pytest.param(4, {"minReplicas": 0, "maxReplicas": 4}, 1, id="at least one"),
        pytest.param(2, {"minReplicas": 3, "maxReplicas": 4}, 2, id="fewer than its fewest"),
    ],
)
def test_how_many_pods_an_elastic_job_needs(replicas: int, policy: dict[str, Any], least: int) -> None:
    job = msgspec.convert(training(replicas, **policy), PyTorchJob)
    assert JobShape.of(BY_KIND[catalog.PYTORCHJOB], job).least == least


async def test_an_elastic_training_gives_back_and_grows_again() -> None:
    async with Harness(nodes="4x1cpu,4Gi", scheduler_config=CONFIG) as harness:
        await harness.apply(URGENT, training(4, minReplicas=1, maxReplicas=4))
        workers = [f"p-worker-{index}" for index in range(4)]
        await harness.eventually(lambda: running(harness, "p-") == workers)
        group = await harness.cluster.get(PodGroup, "p", "default")
        assert (group.spec.min_member, group.spec.min_resources) == (1, {"cpu": "1"})
        assert group.metadata.annotation(ELASTIC_ANNOTATION) == "true"
        await harness.apply(gang("now", 2, "urgent"))
        await harness.eventually(lambda: len(running(harness, "now-")) == 2)
        assert len(left := running(harness, "p-")) == 2
        assert left[0] == workers[0], "the others meet there"
        await harness.eventually(lambda: of_p(harness) == workers)
        job = await harness.cluster.get(PyTorchJob, "p", "default")
        assert [one.type for one in job.status.conditions if one.status == "True"][-1] == "Running"
        await harness.cluster.delete(catalog.VCJOB, "now", "default")
        for name in running(harness, "now-"):  # nobody collects what it leaves
            await harness.cluster.delete(catalog.POD, name, "default")
        await harness.eventually(lambda: running(harness, "p-") == workers)
        job = await harness.cluster.get(PyTorchJob, "p", "default")
        assert not job.status.replica_statuses["Worker"].failed


def of_p(harness: Harness) -> list[str]:
    return [name for one in harness.pods("default") if (name := one.metadata.name).startswith("p-")]


async def test_a_gang_of_another_queue_gets_what_an_elastic_training_gives_back() -> None:
    """With a rigid gang beside it, which keeps what it has."""
    other = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "other"}}
    async with Harness(nodes="6x1cpu,4Gi", scheduler_config=CONFIG) as harness:
        rigid = gang("rigid", 2)
        rigid["spec"]["minAvailable"] = 1
        await harness.apply(other, rigid)
        await harness.eventually(lambda: len(running(harness, "rigid-")) == 2)
        await harness.apply(training(4, minReplicas=1, maxReplicas=4))
        await harness.eventually(lambda: len(running(harness, "p-")) == 4)
        late = gang("late", 3)
        late["spec"]["queue"] = "other"
        await harness.apply(late)
        await harness.eventually(lambda: len(running(harness, "late-")) == 3)
        assert running(harness, "p-") == ["p-worker-0"]
        assert len(running(harness, "rigid-")) == 2


async def test_an_elastic_training_starts_with_its_fewest() -> None:
    async with Harness(nodes="2x1cpu,4Gi", scheduler_config=CONFIG) as harness:
        await harness.apply(training(4, minReplicas=2, maxReplicas=4))
        await harness.eventually(lambda: len(running(harness, "p-")) == 2)
        await harness.apply(gang("later", 2))  # of the same priority: it waits
        await harness.eventually(lambda: len(of_p(harness)) == 4)
        assert len(running(harness, "p-")) == 2


METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
]
ENABLED = ("pytorchjob-controller", "queue-controller", GarbageCollector.name)


async def autoscaler(world: World) -> dict[str, Any] | None:
    try:
        found = await world.cluster.get(catalog.HORIZONTALPODAUTOSCALER, "p", "default")
    except NotFound:
        return None
    return found


async def change(world: World, spec: dict[str, Any]) -> None:
    await world.cluster.patch(catalog.PYTORCHJOB, "p", "default", {"spec": spec})
    await world.settle()


def test_the_autoscaler_of_an_elastic_job_is_there_while_there_is_something_to_scale() -> None:
    async def scenario(world: World) -> None:
        job = training(1, minReplicas=1, maxReplicas=3, metrics=METRICS)
        await world.cluster.create(catalog.PYTORCHJOB, job, "default")
        await world.settle()
        found = await autoscaler(world)
        assert found is not None
        target = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "p"}
        wanted = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": METRICS}
        assert found["spec"].items() >= wanted.items()
        assert [one["name"] for one in found["metadata"]["ownerReferences"]] == ["p"]
        await change(world, {"elasticPolicy": {"maxReplicas": 4}})
        found = await autoscaler(world)
        assert found is not None
        assert found["spec"]["maxReplicas"] == 4
        await change(world, {"runPolicy": {"suspend": True}})
        assert await autoscaler(world) is None
        await change(world, {"runPolicy": {"suspend": False}})
        assert await autoscaler(world) is not None
        await change(world, {"elasticPolicy": {"metrics": None}})
        assert await autoscaler(world) is None
        await change(world, {"elasticPolicy": {"metrics": METRICS}})
        assert await autoscaler(world) is not None
        pod = (await world.pods())["p-worker-0"]
        ended = {"status": {"phase": "Succeeded"}}
        await world.cluster.patch(Pod, pod.metadata.name, "default", ended, subresource="status")
        await world.settle()
        assert await autoscaler(world) is None

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        pytest.param({"minReplicas": 2, "maxReplicas": 4}, (2, 4), id="its own"),
        pytest.param({"minReplicas": 0, "maxReplicas": 4}, (1, 4), id="at least one, as autoscalers must have"),
        pytest.param({}, (3, 3), id="without bounds the replicas there are"),
    ],
)
def test_the_bounds_of_an_autoscaler(policy: dict[str, Any], bounds: tuple[int, int]) -> None:
    job = msgspec.convert(training(3, metrics=METRICS, **policy), PyTorchJob)
    (made,) = companions(JobShape.of(BY_KIND[catalog.PYTORCHJOB], job), (), PodOptions())
    assert (made.body["spec"]["minReplicas"], made.body["spec"]["maxReplicas"]) == bounds


def test_a_restarted_controller_removes_what_is_not_wanted_any_more() -> None:
    async def scenario(world: World) -> None:
        job = training(1, minReplicas=1, maxReplicas=3, metrics=METRICS)
        await world.cluster.create(catalog.PYTORCHJOB, job, "default")
        await world.settle()
        await world.stop_controllers()
        await world.cluster.patch(catalog.PYTORCHJOB, "p", "default", {"spec": {"elasticPolicy": {"metrics": None}}})
        await world.start_controllers(MeddlingCluster(world.server, ADMIN))
        await world.settle()
        assert await autoscaler(world) is None

    play(scenario, enabled=ENABLED)


def test_an_autoscaler_of_somebody_else_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        target = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "p"}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9}
        body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "p"}}
        await world.cluster.create(catalog.HORIZONTALPODAUTOSCALER, {**body, "spec": spec}, "default")
        job = training(1, minReplicas=1, maxReplicas=3, metrics=METRICS)
        await world.cluster.create(catalog.PYTORCHJOB, job, "default")
        await world.settle()
        assert "p-worker-0" in await world.pods()
        await change(world, {"runPolicy": {"suspend": True}})
        found = await autoscaler(world)
        assert found is not None
        assert found["spec"]["maxReplicas"] == 9

    play(scenario, enabled=ENABLED)
