"""What is wrong with training jobs and their runtimes, place by place."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.api.validation import trainingjobs, trainjobs

Json = dict[str, Any]


def role(container: str, replicas: int | None = None) -> Json:
    template = {"spec": {"containers": [{"name": container, "image": "i"}]}}
    return {"template": template} | ({} if replicas is None else {"replicas": replicas})


@pytest.mark.parametrize(
    ("kind", "leader", "replicas", "is_fine"),
    [
        pytest.param(catalog.MPIJOB_V1, "Launcher", None, True, id="mpi: one launcher is the default"),
        pytest.param(catalog.MPIJOB_V1, "Launcher", 1, True, id="mpi: one launcher"),
        pytest.param(catalog.MPIJOB_V1, "Launcher", 2, False, id="mpi: two launchers"),
        pytest.param(catalog.PYTORCHJOB, "Master", None, False, id="torch: the master has to be said"),
        pytest.param(catalog.PYTORCHJOB, "Master", 1, True, id="torch: one master"),
        pytest.param(catalog.TFJOB, "Chief", None, True, id="tensorflow: one chief is the default"),
        pytest.param(catalog.TFJOB, "Chief", 2, True, id="tensorflow: two chiefs"),
    ],
)
def test_how_many_leaders_a_training_job_may_have(kind: Kind, leader: str, replicas: int | None, is_fine: bool) -> None:
    framework = BY_KIND[kind]
    container = framework.container or "c"
    roles = {leader: role(container, replicas), "Worker": role(container, 2)}
    job = {"metadata": {"name": "j"}, "spec": {framework.replica_map: roles}}
    wrong = [] if is_fine else [f"spec.{framework.replica_map}[{leader}].replicas"]
    assert [cause.field for cause in trainingjobs.validate(framework, job)] == wrong


@pytest.mark.parametrize("spec", [{}, {"template": {}}, {"template": {"spec": {}}}])
def test_a_runtime_without_steps_is_fine(spec: Json) -> None:
    assert trainjobs.of_runtime({"spec": spec}) == []
    assert trainjobs.of_job({"spec": {"runtimeRef": {"name": "r"}}}, {"spec": spec}) == []
