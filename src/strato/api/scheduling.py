"""Views of scheduling.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object


class PriorityClass(Object, frozen=True, kw_only=True):
    """A named priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
