"""`Ledger`: who was evicted for whom, and whether it helped.

Every eviction names its beneficiary; the entry stays open until the beneficiary has been bound (``started``), or has
gone without ever running (``abandoned``). An operator who sees evictions that help nobody sees a bug or a bad
configuration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from strato.scheduler.plan import Eviction

WAITING: Final = "waiting"
STARTED: Final = "started"
ABANDONED: Final = "abandoned"

Settled = Callable[["Entry"], None]
"""Called with an entry when its outcome is known."""


@dataclass(slots=True)
class Entry:
    """One eviction.

    Attributes:
        victim: Key of the pod that had to go.
        beneficiary: Key of the pod it went for; empty when it went for no other's sake.
        action: Who decided: ``preempt``, ``reclaim``, ….
        node: Where the victim ran.
        at: Seconds since the epoch.
        outcome: ``waiting``, ``started`` or ``abandoned``.
        settled_at: When the outcome became known; 0 before.
    """

    victim: str
    beneficiary: str
    action: str
    node: str
    at: float
    outcome: str = WAITING
    settled_at: float = 0.0


class Ledger:
    """The newest evictions.

    Args:
        limit: Entries kept.
        settled: Told about every outcome.
    """

    def __init__(self, limit: int = 10_000, settled: Settled | None = None) -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._open: dict[str, list[Entry]] = {}
        self._settled = settled

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, the oldest first."""
        return tuple(self._entries)

    def note(self, evictions: Iterable[Eviction], names: Sequence[str], now: float) -> None:
        """Enter what a cycle decided; ``names`` are the nodes by row."""
        for eviction in evictions:
            task = eviction.task
            node = names[task.row] if task.row >= 0 else ""
            entry = Entry(task.key, eviction.beneficiary, eviction.action, node, now)
            self._entries.append(entry)
            if entry.beneficiary:
                self._open.setdefault(entry.beneficiary, []).append(entry)

    def started(self, key: str, now: float) -> None:
        """Note that a pod was bound."""
        if self._open:
            self._settle(key, STARTED, now)

    def look(self, known: Collection[str], now: float) -> None:
        """Note beneficiaries that are no longer among the known pods."""
        for key in [key for key in self._open if key not in known]:
            self._settle(key, ABANDONED, now)

    def _settle(self, key: str, outcome: str, now: float) -> None:
        for entry in self._open.pop(key, ()):
            entry.outcome, entry.settled_at = outcome, now
            if self._settled is not None:
                self._settled(entry)
