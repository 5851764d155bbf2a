"""How ``subGroupPolicy`` splits a PodGroup, by the labels of its pods (spec scheduler-core 7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strato.api.selectors import EVERYTHING, Selector, from_label_selector
from strato.api.volcano.scheduling import SubGroupPolicySpec

_LONGEST_VALUES: Final = 128
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Alphabet of Kubernetes' SafeEncodeString."""


class SubGroupPolicy:
    """A policy, compiled for matching."""

    __slots__ = ("key", "selector", "spec")

    def __init__(self, job_key: str, spec: SubGroupPolicySpec) -> None:
        self.key = f"{job_key}/{spec.name}"
        self.spec = spec
        chosen = spec.label_selector
        self.selector: Selector = EVERYTHING if chosen is None else from_label_selector(chosen)

    def values(self, labels: Mapping[str, str]) -> list[str] | None:
        """Return a pod's values of the ``matchLabelKeys``; None when the policy does not select the pod."""
        keys = self.spec.match_label_keys
        values = [labels.get(key, "") for key in keys]
        return values if keys and all(values) and self.selector.matches(labels) else None

    def sub_job_key(self, values: list[str]) -> str:
        """Return the key of the sub-job with these label values."""
        joined = "-".join(values)
        suffix = joined if len(joined) <= _LONGEST_VALUES else _safe_hash(joined)
        return f"{self.key}-{suffix}"


def _safe_hash(text: str) -> str:
    """Return the 32-bit FNV-1a hash of a text in letters that are safe in names, as Kubernetes writes hashes."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_SAFE[ord(c) % len(_SAFE)] for c in str(value))
