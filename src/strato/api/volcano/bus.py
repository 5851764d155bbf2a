"""Views of bus.volcano.sh/v1alpha1 (spec volcano-api 7)."""

from __future__ import annotations

from strato.api.meta import Object, OwnerReference


class Command(Object, frozen=True, kw_only=True):
    """A command to a job or a queue. It has no spec; a controller deletes it before it carries it out."""

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""
