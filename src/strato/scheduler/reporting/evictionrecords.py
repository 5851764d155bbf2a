"""`EvictionRecords`: the evictions with their beneficiaries, and whether the beneficiary was placed.

Every eviction names its beneficiary. Its entry stays open until the beneficiary has been bound (``started``), is gone
without having run (``abandoned``), or the API has refused to delete the victim (``refused``). It is ``needless`` if the
beneficiary got another place before the victim was gone. Evictions without use point an operator to a bug or a bad
configuration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from strato.scheduler.model.plan import Eviction

WAITING: Final = "waiting"
STARTED: Final = "started"
ABANDONED: Final = "abandoned"
NEEDLESS: Final = "needless"
REFUSED: Final = "refused"

Settled = Callable[["EvictionRecord"], None]
"""Called with an entry when its outcome is known."""
There = Callable[["EvictionRecord"], bool]
"""Returns whether the victim of an entry still has its place."""


@dataclass(slots=True)
class EvictionRecord:
    """One eviction.

    Attributes:
        victim: Key of the evicted pod; ``uid`` its identity.
        beneficiary: Key of the pod it was evicted for; empty for none.
        action: The action that decided: ``preempt``, ``reclaim``, ….
        node: Where the victim ran.
        at: Seconds since the epoch.
        outcome: ``waiting``, ``started``, ``needless``, ``abandoned`` or ``refused``.
        settled_at: When the outcome became known; 0 before.
    """

    victim: str
    uid: str
    beneficiary: str
    action: str
    node: str
    at: float
    outcome: str = WAITING
    settled_at: float = 0.0


class EvictionRecords:
    """The newest evictions.

    Args:
        limit: Most entries kept.
        settled: Called with every entry whose outcome becomes known.
        there: Returns whether a victim still has its place.
    """

    def __init__(self, limit: int = 10_000, settled: Settled | None = None, there: There = lambda _: False) -> None:
        self._entries: deque[EvictionRecord] = deque(maxlen=limit)
        self._open: dict[str, list[EvictionRecord]] = {}
        self._settled = settled
        self._there = there
        self._late: list[EvictionRecord] = []
        """Entries whose beneficiary has a place although the victim is not gone."""

    @property
    def entries(self) -> Sequence[EvictionRecord]:
        """All entries, the oldest first."""
        return tuple(self._entries)

    def note(self, evictions: Iterable[Eviction], names: Sequence[str], now: float) -> None:
        """Add entries for a cycle's evictions; ``names`` are the nodes by row."""
        for eviction in evictions:
            task = eviction.task
            node = names[task.row] if task.row >= 0 else ""
            entry = EvictionRecord(task.key, task.uid, eviction.beneficiary, eviction.action, node, now)
            self._entries.append(entry)
            if entry.beneficiary:
                self._open.setdefault(entry.beneficiary, []).append(entry)

    def started(self, key: str, now: float, node: str = "") -> None:
        """Note that a pod was bound to a node."""
        if self._open:
            for entry in self._open.pop(key, ()):
                if self._there(entry) and not self._hand_on(entry, node):
                    self._late.append(entry)
                else:
                    self._settle(entry, STARTED, now)

    def _hand_on(self, entry: EvictionRecord, node: str = "") -> bool:
        """Swap the victim with that of an open entry whose victim is gone (on the node), if there is one.

        The beneficiary of this entry has taken the room that the other's victim has left, so that other beneficiary now
        waits for this victim.
        """
        for entries in self._open.values():
            for other in entries:
                if node in ("", other.node) and not self._there(other):
                    entry.victim, other.victim = other.victim, entry.victim
                    entry.uid, other.uid = other.uid, entry.uid
                    entry.node, other.node = other.node, entry.node
                    return True
        return False

    def refused(self, victim: str, uid: str, now: float) -> None:
        """Note that the eviction of a pod was refused."""
        for entries in (self._late, *self._open.values()):
            for entry in [entry for entry in entries if (entry.victim, entry.uid) == (victim, uid)]:
                entries.remove(entry)
                self._settle(entry, REFUSED, now)
        self._open = {beneficiary: entries for beneficiary, entries in self._open.items() if entries}

    def look(self, known: Collection[str], now: float) -> None:
        """Settle entries whose beneficiary is no longer a known pod, and late ones whose victim is gone by now."""
        if self._late:
            for entry in [entry for entry in self._late if not self._there(entry)]:
                self._late.remove(entry)
                self._settle(entry, STARTED if self._hand_on(entry) else NEEDLESS, now)
        for key in [key for key in self._open if key not in known]:
            for entry in self._open.pop(key):
                self._settle(entry, ABANDONED, now)

    def _settle(self, entry: EvictionRecord, outcome: str, now: float) -> None:
        entry.outcome, entry.settled_at = outcome, now
        if self._settled is not None:
            self._settled(entry)
