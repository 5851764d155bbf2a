"""What is wrong with an MPIJob's replicas, place by place."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api.meta import Json
from strato.api.mpioperator import with_defaults
from strato.api.validation import mpijobs


def role(replicas: int | None = None) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"template": template} | ({} if replicas is None else {"replicas": replicas})


LAUNCHER, WORKER = "spec.mpiReplicaSpecs[Launcher]", "spec.mpiReplicaSpecs[Worker]"


@pytest.mark.parametrize(
    ("roles", "wrong"),
    [
        pytest.param({"Launcher": role(), "Worker": role(2)}, [], id="launcher and workers"),
        pytest.param({"Launcher": role(1)}, [], id="a launcher alone"),
        pytest.param({"Launcher": role(1), "Worker": role(1)}, [], id="one worker"),
        pytest.param(None, ["spec.mpiReplicaSpecs"], id="nothing"),
        pytest.param({}, [LAUNCHER], id="no role"),
        pytest.param({"Worker": role(1)}, [LAUNCHER], id="no launcher"),
        pytest.param({"Launcher": role(2)}, [f"{LAUNCHER}.replicas"], id="two launchers"),
        pytest.param({"Launcher": role(0)}, [f"{LAUNCHER}.replicas"], id="a launcher of no pods"),
        pytest.param({"Launcher": role(), "Worker": role(0)}, [f"{WORKER}.replicas"], id="no workers"),
        pytest.param({"Launcher": role(), "Chief": role()}, ["spec.mpiReplicaSpecs[Chief]"], id="another role"),
    ],
)
def test_what_is_wrong_with_the_roles(roles: dict[str, Any] | None, wrong: list[str]) -> None:
    spec = with_defaults({} if roles is None else {"mpiReplicaSpecs": roles})
    assert [cause.field for cause in mpijobs.validate("j", spec)] == wrong
