"""How many replicas an autoscaler wants: the decisions of HorizontalPodAutoscalers, without a client or a clock.

Amounts are in thousandths (millicores, thousandths of a byte), as in Kubernetes. A metric without a usable value
raises `Unknown`, whose text becomes a condition.

Source: ``pkg/controller/podautoscaler`` of Kubernetes 1.36 (``replica_calculator.go``, ``horizontal.go``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strato.api.autoscaling import Behavior, HorizontalPodAutoscalerSpec, MetricTarget, ScalingPolicy, ScalingRules
from strato.api.core import Pod
from strato.api.quantity import milli
from strato.clock import parse_time

TOLERANCE: Final = 0.1
DOWN_WINDOW_SECONDS: Final = 300.0
_STARTING_SECONDS: Final = 300.0
"""For this long after its start a pod's CPU use counts only if the pod was ready during the whole sample window."""
_READINESS_DELAY_SECONDS: Final = 30.0
_MOST: Final = 2**31 - 1


class Unknown(Exception):
    """A metric has no usable value."""


class UsageSample(NamedTuple):
    """The measured use of one resource by a pod."""

    value: int
    at: float
    window_seconds: float


class Tolerances(NamedTuple):
    """How far the ratio of the present value to the target may differ from 1 without any scaling."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def hold(self, ratio: float) -> bool:
        """Return whether the ratio is within the tolerances."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """What one metric proposes."""

    replicas: int
    average: int
    """Average use of the pods."""
    percent: int | None = None
    """The use of all pods in percent of their requests; None for targets that are amounts."""


def tolerances(behavior: Behavior | None) -> Tolerances:
    """Return the tolerances of an autoscaler."""
    if behavior is None:
        return Tolerances()
    found = [rules.tolerance for rules in (behavior.scale_down, behavior.scale_up)]
    return Tolerances(*(TOLERANCE if text is None else milli(text) / 1000 for text in found))


def propose(
    target: MetricTarget,
    resource: str,
    container: str,
    pods: Sequence[Pod],
    samples: Mapping[str, UsageSample],
    current: int,
    near: Tolerances,
    now: float,
) -> Proposal:
    """Return how many replicas bring the use of a resource to its target.

    Pods without a sample are assumed to weaken the change: to use all that they request (or the target) when fewer
    replicas would do, and nothing when more are needed. In the latter case pods that are not ready count as using
    nothing too.

    Raises:
        Unknown: There are no pods, no samples of ready pods, or pods without requests.
    """
    if not pods:
        raise Unknown("no pods returned by selector while calculating replica count")
    groups = _grouped(pods, samples, resource, now)
    values = {name: samples[name].value for name in groups.ready}
    if not values:
        raise Unknown("did not receive metrics for targeted pods (pods might be unready)")
    if target.average_value is not None:
        aim = milli(target.average_value)
        requests = dict.fromkeys((pod.metadata.name for pod in pods), aim)
        percent, fallback = 100, 100
    else:
        aim = 0
        requests = {pod.metadata.name: _request(pod, resource, container) for pod in pods}
        percent = target.average_utilization or 0
        fallback = max(100, percent)

    def ratio_of(used: Mapping[str, int]) -> tuple[float, int]:
        total, wanted = sum(used.values()), sum(requests[name] for name in used)
        if aim:
            return total // len(used) / aim, 0
        if not wanted:
            raise Unknown("no metrics returned matched known pods")
        return total * 100 // wanted / percent, total * 100 // wanted

    ratio, used_percent = ratio_of(values)
    answer = Proposal(current, sum(values.values()) // len(values), None if aim else used_percent)
    needs_more = ratio > 1.0
    if not groups.missing and not (needs_more and groups.unready):
        return answer if near.hold(ratio) else answer._replace(replicas=_replicas(ratio * len(groups.ready)))
    if ratio != 1.0:
        for name in groups.missing:
            values[name] = 0 if needs_more else requests[name] * fallback // 100
    if needs_more:
        values.update(dict.fromkeys(groups.unready, 0))
    again, _ = ratio_of(values)
    if near.hold(again) or (again > 1.0) is not needs_more:
        return answer
    replicas = _replicas(again * len(values))
    turns = replicas < current if needs_more else replicas > current
    return answer if turns else answer._replace(replicas=replicas)


def _replicas(number: float) -> int:
    return min(_MOST, math.ceil(number))


class _Groups(NamedTuple):
    ready: Collection[str]
    unready: Collection[str]
    missing: Collection[str]


def _grouped(pods: Iterable[Pod], samples: Mapping[str, UsageSample], resource: str, now: float) -> _Groups:
    ready: list[str] = []
    unready: list[str] = []
    missing: list[str] = []
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            continue
        if pod.status.phase == "Pending":
            unready.append(name)
        elif name not in samples:
            missing.append(name)
        elif resource == "cpu" and _is_starting(pod, samples[name], now):
            unready.append(name)
        else:
            ready.append(name)
    return _Groups(ready, unready, missing)


def _is_starting(pod: Pod, sample: UsageSample, now: float) -> bool:
    condition, started = pod.status.condition("Ready"), pod.status.start_time
    if condition is None or started is None:
        return True
    since = parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0
    if parse_time(started) + _STARTING_SECONDS > now:
        return condition.status == "False" or sample.at < since + sample.window_seconds
    return condition.status == "False" and parse_time(started) + _READINESS_DELAY_SECONDS > since


def _request(pod: Pod, resource: str, container: str) -> int:
    """Return what a pod, or one container of it, requests."""
    level = pod.spec.resources
    if not container and level is not None and level.requests:
        if resource not in level.requests:
            raise Unknown(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return milli(level.requests[resource])
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    chosen = [one for one in (*pod.spec.containers, *sidecars) if container in ("", one.name)]
    if not chosen:
        raise Unknown(f"container {container} not found in Pod {pod.metadata.name}")
    total = 0
    for one in chosen:
        if resource not in one.resources.requests:
            raise Unknown(f"missing request for {resource} in container {one.name} of Pod {pod.metadata.name}")
        total += milli(one.resources.requests[resource])
    return total


@dataclass(slots=True)
class History:
    """Past recommendations for one autoscaler and changes of its replicas, newest last; times in seconds."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    added: list[tuple[float, int]] = field(default_factory=list)
    removed: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now: float, before: int, after: int) -> None:
        """Add a change of the number of replicas, and drop changes that are too old for every rule."""
        changes = self.added if after > before else self.removed
        changes[:] = [one for one in changes if one[0] > now - 3600]
        changes.append((now, abs(after - before)))


