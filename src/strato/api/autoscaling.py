"""Views of autoscaling: the Scale subresource, and autoscalers."""

from __future__ import annotations

from strato.api.meta import Object, View
from strato.api.shapes import TypedReference


class ScaleSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicas: int = 0


class ScaleStatus(View, frozen=True, kw_only=True):
    """``status``; the selector is text."""

    replicas: int = 0
    selector: str = ""


class Scale(Object, frozen=True, kw_only=True):
    """autoscaling/v1 Scale."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class HorizontalPodAutoscalerSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    scale_target_ref: TypedReference = TypedReference()
    min_replicas: int = 1
    max_replicas: int = 0


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    """autoscaling/v2; kept for clients, nothing here acts on it."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
