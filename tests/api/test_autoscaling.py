"""Rules, defaults and the older form of autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import autoscaling

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "annotations": {"mine": "1"}},
        "spec": {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, **spec},
    }


def metric(kind: str = "Resource", **source: Any) -> dict[str, Any]:
    member = kind[0].lower() + kind[1:]
    target = {"type": "Utilization", "averageUtilization": 50}
    return {"type": kind, member: {"name": "cpu", "target": target, **source}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"minReplicas": 4}, "spec.maxReplicas"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"scaleTargetRef": {"kind": "x"}}, "spec.scaleTargetRef.name"),
        ({"scaleTargetRef": {**TARGET, "name": "a/b"}}, "spec.scaleTargetRef.name"),
        ({"scaleTargetRef": {**TARGET, "name": ".."}}, "spec.scaleTargetRef.name"),
        ({"metrics": [{"type": "Odd"}]}, "spec.metrics[0].type"),
        ({"metrics": [{"type": "Resource"}]}, "spec.metrics[0].resource"),
        ({"metrics": [metric("ContainerResource")]}, "spec.metrics[0].containerResource.container"),
        (
            {"metrics": [metric(target={"type": "Value", "value": "1"})]},
            "spec.metrics[0].resource.target.averageUtilization",
        ),
        (
            {"metrics": [metric(target={"type": "AverageValue", "averageValue": "-1"})]},
            "spec.metrics[0].resource.target.averageValue",
        ),
        ({"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies"),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9999}]}}},
            "spec.behavior.scaleUp.policies[0].periodSeconds",
        ),
    ],
)
def test_an_autoscaler_is_checked(spec: dict[str, Any], field: str) -> None:
    assert field in [cause.field for cause in autoscaling.validate(autoscaler(**spec))]


def test_defaults_are_kubernetes_own() -> None:
    obj = autoscaler(minReplicas=None, behavior={"scaleDown": {"selectPolicy": "Min"}})
    autoscaling.default(obj)
    assert not autoscaling.validate(obj)
    assert obj["spec"]["metrics"] == [autoscaling.cpu_metric(80)]
    assert obj["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert obj["spec"]["behavior"]["scaleDown"]["selectPolicy"] == "Min"


def test_the_older_form_keeps_what_it_has_no_members_for() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}}
    full = autoscaler(
        metrics=[metric("ContainerResource", container="c"), autoscaling.cpu_metric(40)], behavior=behavior
    )
    full["status"] = {"currentReplicas": 1, "desiredReplicas": 2, "conditions": [{"type": "AbleToScale"}]}
    shown = autoscaling.show_v1(full)
    assert shown["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 40,
    }
    assert autoscaling.read_v1(shown) == full


@pytest.mark.parametrize("text", ["{", "7", '"x"', "[1]", "null"])
def test_what_stands_in_an_annotation_need_not_make_sense(text: str) -> None:
    shown = autoscaler(targetCPUUtilizationPercentage=40)
    shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = text
    autoscaling.read_v1(shown)
