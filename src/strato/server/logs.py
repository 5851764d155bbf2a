"""Where pod logs come from: the border between the server and whatever runs the pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What part of a log is wanted."""

    follow: bool = False
    """Go on until the container ends."""
    previous: bool = False
    """The run before the present one."""
    timestamps: bool = False
    """Put an RFC 3339 time before every line."""
    tail_lines: int | None = None
    """Only so many lines from the end, before following."""
    since_seconds: float | None = None
    """Only lines not older than this."""
    since_time: float | None = None
    """Only lines from this instant on, seconds since the epoch."""
    limit_bytes: int | None = None
    """Stop after so many bytes."""


class LogSource(Protocol):
    """Reads the logs of containers."""

    def read_log(self, namespace: str, pod: str, uid: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield chunks of the log.

        Raises:
            NotFound: There is no log of that container, or of its previous run.
        """
