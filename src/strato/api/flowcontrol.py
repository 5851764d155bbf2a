"""Views of flowcontrol.apiserver.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object


class FlowSchema(Object, frozen=True, kw_only=True):
    """Which requests belong to which priority level."""


class PriorityLevelConfiguration(Object, frozen=True, kw_only=True):
    """A share of the API server."""
