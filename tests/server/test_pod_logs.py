"""Why a container has no log yet, in the words of a kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from strato.server.rest.logs import why_waiting

TERMINATED = {"terminated": {"exitCode": 1}}


def of(state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": state, "lastState": last or {}}]}


CASES = [
    pytest.param({}, {}, "ContainerCreating", id="just bound"),
    pytest.param({"initContainers": [{"name": "i"}]}, {}, "PodInitializing", id="just bound, others come first"),
    pytest.param({}, {"phase": "Failed"}, "", id="a pod that was refused never runs"),
    pytest.param({}, of({"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating", id="being made"),
    pytest.param({}, of({"waiting": {"reason": "ErrImageNeverPull"}}), "ErrImageNeverPull", id="without an image"),
    pytest.param({}, of({"waiting": {"reason": "ErrImagePull"}}), "image can't be pulled", id="an image that fails"),
    pytest.param({}, of({"waiting": {"reason": "CrashLoopBackOff"}}, TERMINATED), "", id="it ran before"),
    pytest.param({}, of({"running": {}}), "", id="it runs"),
    pytest.param({}, of(TERMINATED), "", id="it ran"),
    pytest.param({}, of({}), "ContainerCreating", id="a status that says nothing"),
]


@pytest.mark.parametrize(("spec", "status", "why"), CASES)
def test_why_a_container_waits(spec: dict[str, Any], status: dict[str, Any], why: str) -> None:
    assert why_waiting({"spec": spec, "status": status}, "main") == why
