"""Views, defaults, rules and the older form of HorizontalPodAutoscalers.

Source: autoscaling/v2 and v1 of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from strato.api import names
from strato.api.meta import Condition, Json, Object, View
from strato.api.quantity import InvalidQuantity, parse
from strato.api.shapes import LabelSelector
from strato.api.status import forbidden_field, invalid_value, not_supported, required
from strato.decoding import UNDECODABLE
from strato.errors import Cause


class MetricTarget(View, frozen=True, kw_only=True):
    """The target value of a metric."""

    type: str = ""
    average_utilization: int | None = None
    """Average use in percent of the pods' requests."""
    average_value: str | None = None
    value: str | None = None


class MetricIdentifier(View, frozen=True, kw_only=True):
    """Name of a metric."""

    name: str = ""
    selector: LabelSelector | None = None


class MetricSource(View, frozen=True, kw_only=True):
    """A metric of one of the types; members that the type does not have are empty."""

    name: str = ""
    """Name of the resource, for the types Resource and ContainerResource."""
    container: str = ""
    target: MetricTarget = MetricTarget()
    metric: MetricIdentifier = MetricIdentifier()


class MetricSpec(View, frozen=True, kw_only=True):
    """One metric to scale by."""

    type: str = ""
    resource: MetricSource | None = None
    container_resource: MetricSource | None = None
    pods: MetricSource | None = None
    object: MetricSource | None = None
    external: MetricSource | None = None


class ScalingPolicy(View, frozen=True, kw_only=True):
    """How much the number of replicas may change within a period."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class ScalingRules(View, frozen=True, kw_only=True):
    """Stabilisation window and policies of scaling in one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: str | None = None


class Behavior(View, frozen=True, kw_only=True):
    """The rules of both directions; defaulting fills in missing members."""

    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


class ScaleTarget(View, frozen=True, kw_only=True):
    """Reference to the scaled workload."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: Behavior | None = None


class HorizontalPodAutoscalerStatus(View, frozen=True, kw_only=True):
    """``status``."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    """Scales a workload by what its pods use."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


_SOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
"""Types of metrics and the member that describes each."""
_TARGETS: Final = {"Utilization": "averageUtilization", "Value": "value", "AverageValue": "averageValue"}
_DEFAULT_PERCENT: Final = 80
_MOST_WINDOW_SECONDS, _MOST_PERIOD_SECONDS = 3600, 1800


def cpu_metric(percent: int) -> Json:
    """Return the metric for an average CPU use in percent of the pods' requests."""
    return {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    }


def default(obj: Json) -> None:
    """Set the defaults of an autoscaler, in place."""
    if obj.get("status"):
        obj["status"].setdefault("currentMetrics", None)  # written also where there are none
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_metric(_DEFAULT_PERCENT)]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    halving = {"type": "Percent", "value": 100, "periodSeconds": 15}
    for name, rules in (
        ("scaleUp", {"stabilizationWindowSeconds": 0, "policies": [{**halving, "type": "Pods", "value": 4}, halving]}),
        ("scaleDown", {"policies": [halving]}),
    ):
        given = {member: value for member, value in (behavior.get(name) or {}).items() if value is not None}
        behavior[name] = {**rules, "selectPolicy": "Max", **given}


def validate(obj: Json) -> list[Cause]:
    """Check an autoscaler."""
    return list(_problems(obj.get("spec") or {}))


