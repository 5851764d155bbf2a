"""Views of autoscaling.k8s.io/v1: recommended requests of containers, and checkpoints of their use.

Source: spec utilisation 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from strato.api.autoscaling import ScaleTarget
from strato.api.kinds import Column, Kind
from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, ResourceList

CHECKPOINT_VERSION: Final = "v3"
ALL_CONTAINERS: Final = "*"
INTEGER_CPU: Final = "vpa-post-processor.kubernetes.io/{}_integerCPU"
"""Annotation that makes recommendations for a container whole cores."""


class UpdatePolicy(View, frozen=True, kw_only=True):
    """``spec.updatePolicy``."""

    update_mode: str = "Auto"


class ContainerPolicy(View, frozen=True, kw_only=True):
    """``spec.resourcePolicy.containerPolicies[]``."""

    container_name: str = ""
    mode: str = "Auto"
    min_allowed: ResourceList = EMPTY
    max_allowed: ResourceList = EMPTY
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: str = "RequestsAndLimits"


class ResourcePolicy(View, frozen=True, kw_only=True):
    """``spec.resourcePolicy``."""

    container_policies: tuple[ContainerPolicy, ...] = ()

    def of(self, container: str) -> ContainerPolicy:
        """Return the policy of a container: its own, that of all, or the default."""
        named = {policy.container_name: policy for policy in self.container_policies}
        return named.get(container) or named.get(ALL_CONTAINERS) or ContainerPolicy()


class RecommenderName(View, frozen=True, kw_only=True):
    """``spec.recommenders[]``."""

    name: str = ""


class VerticalPodAutoscalerSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    target_ref: ScaleTarget = ScaleTarget()
    update_policy: UpdatePolicy = UpdatePolicy()
    resource_policy: ResourcePolicy = ResourcePolicy()
    recommenders: tuple[RecommenderName, ...] = ()


class ContainerRecommendation(View, frozen=True, kw_only=True):
    """``status.recommendation.containerRecommendations[]``."""

    container_name: str = ""
    target: Mapping[str, str] = EMPTY
    lower_bound: Mapping[str, str] = EMPTY
    upper_bound: Mapping[str, str] = EMPTY
    uncapped_target: Mapping[str, str] = EMPTY


class Recommendation(View, frozen=True, kw_only=True):
    """``status.recommendation``."""

    container_recommendations: tuple[ContainerRecommendation, ...] = ()


class VerticalPodAutoscalerStatus(View, frozen=True, kw_only=True):
    """``status``."""

    observed_generation: int = 0
    recommendation: Recommendation | None = None
    conditions: tuple[Condition, ...] = ()


class VerticalPodAutoscaler(Object, frozen=True, kw_only=True):
    """Recommends, and may apply, the requests of the containers of a workload."""

    spec: VerticalPodAutoscalerSpec = VerticalPodAutoscalerSpec()
    status: VerticalPodAutoscalerStatus = VerticalPodAutoscalerStatus()


class HistogramCheckpoint(View, frozen=True, kw_only=True):
    """A stored histogram."""

    reference_timestamp: str | None = None
    bucket_weights: Mapping[int, int] = EMPTY
    total_weight: float = 0.0


class CheckpointSpec(View, frozen=True, kw_only=True):
    """``spec``: the autoscaler and container that the checkpoint is of."""

    vpa_object_name: str = msgspec.field(default="", name="vpaObjectName")
    container_name: str = ""


class CheckpointStatus(View, frozen=True, kw_only=True):
    """``status``."""

    version: str = ""
    cpu_histogram: HistogramCheckpoint = HistogramCheckpoint()
    memory_histogram: HistogramCheckpoint = HistogramCheckpoint()
    first_sample_start: str | None = None
    last_sample_start: str | None = None
    total_samples_count: int = 0


class VerticalPodAutoscalerCheckpoint(Object, frozen=True, kw_only=True):
    """The histograms of a container's use, which the recommender reads at its next start."""

    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus = CheckpointStatus()


_GROUP: Final = "autoscaling.k8s.io"
_ADVISED: Final = ".status.recommendation.containerRecommendations[0].target"

KINDS: Final = (
    Kind(
        _GROUP,
        "v1",
        "VerticalPodAutoscaler",
        "verticalpodautoscalers",
        singular="verticalpodautoscaler",
        short_names=("vpa",),
        view=VerticalPodAutoscaler,
        has_status=True,
        columns=(
            Column("Mode", ".spec.updatePolicy.updateMode"),
            Column("CPU", f"{_ADVISED}.cpu"),
            Column("Mem", f"{_ADVISED}.memory"),
            Column("Provided", ".status.conditions[?(@.type=='RecommendationProvided')].status"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    ),
    Kind(
        _GROUP,
        "v1",
        "VerticalPodAutoscalerCheckpoint",
        "verticalpodautoscalercheckpoints",
        singular="verticalpodautoscalercheckpoint",
        short_names=("vpacheckpoint",),
        view=VerticalPodAutoscalerCheckpoint,
    ),
)
"""The autoscaler, then the checkpoint."""
