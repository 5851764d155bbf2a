"""Views of config.volcano.sh/v1alpha1 (spec volcano-api 12)."""

from __future__ import annotations

from strato.api.meta import Condition, Object, View
from strato.api.shapes import LabelSelector


class MemoryQos(View, frozen=True, kw_only=True):
    """Ratios in percent, [0, 100]."""

    high_ratio: int = 100
    low_ratio: int = 0
    min_ratio: int = 0


class ColocationConfigurationSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    selector: LabelSelector | None = None
    memory_qos: MemoryQos | None = None


class ColocationConfigurationStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()


class ColocationConfiguration(Object, frozen=True, kw_only=True):
    """Quality of service of co-located pods."""

    spec: ColocationConfigurationSpec = ColocationConfigurationSpec()
    status: ColocationConfigurationStatus = ColocationConfigurationStatus()
