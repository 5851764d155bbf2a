"""A file of settings that is read again when it changes; one that cannot be read changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from strato.errors import InvalidInput

T = TypeVar("T")

CHECK_SECONDS: Final = 10.0
"""How often the file is looked at, as YARN's Fair Scheduler does."""
SETTLED_SECONDS: Final = 5.0
"""How old a change must be before it is read: whoever writes may not be done."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FollowedFile(Generic[T]):
    """A file, as read last.

    Attributes:
        path: Where it is.
        read: Reads it; raises InvalidInput with all that is wrong with it.
        content: What it said when it could be read last; None before.
        problem: Why it could not be read since; empty when it could.
    """

    path: Path
    read: Callable[[Path], T]
    content: T | None = None
    problem: str = ""
    _checked: float = float("-inf")
    _modified: float | None = None

    def refresh(self, now: float) -> bool:
        """Read the file if it is due and has changed, and return whether a new problem was found.

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
