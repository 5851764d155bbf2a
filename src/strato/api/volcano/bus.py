"""Views of bus.volcano.sh/v1alpha1 (spec volcano-api 7)."""

from __future__ import annotations

from strato.api.meta import Object, OwnerReference


class Command(Object, frozen=True, kw_only=True):
    """An order to a job or a queue; it has no spec. Consumed by deletion."""

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""
