"""Views of policy/v1."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, IntOrString, LabelSelector


class PodDisruptionBudgetSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(View, frozen=True, kw_only=True):
    """``status``; ``disruptedPods`` maps pod names to times."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, str] = EMPTY
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
