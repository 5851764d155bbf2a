"""`Evictions`: the evictions that this scheduler has decided and that are not over, so that none is decided twice.

Between the decision and the deletion the API shows the victim as running, possibly for seconds: the evictor patches its
conditions first, writes are queued, requests get lost. Until the API confirms the eviction (the pod has a deletion
timestamp, has ended, or is gone) or refuses it, `World` counts the pod as Releasing whatever the informers deliver.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from strato.scheduler.model.jobs import Task

_SPARED_SECONDS = 1.0
_LONGEST_SPARED_SECONDS = 300.0
"""How long a pod is spared after the API refused its eviction; the time doubles with each refusal."""


class _Eviction(NamedTuple):
    uid: str
    beneficiary: str


class _Refusal(NamedTuple):
    uid: str
    times: int
    until: float


class Evictions:
    """The evictions under way, by key of the victim.

    Attributes:
        unconfirmed: Victims that the API does not show as terminating yet.
        refusals: Pods whose eviction the API has refused.
    """

    __slots__ = ("_all", "_serving", "refusals", "unconfirmed")

    def __init__(self) -> None:
        self._all: dict[str, _Eviction] = {}
        self.refusals: dict[str, _Refusal] = {}
        self._serving: dict[str, set[str]] = {}
        self.unconfirmed: dict[str, Task] = {}

    def begin(self, task: Task, beneficiary: str) -> None:
        """Note that an eviction is decided; ``beneficiary`` is the key of the pod it is for, empty for none."""
        self._all[task.key] = _Eviction(task.uid, beneficiary)
        self.unconfirmed[task.key] = task
        if beneficiary:
            self._serving.setdefault(beneficiary, set()).add(task.key)

    def awaits(self, key: str, uid: str) -> bool:
        """Whether the API has neither confirmed nor refused the eviction of this pod."""
        task = self.unconfirmed.get(key)
        return task is not None and task.uid == uid

    def confirm(self, key: str) -> None:
        """Note that the API shows the victim as terminating."""
        self.unconfirmed.pop(key, None)

    def replace(self, task: Task) -> None:
        """Replace the task of a victim, as `World` does when the pod changes."""
        if task.key in self.unconfirmed:
            self.unconfirmed[task.key] = task

    def end(self, key: str) -> str:
        """Forget a pod that has ended or is gone; return the key of the pod it was evicted for, if any."""
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
        """Note that the API refused an eviction: spare the pod for a while, and let its beneficiary evict others.

        Returns:
            The key of the beneficiary, if any.
        """
        before = self.refusals.get(key)
        beneficiary = self.end(key)
        self._serving.pop(beneficiary, None)
        times = before.times if before is not None and before.uid == uid else 0
        wait = min(_SPARED_SECONDS * 2.0**times, _LONGEST_SPARED_SECONDS)
        self.refusals[key] = _Refusal(uid, times + 1, now + wait)
        return beneficiary

    def spares(self, task: Task, now: float) -> bool:
        """Whether a pod is spared because the API has recently refused its eviction."""
        refusal = self.refusals.get(task.key)
        return refusal is not None and refusal.uid == task.uid and self.spared_seconds(task.key, now) > 0

    def spared_seconds(self, key: str, now: float) -> float:
        """Return how long a pod is still spared; 0 for others."""
        refusal = self.refusals.get(key)
        left = refusal.until - now if refusal is not None else 0.0
        return left if left <= _LONGEST_SPARED_SECONDS else 0.0  # a longer time: the clock was set back

    def serve(self, beneficiary: str) -> bool:
        """Whether victims evicted for a pod are still there; no more may be evicted for it meanwhile."""
        return beneficiary in self._serving

    def victims_of(self, beneficiary: str) -> Collection[str]:
        """Return the keys of the victims evicted for a pod that are still there."""
        return self._serving.get(beneficiary, ())

    def serve_any(self, keys: Collection[str]) -> bool:
        """Whether `serve` holds for any of several pods."""
        return bool(self._serving) and not self._serving.keys().isdisjoint(keys)
