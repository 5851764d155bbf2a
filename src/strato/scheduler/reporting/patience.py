"""What merely reports lets pass what others wait for: it is written once there is a lull, or has waited long enough.

While jobs come by the hundred, each write of a status that nobody acts upon keeps a pod waiting that could be bound
meanwhile. What waits is also worth less: by the time of the lull most of it has moved on, and one write says all.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from strato.client.burst import Burst
from strato.client.workqueue import PATIENCE_SECONDS
from strato.scheduler.reporting.deadlines import Entry

T = TypeVar("T")

_TAKEN = 32
"""Most of what is handed out at once, and `_STEP_SECONDS` how soon the next may be: work may come again."""
_STEP_SECONDS = 0.02


class Patience(Generic[T]):
    """Things that may wait, by key: the newest under a key counts, and keeps its place. Instants are monotonic."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry[T]] = {}
        """By since when they wait."""
        self._burst = Burst()
        self._next_step = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def worked(self, amount: int, now: float) -> None:
        """Note work that others wait for: how many pods and groups were decided about."""
        if amount:
            self._burst.worked(amount, now)

    def is_asked(self, now: float) -> bool:
        """Whether there is work at hand that goes first."""
        return self._burst.is_on(now)

    def put(self, key: str, now: float, item: T) -> None:
        """Let something wait from now on, or instead of what waits under its key."""
        known = self._entries.get(key)
        self._entries[key] = Entry(now if known is None else known.at, item)

    def drop(self, key: str) -> None:
        """Forget what waits under a key, if anything does."""
        self._entries.pop(key, None)

    @property
    def next_at(self) -> float | None:
        """The instant of the next thing, if no more work comes; None when nothing waits."""
        for entry in self._entries.values():
            due = min(entry.at + PATIENCE_SECONDS, max(entry.at, self._burst.over_at))
            return max(due, self._next_step)
        return None

    def take_due(self, now: float) -> list[T]:
        """Return some of what need not wait any longer, the oldest first, and forget it."""
        if not self._entries or now < self._next_step:
            return []
        latest = now - PATIENCE_SECONDS if self.is_asked(now) else now
        keys: list[str] = []
        for key, entry in self._entries.items():
            if entry.at > latest or len(keys) == _TAKEN:
                break
            keys.append(key)
        if len(keys) == _TAKEN:
            self._next_step = now + _STEP_SECONDS
        return [self._entries.pop(key).item for key in keys]
