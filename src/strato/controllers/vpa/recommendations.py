"""The status of an autoscaler, and the resizes of running pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from strato.advice.estimators import RESOURCES, Amounts, Estimate, to_resources, whole_cores
from strato.api.core import Pod, ResourceRequirements
from strato.api.quantity import InvalidQuantity, milli, parse, value
from strato.api.recommended import follow
from strato.api.verticalautoscaling import (
    INTEGER_CPU,
    ContainerPolicy,
    ContainerRecommendation,
    VerticalPodAutoscaler,
)
from strato.clock import format_time

IN_PLACE: Final = ("InPlace", "InPlaceOrRecreate")
_ONLY_SAYS: Final = ("Off", "Initial")
Json = dict[str, Any]


def recommend(autoscaler: VerticalPodAutoscaler, estimates: Mapping[str, Estimate]) -> list[Json]:
    """Return the recommendations of the containers, bounded by their policies, in the order of their names."""
    found = []
    for name in sorted(estimates):
        policy = autoscaler.spec.resource_policy.of(name)
        if policy.mode == "Off":
            continue
        whole = autoscaler.metadata.annotation(INTEGER_CPU.format(name)) == "true"
        target, lower, upper = (_whole(one) if whole else one for one in estimates[name])
        controlled = policy.controlled_resources if policy.controlled_resources is not None else RESOURCES
        found.append(
            {
                "containerName": name,
                "target": to_resources(_capped(target, policy), controlled),
                "lowerBound": to_resources(_capped(lower, policy), controlled),
                "upperBound": to_resources(_capped(upper, policy), controlled),
                "uncappedTarget": to_resources(target, controlled),
            }
        )
    return found


def _whole(amounts: Amounts) -> Amounts:
    return Amounts(whole_cores(amounts.cpu_millicores), amounts.memory_bytes)


def _capped(amounts: Amounts, policy: ContainerPolicy) -> Amounts:
    least, most = policy.min_allowed, policy.max_allowed
    cpu, memory = amounts
    cpu = max(cpu, _known(least, "cpu", 0))
    memory = max(memory, _known(least, "memory", 0))
    return Amounts(min(cpu, _known(most, "cpu", cpu)), min(memory, _known(most, "memory", memory)))


def _known(bounds: Mapping[str, str | int | float], name: str, otherwise: int) -> int:
    try:
        return (milli if name == "cpu" else value)(bounds[name]) if name in bounds else otherwise
    except InvalidQuantity:
        return otherwise


def status_of(autoscaler: VerticalPodAutoscaler, recommended: list[Json], *, has_pods: bool, now: float) -> Json:
    """Return the status; without new recommendations it keeps the previous ones."""
    conditions = {"RecommendationProvided": (bool(recommended), "", "")}
    if not has_pods:
        conditions["NoPodsMatched"] = (True, "NoPodsMatched", "No pods match this VPA object")
    mode = autoscaler.spec.update_policy.update_mode
    if mode not in (*IN_PLACE, *_ONLY_SAYS):
        text = f"updateMode {mode}: only new pods are changed, none is evicted; InPlace resizes running ones"
        conditions["ConfigUnsupported"] = (True, "UpdateMode", text)
    before = {one.type: one for one in autoscaler.status.conditions}
    body: Json = {"observedGeneration": autoscaler.metadata.generation, "conditions": []}
    for name, (holds, reason, message) in conditions.items():
        status = "True" if holds else "False"
        known = before.get(name)
        since = known.last_transition_time if known is not None and known.status == status else None
        entry = {"type": name, "status": status, "lastTransitionTime": since or format_time(now)}
        texts = {"reason": reason, "message": message}
        body["conditions"].append({**entry, **{member: text for member, text in texts.items() if text}})
    if recommended:
        body["recommendation"] = {"containerRecommendations": recommended}
    return body


def resize_of(pod: Pod, autoscaler: VerticalPodAutoscaler, wanted: Iterable[ContainerRecommendation]) -> Json | None:
    """Return the patch that resizes a running pod to its targets; None while its requests are within their bounds.

    Limits change in proportion to their requests, unless the policy allows only requests to change.
    """
    known = {container.name: container.resources for container in pod.spec.containers}
    containers = []
    for one in wanted:
        resources = known.get(one.container_name)
        if resources is None or not any(_is_outside(resources, one, name) for name in one.target):
            continue
        policy = autoscaler.spec.resource_policy.of(one.container_name)
        done = follow(resources, one.target, policy)
        changed = {"requests": done.requests, **({"limits": done.limits} if done.limits else {})}
        containers.append({"name": one.container_name, "resources": changed})
    return {"spec": {"containers": containers}} if containers else None


def _is_outside(resources: ResourceRequirements, one: ContainerRecommendation, name: str) -> bool:
    request = parse(resources.requests.get(name, 0))
    lower, upper = (parse(bounds.get(name, one.target[name])) for bounds in (one.lower_bound, one.upper_bound))
    return request < lower or upper < request