def _problems(spec: Json) -> Iterator[Cause]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for member in ("kind", "name"):
        if not target.get(member):
            yield required(f"spec.scaleTargetRef.{member}")
            continue
        for text in names.check_path_segment(target[member]):
            yield invalid_value(f"spec.scaleTargetRef.{member}", target[member], text)
    version = target.get("apiVersion") or ""
    if problem := _version_problem(version, target.get("kind")):
        yield invalid_value("spec.scaleTargetRef.apiVersion", version, problem)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_problems(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(one.get("type") in ("Object", "External") for one in spec.get("metrics") or ()):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field("spec.metrics", text)
    for name, rules in (spec.get("behavior") or {}).items():
        yield from _rule_problems(rules or {}, f"spec.behavior.{name}")


def _version_problem(version: str, kind: str | None) -> str:
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if not version.partition("/")[0] or ("/" not in version and (version, kind) != ("v1", "ReplicationController")):
        return "apiVersion must specify API group"
    return ""


def _metric_problems(metric: Json, field: str) -> Iterator[Cause]:
    type_ = metric.get("type") or ""
    if type_ not in _SOURCES:
        yield not_supported(f"{field}.type", type_, tuple(_SOURCES)) if type_ else required(f"{field}.type")
        return
    member = _SOURCES[type_]
    source, field = metric.get(member), f"{field}.{member}"
    if not source:
        yield required(field, "must populate information for the given metric source")
        return
    is_resource = type_ in ("Resource", "ContainerResource")
    named = ["name", *(["container"] if type_ == "ContainerResource" else [])] if is_resource else []
    for name in named:
        if not source.get(name):
            yield required(f"{field}.{name}")
    if not is_resource and not (source.get("metric") or {}).get("name"):
        yield required(f"{field}.metric.name")
    target = source.get("target") or {}
    allowed: tuple[str, ...] = ("Utilization", "AverageValue") if is_resource else ("AverageValue", "Value")
    allowed = ("AverageValue",) if type_ == "Pods" else allowed
    wanted = target.get("type") or ""
    if wanted not in _TARGETS:
        yield not_supported(f"{field}.target.type", wanted, tuple(_TARGETS))
    given = [name for name in _TARGETS.values() if target.get(name) is not None]
    for name in given:
        amount = target[name]
        try:
            fits = amount > 0 if name == "averageUtilization" else parse(amount).nanos > 0
        except InvalidQuantity:
            fits = False
        if not fits:
            yield invalid_value(f"{field}.target.{name}", amount, "must be greater than 0")
    accepted = [_TARGETS[name] for name in allowed]
    if not any(name in accepted for name in given):
        yield required(f"{field}.target.{accepted[0]}", f"must set {' or '.join(accepted)}")
    if len(given) > 1:
        yield invalid_value(f"{field}.target", given, "may not set more than one target")


def _rule_problems(rules: Json, field: str) -> Iterator[Cause]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _MOST_WINDOW_SECONDS:
        text = f"must be between 0 and {_MOST_WINDOW_SECONDS}"
        yield invalid_value(f"{field}.stabilizationWindowSeconds", window, text)
    if rules.get("selectPolicy") not in (None, "Max", "Min", "Disabled"):
        yield not_supported(f"{field}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        yield required(f"{field}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        place = f"{field}.policies[{index}]"
        if policy.get("type") not in ("Pods", "Percent"):
            yield not_supported(f"{place}.type", policy.get("type") or "", ("Percent", "Pods"))
        for member, most in (("value", 2**31 - 1), ("periodSeconds", _MOST_PERIOD_SECONDS)):
            number = policy.get(member) or 0
            if not 0 < number <= most:
                yield invalid_value(f"{place}.{member}", number, f"must be between 1 and {most}")


# ── autoscaling/v1 ────────────────────────────────────────────────────────────────────────────────────────────────

_NOTES: Final = "autoscaling.alpha.kubernetes.io/"
_NOTED: Final = {"metrics": "spec", "behavior": "spec", "conditions": "status", "current-metrics": "status"}
"""Annotation of the v1 form for each member of v2 that v1 lacks → where that member is."""


def show_v1(obj: Json) -> Json:
    """Return an autoscaler in the form of autoscaling/v1."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics, current = list(spec.pop("metrics", ())), list(status.pop("currentMetrics", None) or ())
    percent = next((found for one in metrics if (found := _cpu_percent(one, "target")) is not None), None)
    used = next((found for one in current if (found := _cpu_percent(one, "current")) is not None), None)
    if percent is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    if used is not None:
        status["currentCPUUtilizationPercentage"] = used
    rest = {
        "metrics": [one for one in metrics if _cpu_percent(one, "target") is None],
        "behavior": spec.pop("behavior", None),
        "conditions": status.pop("conditions", None),
        "current-metrics": [one for one in current if _cpu_percent(one, "current") is None],
    }
    notes = {f"{_NOTES}{name}": msgspec.json.encode(value).decode() for name, value in rest.items() if value}
    metadata = obj["metadata"]
    if notes:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **notes}}
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def read_v1(obj: Json) -> Json:
    """Return the stored form of an autoscaler written as autoscaling/v1; drops annotations that cannot be decoded."""
    metadata, spec, status = dict(obj["metadata"]), dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    notes = dict(metadata.get("annotations") or {})
    parts = {"spec": spec, "status": status}
    for name, part in _NOTED.items():
        text = notes.pop(f"{_NOTES}{name}", None)
        try:
            value = msgspec.json.decode(text) if isinstance(text, str) else None
        except UNDECODABLE:
            continue
        if value:
            parts[part]["currentMetrics" if name == "current-metrics" else name] = value
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None and isinstance(spec.get("metrics", []), list):
        spec["metrics"] = [*spec.get("metrics", ()), cpu_metric(percent)]
    status.pop("currentCPUUtilizationPercentage", None)
    if "annotations" in metadata:
        metadata["annotations"] = notes
    return {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec, "status": status}


def _cpu_percent(metric: Any, member: str) -> int | None:
    """Return the CPU percentage of a metric; None if the metric is not about the CPU of pods."""
    source = metric.get("resource") if isinstance(metric, dict) and metric.get("type") == "Resource" else None
    if not source or source.get("name") != "cpu":
        return None
    percent: int | None = (source.get(member) or {}).get("averageUtilization")
    return percent
