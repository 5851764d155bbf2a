"""Pods that ask for lent resources: admitted with requests below limits, placed by what is lent, counted once."""

from __future__ import annotations

from typing import Any

from strato.api import catalog
from strato.api.core import Container, PodSpec, ResourceRequirements
from strato.api.usage import pod_usage
from strato.testing.harness import Harness

CPU = "kubernetes.io/batch-cpu"


def borrower(name: str, request: int, limit: int) -> dict[str, Any]:
    resources = {"requests": {CPU: str(request)}, "limits": {CPU: str(limit)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"volcano.sh/qos-level": "BE"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "i", "resources": resources}]},
    }


async def test_borrowers_are_placed_by_what_is_lent() -> None:
    async with Harness(nodes="1x4cpu,8Gi") as harness:
        node = next(iter((await harness.cluster.list(catalog.NODE)).items))["metadata"]["name"]
        await harness.cluster.create(catalog.POD, borrower("first", 800, 1200), "default")
        amounts = {"capacity": {CPU: "1000"}, "allocatable": {CPU: "1000"}}
        await harness.cluster.patch(catalog.NODE, node, "", {"status": amounts}, subresource="status")
        await harness.eventually(lambda: harness.pod("first").status.phase == "Running")
        await harness.cluster.create(catalog.POD, borrower("second", 800, 800), "default")
        await harness.cluster.create(catalog.POD, borrower("third", 200, 200), "default")
        await harness.eventually(lambda: harness.pod("third").status.phase == "Running")
        assert not harness.pod("second").spec.node_name
        assert harness.pod("first").status.qos_class in ("BestEffort", "")


def test_what_is_lent_is_not_charged_a_second_time() -> None:
    """Volcano's form for quotas (``requests.…``) would ask the queue for a resource that no node has."""
    amounts = ResourceRequirements(requests={CPU: "800", "nvidia.com/gpu": "1"})
    found = pod_usage(PodSpec(containers=(Container(name="main", resources=amounts),)))
    assert {name for name in found if "/" in name} == {
        CPU, "count/pods", "nvidia.com/gpu", "requests.nvidia.com/gpu"
    }  # fmt: skip
