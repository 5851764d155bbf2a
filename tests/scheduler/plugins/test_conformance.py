"""conformance: pods that the cluster needs are no victims."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking

PODS: list[Any] = [
    pytest.param({}, False, id="a pod"),
    pytest.param({"priorityClassName": "high"}, False, id="an important pod"),
    pytest.param({"priorityClassName": "system-cluster-critical"}, True, id="the cluster needs it"),
    pytest.param({"priorityClassName": "system-node-critical"}, True, id="its node needs it"),
    pytest.param({"namespace": "kube-system"}, True, id="a pod of the system's namespace"),
]


@pytest.mark.parametrize(("spec", "spared"), PODS)
def test_critical_pods_are_spared(spec: dict[str, Any], spared: bool) -> None:
    victim = worlds.pod("v", phase="Running", nodeName="n", **spec)
    ssn = asking.session(worlds.world(worlds.node("n"), worlds.queue(), victim, worlds.pod("p")), "conformance")
    waiting, candidates = asking.task(ssn, "p"), [asking.task(ssn, "v", spec.get("namespace", "ns"))]
    assert (ssn.preemptable(waiting, candidates) == []) is spared
    assert (ssn.reclaimable(waiting, candidates) == []) is spared
