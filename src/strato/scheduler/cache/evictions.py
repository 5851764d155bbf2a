"""`Evictions`: the evictions that were decided here and are not over, so that none is decided twice.

Between the decision and the deletion the API shows the victim as running, and may do so for seconds: its conditions are
patched first, writes wait their turn, requests are lost. All that while the pod counts as leaving, whatever is read of
it, until the API confirms (it has a deletion timestamp, has ended, is gone) or refuses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from strato.scheduler.model.jobs import Task

_SPARED_SECONDS = 1.0
_LONGEST_SPARED_SECONDS = 300.0
"""How long a pod is not chosen again whose eviction was refused; the time doubles with each refusal."""


class _Eviction(NamedTuple):
    uid: str
    beneficiary: str


class _Refusal(NamedTuple):
    uid: str
    times: int
    until: float


class Evictions:
    """By key of the victim, what is under way.

    Attributes:
        unconfirmed: Victims that the API does not show as leaving yet.
        refusals: Pods whose eviction the API refused.
    """

    __slots__ = ("_all", "_serving", "refusals", "unconfirmed")

    def __init__(self) -> None:
        self._all: dict[str, _Eviction] = {}
        self.refusals: dict[str, _Refusal] = {}
        self._serving: dict[str, set[str]] = {}
        self.unconfirmed: dict[str, Task] = {}

    def begin(self, task: Task, beneficiary: str) -> None:
        """Note a decision; ``beneficiary`` is the key of the pod it is for, empty when it is for no other's sake."""
        self._all[task.key] = _Eviction(task.uid, beneficiary)
        self.unconfirmed[task.key] = task
        if beneficiary:
            self._serving.setdefault(beneficiary, set()).add(task.key)

    def awaits(self, key: str, uid: str) -> bool:
        """Whether a pod is a victim of which the API has neither confirmed nor refused that it leaves."""
        task = self.unconfirmed.get(key)
        return task is not None and task.uid == uid

    def confirm(self, key: str) -> None:
        """Note that the API shows the victim as leaving."""
        self.unconfirmed.pop(key, None)

    def replace(self, task: Task) -> None:
        """Go on with another task that stands for the same pod."""
        if task.key in self.unconfirmed:
            self.unconfirmed[task.key] = task

    def end(self, key: str) -> str:
        """Forget a victim, or any other pod: it is gone. Return the key of the pod that it went for, if any."""
        if not (self._all or self.refusals):
            return ""
        self.unconfirmed.pop(key, None)
        self.refusals.pop(key, None)
        eviction = self._all.pop(key, None)
        if eviction is None or not eviction.beneficiary:
            return ""
        victims = self._serving.get(eviction.beneficiary)
        if victims is not None:
            victims.discard(key)
            if not victims:
                del self._serving[eviction.beneficiary]
        return eviction.beneficiary

    def refuse(self, key: str, uid: str, now: float) -> str:
        """Forget a victim that stays: it is spared for a while, and the pod it was to go for may look on at once.

        Returns:
            The key of that pod, if any.
        """
        before = self.refusals.get(key)
        beneficiary = self.end(key)
        self._serving.pop(beneficiary, None)
        times = before.times if before is not None and before.uid == uid else 0
        wait = min(_SPARED_SECONDS * 2.0**times, _LONGEST_SPARED_SECONDS)
        self.refusals[key] = _Refusal(uid, times + 1, now + wait)
        return beneficiary

    def spares(self, task: Task, now: float) -> bool:
        """Whether the API refused to evict a pod a short while ago."""
        refusal = self.refusals.get(task.key)
        return refusal is not None and refusal.uid == task.uid and self.spared_seconds(task.key, now) > 0

    def spared_seconds(self, key: str, now: float) -> float:
        """Return how long a pod is spared yet; 0 for those that are not."""
        refusal = self.refusals.get(key)
        left = refusal.until - now if refusal is not None else 0.0
        return left if left <= _LONGEST_SPARED_SECONDS else 0.0  # longer: the clock was set back meanwhile

    def serve(self, beneficiary: str) -> bool:
        """Whether victims that were evicted for a pod are still leaving: it must not take more meanwhile."""
        return beneficiary in self._serving

    def victims_of(self, beneficiary: str) -> Collection[str]:
        """Return the keys of the victims that are leaving for a pod."""
        return self._serving.get(beneficiary, ())

    def serve_any(self, keys: Collection[str]) -> bool:
        """Whether that holds of any of several pods."""
        return bool(self._serving) and not self._serving.keys().isdisjoint(keys)
