"""Horizontal autoscaling: the decisions, and the controller over the embedded server's metrics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.autoscaling import (
    Behavior,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricTarget,
    ScalingPolicy,
    ScalingRules,
)
from strato.api.core import Pod, PodSpec
from strato.api.core.container import Container, ResourceRequirements
from strato.api.core.pod import PodStatus
from strato.api.meta import Condition, ObjectMeta
from strato.clock import format_time
from strato.controllers.kube.scaling import History, Proposal, Tolerances, Unknown, UsageSample, normalise, propose
from tests.controllers.world import World, play

NOW = 1_700_000_000.0


def pod(
    name: str, phase: str = "Running", request: str = "1", *, started: float = NOW - 3600, ready: bool = True
) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": request} if request else {}))
    since = format_time(started + 1)
    condition = Condition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    status = PodStatus(phase=phase, start_time=format_time(started), conditions=(condition,))
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,)), status=status)


def used(*millicores: int | None) -> dict[str, UsageSample]:
    return {f"p{i}": UsageSample(m, NOW, 15.0) for i, m in enumerate(millicores) if m is not None}


HALF = MetricTarget(type="Utilization", average_utilization=50)
CASES = [
    ("twice the target", [pod("p0"), pod("p1")], used(1000, 1000), 4),
    ("within the tolerance", [pod("p0"), pod("p1")], used(540, 540), 2),
    ("just outside of it", [pod("p0"), pod("p1")], used(560, 560), 3),
    ("half the target", [pod("p0"), pod("p1")], used(250, 250), 1),
    ("without a sample, more are needed", [pod("p0"), pod("p1")], used(2000, None), 4),
    ("without a sample, fewer would do", [pod("p0"), pod("p1")], used(100, None), 2),
    ("a pending pod counts for nothing", [pod("p0"), pod("p1", "Pending")], used(1500, None), 3),
    ("a pending pod is ignored on the way down", [pod("p0"), pod("p1"), pod("p2", "Pending")], used(200, 200), 1),
    ("a failed pod is ignored", [pod("p0"), pod("p1", "Failed")], used(1000, 1000), 2),
    ("one that starts counts for nothing", [pod("p0"), pod("p1", started=NOW - 5)], used(1500, 4000), 3),
    ("one that was never ready is ignored", [pod("p0"), pod("p1", ready=False)], used(200, 4000), 1),
]


@pytest.mark.parametrize(("pods", "samples", "replicas"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_pods_use_decides_how_many_there_shall_be(
    pods: list[Pod], samples: dict[str, UsageSample], replicas: int
) -> None:
    assert propose(HALF, "cpu", "", pods, samples, len(pods), Tolerances(), NOW).replicas == replicas


def test_an_average_value_needs_no_requests() -> None:
    target = MetricTarget(type="AverageValue", average_value="100m")
    pods = [pod("p0", request=""), pod("p1", request="")]
    assert propose(target, "cpu", "", pods, used(300, 100), 2, Tolerances(), NOW) == Proposal(4, 200)


@pytest.mark.parametrize(
    ("pods", "samples", "container", "says"),
    [
        ([], used(1), "", "no pods returned by selector"),
        ([pod("p0", "Pending")], used(1), "", "did not receive metrics for targeted pods"),
        ([pod("p0", request="")], used(1), "", "missing request for cpu in container c of Pod p0"),
        ([pod("p0")], used(1), "other", "container other not found in Pod p0"),
    ],
)
def test_what_cannot_be_known_is_said(
    pods: list[Pod], samples: dict[str, UsageSample], container: str, says: str
) -> None:
    with pytest.raises(Unknown, match=says):
        propose(HALF, "cpu", container, pods, samples, 1, Tolerances(), NOW)


POLICIES = (
    ScalingPolicy(type="Pods", value=2, period_seconds=60),
    ScalingPolicy(type="Percent", value=50, period_seconds=60),
)


def rules(select: str = "Max", window: int | None = 0) -> ScalingRules:
    return ScalingRules(select_policy=select, policies=POLICIES, stabilization_window_seconds=window)


def spec(up: ScalingRules | None = None, down: ScalingRules | None = None) -> HorizontalPodAutoscalerSpec:
    behavior = Behavior(scale_up=up or rules(), scale_down=down or rules()) if up or down else None
    return HorizontalPodAutoscalerSpec(min_replicas=1, max_replicas=20, behavior=behavior)


@pytest.mark.parametrize(
    ("wanted", "current", "desired", "replicas", "reason"),
    [
        pytest.param(spec(), 2, 10, 4, "ScaleUpLimit", id="at most twice, or four"),
        pytest.param(spec(), 15, 90, 20, "TooManyReplicas", id="the most there may be"),
        pytest.param(spec(), 5, 0, 1, "TooFewReplicas", id="the least"),
        pytest.param(spec(), 5, 4, 4, "DesiredWithinRange", id="within the bounds"),
        pytest.param(spec(up=rules()), 10, 20, 15, "ScaleUpLimit", id="the policy that allows most"),
        pytest.param(spec(up=rules("Min")), 10, 20, 12, "ScaleUpLimit", id="the policy that allows least"),
        pytest.param(spec(up=rules("Disabled")), 10, 20, 10, "ScaleUpLimit", id="no way up"),
        pytest.param(spec(down=rules()), 10, 1, 5, "ScaleDownLimit", id="down as fast as allowed"),
        pytest.param(spec(down=rules("Min")), 10, 1, 8, "ScaleDownLimit", id="down as slowly"),
        pytest.param(spec(down=rules("Disabled")), 10, 1, 10, "ScaleDownLimit", id="no way down"),
    ],
)
def test_policies_and_bounds_hold_back(
    wanted: HorizontalPodAutoscalerSpec, current: int, desired: int, replicas: int, reason: str
) -> None:
    found = normalise(wanted, History(), current, desired, NOW)
    assert (found.replicas, found.limited[0]) == (replicas, reason)


def test_the_highest_recommendation_of_a_window_stands() -> None:
    history = History()
    assert normalise(spec(), history, 5, 8, NOW).replicas == 8
    found = normalise(spec(), history, 8, 2, NOW + 200)
    assert (found.replicas, found.able[0]) == (8, "ScaleDownStabilized")
    assert normalise(spec(), history, 8, 2, NOW + 301).replicas == 2


def test_a_policy_counts_what_was_changed_in_its_period() -> None:
    history = History()
    history.note(NOW - 30, 8, 10)
    assert normalise(spec(up=rules("Min")), history, 10, 20, NOW).replicas == 10
    assert normalise(spec(up=rules("Min")), history, 10, 20, NOW + 31).replicas == 12


@given(
    st.integers(1, 20), st.integers(0, 50), st.lists(st.integers(0, 50), max_size=5), st.sampled_from(["Max", "Min"])
)
def test_no_decision_leaves_the_bounds_or_goes_the_other_way(
    current: int, desired: int, before: list[int], select: str
) -> None:
    for wanted in (spec(), spec(up=rules(select, 60), down=rules(select, 120))):
        history = History([(NOW - 10 * n, count) for n, count in enumerate(before, 1)])
        replicas = normalise(wanted, history, current, desired, NOW).replicas
        assert 1 <= replicas <= 20
        seen = [desired, current, *before]
        assert min([1, *seen]) <= replicas <= max([1, *seen])


def test_the_controller_scales_what_its_pods_use() -> None:
    async def scenario(world: World) -> None:
        labels = {"node.kubernetes.io/instance-type": "hollow"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
        await world.cluster.create(catalog.NODE, node)
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
        template: dict[str, Any] = {
            "metadata": {"labels": {"app": "a"}, "annotations": {"strato.dev/usage-ratio": "1.0"}},
            "spec": {"containers": [container]},
        }
        workload = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template},
        }
        await world.cluster.create(catalog.DEPLOYMENT, workload, "default")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 40},
        }
        made = await world.cluster.create(catalog.HORIZONTALPODAUTOSCALER_V1, body, "default")
        assert made["spec"]["targetCPUUtilizationPercentage"] == 40

        async def reasons() -> dict[str, str]:
            found = await world.cluster.get(HorizontalPodAutoscaler, "h", "default")
            return {one.type: one.reason for one in found.status.conditions}

        async def is_scaled() -> bool:
            return (await world.cluster.get(catalog.DEPLOYMENT, "d", "default"))["spec"]["replicas"] == 3

        await world.until(is_scaled, 900)
        assert (await reasons())["ScalingActive"] == "ValidMetricFound"
        stored = await world.cluster.get(catalog.HORIZONTALPODAUTOSCALER, "h", "default")
        assert stored["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 100
        await world.cluster.patch(
            catalog.HORIZONTALPODAUTOSCALER,
            "h",
            "default",
            {
                "spec": {
                    "metrics": [
                        {
                            "type": "Pods",
                            "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
                        }
                    ]
                }
            },
        )
        await world.settle(30)
        assert (await reasons())["ScalingActive"] == "FailedGetPodsMetric"
        await world.cluster.delete(catalog.DEPLOYMENT, "d", "default")
        await world.settle(30)
        assert (await reasons())["AbleToScale"] == "FailedGetScale"

    names = ("deployment", "replicaset", "horizontal-pod-autoscaler")
    play(scenario, enabled=tuple(f"kube-{name}-controller" for name in names))