class Normalised(NamedTuple):
    """The number of replicas to set, and why it differs from the number that the metrics recommend."""

    replicas: int
    able: tuple[str, str]
    """Reason and message of the condition AbleToScale."""
    limited: tuple[str, str]
    is_limited: bool


_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_UP: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def normalise(
    spec: HorizontalPodAutoscalerSpec, history: History, current: int, desired: int, now: float
) -> Normalised:
    """Limit a recommendation by the earlier ones, the policies and the bounds, and add it to the history."""
    behavior = spec.behavior
    up_window, down_window = 0.0, DOWN_WINDOW_SECONDS
    if behavior is not None:
        up_window = float(behavior.scale_up.stabilization_window_seconds or 0)
        asked = behavior.scale_down.stabilization_window_seconds
        down_window = DOWN_WINDOW_SECONDS if asked is None else float(asked)
    recent = history.recommended
    lowest = min([desired, *(count for at, count in recent if at > now - up_window)])
    highest = max([desired, *(count for at, count in recent if at > now - down_window)])
    recent[:] = [one for one in recent if one[0] > now - max(up_window, down_window)]
    recent.append((now, desired))
    # without a behavior only scaling down is delayed by the window
    stabilised = min(max(current, lowest), highest) if behavior is not None else highest
    held = _READY if stabilised == desired else (_UP if behavior is not None and desired >= current else _DOWN)
    low, high, why_low, why_high = spec.min_replicas, spec.max_replicas, _TOO_FEW, _TOO_MANY
    rate = max(2 * current, 4) if behavior is None else _up_limit(behavior.scale_up, history, current, now)
    if behavior is not None and stabilised > current:
        rate = max(rate, current)
    if high > rate and (behavior is None or stabilised > current):
        high, why_high = rate, _TOO_FAST
    if behavior is not None and stabilised < current:
        rate = min(_down_limit(behavior.scale_down, history, current, now), current)
        if low < rate:
            low, why_low = rate, _TOO_FAST_DOWN
    if stabilised < low:
        return Normalised(low, held, why_low, is_limited=True)
    if stabilised > high:
        return Normalised(high, held, why_high, is_limited=True)
    return Normalised(stabilised, held, _WITHIN, is_limited=False)


def _at_start(policy: ScalingPolicy, history: History, current: int, now: float) -> int:
    """Return the number of replicas at the beginning of a policy's period."""
    begin = now - policy.period_seconds
    added, removed = (sum(n for at, n in changes if at > begin) for changes in (history.added, history.removed))
    return current - added + removed


def _up_limit(rules: ScalingRules, history: History, current: int, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    found = []
    for policy in rules.policies:
        start = _at_start(policy, history, current, now)
        found.append(start + policy.value if policy.type == "Pods" else -(-start * (100 + policy.value) // 100))
    return min(_MOST, (min if rules.select_policy == "Min" else max)(found, default=current))


def _down_limit(rules: ScalingRules, history: History, current: int, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    found = []
    for policy in rules.policies:
        start = _at_start(policy, history, current, now)
        found.append(start - policy.value if policy.type == "Pods" else int(start * (100 - policy.value) / 100))
    return (max if rules.select_policy == "Min" else min)(found, default=current)
