"""What the kernel holds pods and containers to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import PodSpec
from strato.api.defaults import dict_qos_class
from strato.api.pods import qos_class
from strato.node.sandbox.podlimits import container_limits, inherits, pod_limits

Amounts = dict[str, str]
NOTHING: Amounts = {}


def container(requests: Amounts, limits: Amounts, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def spec(*containers: dict[str, Any], **more: Any) -> PodSpec:
    return msgspec.convert({"containers": list(containers), **more}, PodSpec)


BOTH = {"cpu": "100m", "memory": "1Mi"}
SIDECAR = container(BOTH, BOTH, restartPolicy="Always")
BEFORE = container({"cpu": "1"}, {"cpu": "1", "memory": "8Mi"})
WHOLE = {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "9Mi"}}
MIB = 1 << 20

PODS = [
    pytest.param(spec(container(BOTH, BOTH), container(BOTH, BOTH)), (200, 200, 2 * MIB), id="sums"),
    pytest.param(
        spec(container(BOTH, BOTH), container(BOTH, {"cpu": "1"})), (1100, 200, 0), id="no sum where one has no limit"
    ),
    pytest.param(spec(container(BOTH, NOTHING)), (0, 100, 0), id="no limits"),
    pytest.param(spec(container(NOTHING, NOTHING)), (0, 0, 0), id="nothing at all"),
    pytest.param(
        spec(container(BOTH, BOTH), initContainers=[SIDECAR]), (200, 200, 2 * MIB), id="sidecars run beside the others"
    ),
    pytest.param(
        spec(container(BOTH, BOTH), initContainers=[BEFORE]), (1000, 1000, 8 * MIB), id="what comes first may be more"
    ),
    pytest.param(spec(container(BOTH, BOTH), resources=WHOLE), (3000, 2000, 9 * MIB), id="the pod's own"),
    pytest.param(
        spec(container(NOTHING, NOTHING), resources={"limits": {"memory": "9Mi"}, "requests": {"memory": "9Mi"}}),
        (0, 0, 9 * MIB),
        id="the pod's own for one of them",
    ),
    pytest.param(
        spec(container(BOTH, BOTH), overhead={"cpu": "1", "memory": "1Mi"}), (1100, 1100, 2 * MIB), id="overhead"
    ),
]
"""Spec; millicores at most, millicores asked for, and bytes at most."""


@pytest.mark.parametrize(("pod", "want"), PODS)
def test_a_pod_is_held_to_what_it_has_as_a_whole(pod: PodSpec, want: tuple[int, int, int]) -> None:
    found = pod_limits(pod)
    assert (found.cpu_millicores, found.cpu_request_millicores, found.memory_bytes) == want
    assert found.is_pod
    assert found.processes > 0


def test_a_container_without_a_limit_has_the_pods() -> None:
    pod = spec(container({"cpu": "1"}, {"memory": "2Mi"}), resources=WHOLE)
    (only,) = pod.containers
    found = container_limits(pod, only)
    assert (found.cpu_millicores, found.cpu_request_millicores, found.memory_bytes) == (3000, 1000, 2 * MIB)
    assert inherits(pod, only)
    alone = spec(container({"cpu": "1"}, {"memory": "2Mi"}))
    assert container_limits(alone, only).cpu_millicores == 0
    assert not inherits(alone, only)
    assert not inherits(
        spec(container(BOTH, BOTH), resources=WHOLE), msgspec.convert(container(BOTH, BOTH), type(only))
    )


CLASSES = [
    pytest.param({"limits": BOTH}, "Guaranteed", id="as much of both as it may have"),
    pytest.param({"limits": BOTH, "requests": {**BOTH, "cpu": "50m"}}, "Burstable", id="less"),
    pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="one of them"),
    pytest.param({}, "BestEffort", id="neither"),
]


@pytest.mark.parametrize(("resources", "want"), CLASSES)
def test_the_class_of_a_pod_is_that_of_its_own_resources(resources: dict[str, Any], want: str) -> None:
    """Those of its containers do not count where there are any."""
    containers = [container(BOTH, NOTHING)] if want == "Guaranteed" else [container(NOTHING, NOTHING)]
    written = {"containers": containers, "resources": resources}
    assert dict_qos_class(written) == want
    assert qos_class(msgspec.convert(written, PodSpec)) == want
