"""What each framework's nodes are told, and how many processes or ranks each has: by the job, its GPUs or its CPUs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api import trainer
from strato.api.trainer import TrainingRuntimeSpec, TrainJob
from strato.controllers.training.trainer.frameworks import inform, slots
from strato.controllers.training.trainer.steps import BadRuntime, Steps, steps_of

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def made(
    policy: Json,
    *,
    resources: Json | None = None,
    others: tuple[Json, ...] = (),
    names: tuple[str, ...] = ("node",),
    **own: Any,
) -> tuple[Steps, TrainJob, Any]:
    """Return the steps, the job and the policy of a TrainJob with a replicated job for each name."""

    def step(name: str) -> Json:
        containers = [{"name": "node", "image": "i", "resources": resources or {}}, *others]
        labels = {trainer.STEP_LABEL: "trainer"} if name == names[0] else {}
        template = {"spec": {"containers": [dict(one) for one in containers]}}
        return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": template}}}

    spec = {"replicatedJobs": [step(name) for name in names]}
    runtime = msgspec.convert({"mlPolicy": policy, "template": {"spec": spec}}, TrainingRuntimeSpec)
    body = {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, "trainer": own}}
    job = msgspec.convert(body, TrainJob)
    return steps_of(job, runtime), job, runtime.ml_policy


def told(steps: Steps, container: str = "node", step: str = "node") -> dict[str, str]:
    found = steps.named(step)
    assert found is not None
    (one,) = found.containers(container)
    return {item["name"]: item.get("value", "?") for item in one.get("env") or ()}


SLOTS = [
    pytest.param({}, {}, {}, 1, id="nothing is said"),
    pytest.param({"numProcPerNode": 4}, {}, {}, 4, id="the runtime says it"),
    pytest.param({"numProcPerNode": 4}, {}, {"numProcPerNode": 2}, 2, id="the job says it"),
    pytest.param({"numProcPerNode": 4}, {"limits": {GPU: 8}}, {}, 4, id="the runtime says it, whatever the GPUs"),
    pytest.param({}, {"limits": {GPU: 8}}, {}, 8, id="one for each GPU"),
    pytest.param({}, {"requests": {GPU: 8}}, {}, 8, id="one for each GPU that is asked for"),
    pytest.param({}, {"limits": {GPU: 8}}, {"numProcPerNode": 1}, 1, id="the job says one, whatever the GPUs"),
    pytest.param({"numProcPerNode": 1}, {"limits": {"cpu": 8}}, {}, 1, id="CPUs do not count"),
]


@pytest.mark.parametrize(("policy", "resources", "own", "want"), SLOTS)
def test_the_ranks_of_a_node(policy: Json, resources: Json, own: Json, want: int) -> None:
    steps, job, ml = made({"mpi": policy}, resources=resources, **own)
    assert slots(steps, job, ml.mpi) == want


PROCESSES = [
    pytest.param({}, {}, "1", id="nothing is said"),
    pytest.param({"requests": {"cpu": "2500m"}}, {}, "3", id="one for each CPU, rounded up"),
    pytest.param({"limits": {"cpu": 4}}, {}, "4", id="one for each CPU at most"),
    pytest.param({"requests": {"cpu": 2}, "limits": {"cpu": 4}}, {}, "2", id="of the CPUs that are asked for"),
    pytest.param({"requests": {"cpu": 0}}, {}, "1", id="at least one"),
    pytest.param({"limits": {"cpu": 4, GPU: 2}}, {}, "auto", id="GPUs are left to torch"),
    pytest.param({"limits": {GPU: 2}}, {"numProcPerNode": 3}, "3", id="the job says it"),
]


@pytest.mark.parametrize(("resources", "own", "want"), PROCESSES)
def test_the_processes_of_a_node_of_torch(resources: Json, own: Json, want: str) -> None:
    steps, job, ml = made({"numNodes": 2, "torch": {}}, resources=resources, **own)
    inform(steps, job, ml)
    assert told(steps) == {
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": want, "PET_NODE_RANK": "?",
        "PET_MASTER_ADDR": "t-node-0-0.t", "PET_MASTER_PORT": "29500",
    }  # fmt: skip


JAX = {"JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": "?", "JAX_COORDINATOR_ADDRESS": "t-node-0-0.t:29500"}
XGBOOST = {"DMLC_TRACKER_URI": "t-node-0-0.t", "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": "?"}
OTHERS = [
    pytest.param({"jax": {}}, {}, JAX, id="jax"),
    pytest.param({"xgboost": {}}, {}, {**XGBOOST, "DMLC_NUM_WORKER": "3"}, id="xgboost"),
    pytest.param({"xgboost": {}}, {"limits": {GPU: 2}}, {**XGBOOST, "DMLC_NUM_WORKER": "6"}, id="xgboost on GPUs"),
    pytest.param({}, {}, {}, id="no framework"),
]


@pytest.mark.parametrize(("policy", "resources", "want"), OTHERS)
def test_what_other_frameworks_are_told(policy: Json, resources: Json, want: dict[str, str]) -> None:
    steps, job, ml = made({"numNodes": 3, **policy}, resources=resources)
    inform(steps, job, ml)
    assert told(steps) == want


def test_further_containers_are_told_where_the_runtime_says_so() -> None:
    side = {"name": "side", "image": "i"}
    injection = {"targets": [{"jobName": "eval", "containerNames": ["side"]}]}
    steps, job, ml = made({"numNodes": 1, "torch": {"envInjection": injection}}, others=(side,), names=("node", "eval"))
    inform(steps, job, ml)
    assert told(steps, "side", "eval") == told(steps)
    assert told(steps, "side") == told(steps, "node", "eval") == {}


@pytest.mark.parametrize(
    "target", [{"jobName": "no", "containerNames": ["side"]}, {"jobName": "node", "containerNames": ["no"]}]
)
def test_a_container_that_is_to_be_told_and_is_missing(target: Json) -> None:
    side = {"name": "side", "image": "i"}
    steps, job, ml = made({"torch": {"envInjection": {"targets": [target]}}}, others=(side,))
    with pytest.raises(BadRuntime):
        inform(steps, job, ml)


def test_what_is_not_run_is_refused() -> None:
    steps, job, ml = made({"flux": {}})
    with pytest.raises(BadRuntime, match="flux is not run here"):
        inform(steps, job, ml)
    inform(steps, job, None)
    assert told(steps) == {}
