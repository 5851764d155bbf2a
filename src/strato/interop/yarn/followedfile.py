"""A file of settings that is read again when it changes; an invalid change is not applied."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from strato.errors import InvalidInput

T = TypeVar("T")

CHECK_SECONDS: Final = 10.0
"""Interval of checks for changes, as in YARN's Fair Scheduler."""
SETTLED_SECONDS: Final = 5.0
"""Age that a change must have before it is read, since its writer may not be done."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FollowedFile(Generic[T]):
    """A file that is followed for changes.

    Attributes:
        path: Path of the file.
        read: Parses the file; raises InvalidInput with all its problems.
        content: The last valid content; None before.
        problem: Why the file is invalid at present; empty when it is not.
    """

    path: Path
    read: Callable[[Path], T]
    content: T | None = None
    problem: str = ""
    _checked: float = float("-inf")
    _modified: float | None = None

    def refresh(self, now: float) -> bool:
        """Read the file if a check is due and it has changed; return whether a new problem was found.

        Args:
            now: Seconds since the epoch.
        """
        if now - self._checked < CHECK_SECONDS and self.content is not None:
            return False
        self._checked = now
        try:
            modified = self.path.stat().st_mtime
        except OSError:
            modified = None
        if modified is not None and self._modified == modified:
            return False
        if self.content is not None and modified is not None and 0 <= now - modified < SETTLED_SECONDS:
            self._checked = now - CHECK_SECONDS
            return False
        before = self.problem
        try:
            self.content = self.read(self.path)
            self.problem = ""
        except InvalidInput as error:
            self.problem = str(error)
        self._modified = modified
        if self.problem and self.problem != before:
            _log.warning("the file cannot be used; what it said before stays: %s", self.problem)
            return True
        return False
