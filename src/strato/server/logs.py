"""The interface through which the server reads pod logs from whatever runs the pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a log to read."""

    follow: bool = False
    """Keep yielding new lines until the container ends."""
    previous: bool = False
    """Read the log of the container's run before the current one."""
    timestamps: bool = False
    """Prefix every line with its RFC 3339 time."""
    tail_lines: int | None = None
    """Start with at most this many lines from the end."""
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
