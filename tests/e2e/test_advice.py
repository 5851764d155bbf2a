"""What a job uses is recorded and advised on, and a vertical autoscaler gets its recommendation, on this machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]

BUSY = "end=$(( $(date +%s) + 130 )); while [ $(date +%s) -lt $end ]; do :; done"


def busy_job(namespace: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "strato/host",
        "command": ["sh", "-c", BUSY],
        "resources": {"requests": {"cpu": "900m", "memory": "512Mi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "burn-20260801", "namespace": namespace},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "tasks": [{"name": "worker", "replicas": 1, "template": template}],
        },
    }


def autoscaler(namespace: str) -> dict[str, Any]:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "burn-20260801"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "burn", "namespace": namespace},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}},
    }


def test_use_becomes_advice_a_report_and_a_recommendation(world: World, namespace: str) -> None:
    world.apply(busy_job(namespace))
    world.apply(autoscaler(namespace))

    def recommended() -> list[Any]:
        status = world.get("vpa", "burn", "-n", namespace).get("status") or {}
        return (status.get("recommendation") or {}).get("containerRecommendations") or []

    (one,) = eventually(recommended, timeout=300, what="the autoscaler has a recommendation")
    assert one["containerName"] == "main"
    assert set(one["target"]) == {"cpu", "memory"}
    eventually(
        lambda: world.job_phase("burn-20260801", namespace) == "Completed", timeout=400, what="the job completed"
    )

    def advised() -> list[Any]:
        items: list[Any] = json.loads(world.strato("advise", "-n", namespace, "-o", "json"))["items"]
        return [item for item in items if item["template"] == "burn" and item["requests"]["cpu"] == "900m"]

    (advice,) = eventually(advised, what="advice is printed")
    assert (advice["role"], advice["runs"], advice["lowConfidence"]) == ("worker", 1, True)
    assert "burn" in world.strato("advise", "-n", namespace)
    (report,) = json.loads(world.strato("report", "-o", "json"))["items"]
    assert report["runs"] >= 1
    assert report["meanRunSeconds"] >= 100
