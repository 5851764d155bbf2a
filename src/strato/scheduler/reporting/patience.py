"""What merely reports lets pass what others wait for: it is written once there is a lull, or has waited long enough.

While jobs come by the hundred, each write of a status that nobody acts upon keeps a pod waiting that could be bound
meanwhile. What waits is also worth less: by the time of the lull most of it has moved on, and one write says all.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from strato.scheduler.reporting.deadlines import Entry

T = TypeVar("T")

PATIENCE_SECONDS = 2.0
"""How long something waits while there is work at hand; as `strato.client.workqueue` has it."""
LULL_SECONDS = 0.25
"""Without work for so long, a burst is over."""
_BURST = 16
"""Work that comes without a lull between; with less of it nothing waits."""
_TAKEN = 64
"""Most of what is handed out at once, and `_STEP_SECONDS` how soon the next may be: work may come again."""
_STEP_SECONDS = 0.02


class Patience(Generic[T]):
    """Things that may wait, by key: the newest under a key counts, and keeps its place. Instants are monotonic."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry[T]] = {}
        """By since when they wait."""
        self._worked_at = float("-inf")
        self._work = 0
        self._next_step = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def worked(self, amount: int, now: float) -> None:
        """Note work that others wait for: how many pods and groups were decided about."""
        if amount:
            if now >= self._worked_at + LULL_SECONDS:
                self._work = 0
            self._work += amount
            self._worked_at = now

    def is_asked(self, now: float) -> bool:
        """Whether there is work at hand that goes first."""
        return self._work >= _BURST and now < self._worked_at + LULL_SECONDS

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
            due = entry.at
            if self._work >= _BURST:
                due = min(due + PATIENCE_SECONDS, max(due, self._worked_at + LULL_SECONDS))
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
