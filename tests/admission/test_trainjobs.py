"""What of TrainJobs and their runtimes is refused, and in which words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from strato.admission.request import Denied
from strato.api import catalog
from strato.api.trainer import STEP_LABEL
from tests.admission.reader import FakeWorld, admit

Json = dict[str, Any]


def step(name: str, container: str = "node", part: str = "", **more: Any) -> Json:
    pods = {"spec": {"containers": [{"name": container, "image": "i", **more.pop("has", {})}], **more.pop("pod", {})}}
    return {"name": name, "template": {"metadata": {"labels": {STEP_LABEL: part}}, "spec": {"template": pods}}, **more}


KEPT = {"has": {"volumeMounts": [{"name": "initializer", "mountPath": "/w"}]}}
KEPT["pod"] = {"volumes": [{"name": "initializer", "emptyDir": {}}]}


def runtime(*steps: Json, **policy: Json) -> Json:
    listed = list(steps) or [step("node", part="trainer")]
    return {"mlPolicy": policy or {"torch": {}}, "template": {"spec": {"replicatedJobs": listed}}}


def job(**spec: Any) -> Json:
    meta = {"name": "t", "namespace": "default"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": meta,
        "spec": {"runtimeRef": {"name": "r"}, **spec},
    }


def patch(name: str = "node", **pods: Any) -> Json:
    listed = [{"name": name, "template": {"spec": {"template": {"spec": pods}}}}]
    return {"manager": "a.io/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": listed}}}}


@pytest.mark.parametrize(
    ("of", "spec", "words"),
    [
        (runtime(), {"runtimeRef": {"name": "x"}}, "must be created before the TrainJob is created"),
        (runtime(), {"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}}, "must be created before"),
        (runtime(), {"runtimeRef": {"name": "r", "kind": "X"}}, "unsupported runtime: X.trainer.kubeflow.org"),
        (runtime(), {"trainer": {"env": [{"name": "PET_NNODES"}]}}, "invalid envs configured: [PET_NNODES]"),
        (runtime(xgboost={}), {"trainer": {"env": [{"name": "DMLC_TASK_ID"}]}}, "configured: [DMLC_TASK_ID]"),
        (runtime(), {"trainer": {"command": ["tune", "run"]}}, "must have a supported pretrained model"),
        (runtime(), {"initializer": {"dataset": {}}}, "must have dataset-initializer job when"),
        (
            runtime(step("model-initializer")),
            {"initializer": {"model": {}}},
            "must have container with name - model-initializer in the model-initializer job",
        ),
        (
            runtime(step("model-initializer", "model-initializer")),
            {"initializer": {"model": {}}},
            "must have volumeMount with name - initializer",
        ),
        (runtime(), {"runtimePatches": [patch("x")]}, "must not have replicated job that doesn't exist"),
        (runtime(), {"runtimePatches": [patch(containers=[{"name": "x"}])]}, "must not have container that doesn't"),
        (runtime(), {"runtimePatches": [patch(initContainers=["x"])]}, "must not have initContainer that doesn't"),
        (
            runtime(),
            {"runtimePatches": [patch(containers=[{"name": "node", "env": [{"name": "A"}]}])]},
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
    ],
)
def test_a_job_that_does_not_fit_its_runtime_is_refused(of: Json, spec: Json, words: str) -> None:
    world = FakeWorld().add(catalog.CLUSTERTRAININGRUNTIME, "r", spec=of)
    with pytest.raises(Denied) as refused:
        admit(catalog.TRAINJOB, job(**spec), world)
    assert words in str(refused.value)
    assert "validator.trainjob.trainer.kubeflow.org" in str(refused.value)


@pytest.mark.parametrize(
    ("of", "spec"),
    [
        (runtime(), {}),
        (runtime(step("dataset-initializer", "dataset-initializer", **KEPT)), {"initializer": {"dataset": {}}}),
        (runtime(), {"runtimePatches": [patch(nodeSelector={"a": "b"}, containers=[{"name": "node"}])]}),
        (runtime(jax={}), {"trainer": {"env": [{"name": "PET_NNODES", "value": "1"}]}}),
    ],
)
def test_a_job_that_fits_is_let_in(of: Json, spec: Json) -> None:
    world = FakeWorld().add(catalog.CLUSTERTRAININGRUNTIME, "r", spec=copy.deepcopy(of))
    admit(catalog.TRAINJOB, job(**copy.deepcopy(spec)), world)


@pytest.mark.parametrize(
    ("before", "after", "is_refused"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_patches_change_while_the_job_is_suspended(before: bool, after: bool, is_refused: bool) -> None:
    new = job(suspend=after, runtimePatches=[patch(nodeSelector={"a": "b"})])
    old = job(suspend=before)
    if is_refused:
        with pytest.raises(Denied, match="can only be modified when the TrainJob is suspended"):
            admit(catalog.TRAINJOB, new, FakeWorld(), old=old, operation="UPDATE")
    else:
        admit(catalog.TRAINJOB, new, FakeWorld(), old=old, operation="UPDATE")


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (runtime({"name": "node", "template": {"spec": {"template": 5}}}), "Expected `object`, got `int`"),
        ({"template": {"spec": {"replicatedJobs": 3}}}, "spec.template.spec.replicatedJobs"),
        (runtime(step("a", dependsOn=[{"name": "b"}]), step("b")), "must be a replicated job that stands before"),
        (runtime(step("a", dependsOn=[{"name": "c"}])), "must be the name of another replicated job"),
        (runtime(step("a"), step("b", dependsOn=[{"name": "a", "status": "Gone"}])), "must be Ready or Complete"),
        (
            {"template": {"spec": {"replicatedJobs": [step("a")], "ttlSecondsAfterFinished": -1}}},
            "spec.template.spec.ttlSecondsAfterFinished",
        ),
        (
            runtime(step("a", has={"image": "i", "resources": {"requests": {"cpu": "x"}}})),
            "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.requests[cpu]",
        ),
    ],
)
@pytest.mark.parametrize("kind", [catalog.TRAININGRUNTIME, catalog.CLUSTERTRAININGRUNTIME])
def test_a_runtime_that_no_job_could_run_is_refused(of: Json, words: str, kind: Any) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "r"}, "spec": copy.deepcopy(of)}
    with pytest.raises(Denied) as refused:
        admit(kind, body, FakeWorld())
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param({"spec": {"mlPolicy": {"torch": {}}}}, id="no template"),
        pytest.param({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}, id="no spec of its template"),
        pytest.param({}, id="nothing, which its schema refuses"),
    ],
)
def test_a_runtime_that_leaves_out_a_part_is_let_in(of: Json) -> None:
    kind = catalog.TRAININGRUNTIME
    admit(kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "r"}, **of}, FakeWorld())
