"""Where controllers report what they did: the part of `strato.client.events.EventRecorder` they use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from strato.api.meta import Object
from strato.api.shapes import ObjectReference


class Recorder(Protocol):
    """Records events; never waits, never fails."""

    def event(
        self,
        regarding: Object | ObjectReference | Mapping[str, Any],
        type: str,  # noqa: A002 -- the wire's name
        reason: str,
        message: str,
    ) -> None:
        """Record that something happened to an object."""
