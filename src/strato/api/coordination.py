"""Views of coordination.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object, View


class LeaseSpec(View, frozen=True, kw_only=True):
    """``spec``; times are MicroTime text."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Object, frozen=True, kw_only=True):
    """A lease."""

    spec: LeaseSpec = LeaseSpec()
