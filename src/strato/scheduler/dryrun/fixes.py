"""Finds the smallest changes with which a waiting job starts now; the engine tries each of them on a copy.

Families of changes are searched one by one: fewer members, another queue, more quota, a rule dropped, nodes added. In
each the smallest change that works is kept; if no single change works, two and then three together are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final

from strato.scheduler.cache.world import World
from strato.scheduler.dryrun import changes
from strato.scheduler.dryrun.changes import StateChange
from strato.scheduler.dryrun.trial import Copy, TrialOutcome
from strato.scheduler.model.jobs import PHASE_PENDING, Job
from strato.scheduler.reporting.explain import Fix

_CYCLES: Final = 3
"""Cycles within which a change has to start the job: one to enqueue it, one to evict, one to bind."""
_MOST_TRIALS: Final = 150


_Works = Callable[..., "Fix | None"]
"""Tries changes together; returns them as a `Fix` if the job starts, else None."""


class _Exhausted(Exception):
    """The number of trials is used up."""


class FixSearch:
    """Looks for changes that start a job.

    Args:
        copy: The state as it is.
        key: The job.
        pod: A pod of the job that has to be placed; empty for any.
    """

    def __init__(self, copy: Copy, key: str, pod: str = "") -> None:
        self._copy = copy
        self._key = key
        self._pod = pod
        self._left = _MOST_TRIALS
        start = copy.run(0)
        self._world: World = start.world
        self._before = start.placed(key)

    def fixes(self) -> list[Fix]:
        """Return the smallest working change of each family, or pairs of changes when no single one works."""
        job = self._world.jobs.get(self._key)
        if job is None or job.queue is None:
            return []
        found: list[Fix] = []
        try:
            hopeful: list[_Family] = []
            for family in self._families(job):
                fix = family.smallest()
                if fix is not None:
                    found.append(fix)
                elif family.strongest is not None:
                    hopeful.append(family)
            for count in (2, 3):
                found = found or [fix for some in combinations(hopeful, count) if (fix := self._together(some))]
        except _Exhausted:
            pass
        return found

    def _together(self, families: Sequence[_Family]) -> Fix | None:
        """Try the strongest change of several families together; if that works, make each as small as possible."""
        chosen = [family.strongest for family in families if family.strongest is not None]
        best = self._works(*chosen)
        if best is None:
            return None
        for place, family in enumerate(families):

            def alone(change: StateChange, place: int = place) -> Fix | None:
                return self._works(*chosen[:place], change, *chosen[place + 1 :])

            smaller = family.shrunk(alone)
            if smaller is not None:
                chosen[place], best = smaller
        return best

    def _works(self, *tried: StateChange) -> Fix | None:
        """Try changes together; return them as a `Fix` if the job starts, else None."""
        if self._left <= 0:
            raise _Exhausted
        self._left -= 1
        edits = [edit for change in tried for edit in change.edits]
        more = [one for change in tried for one in change.more]
        outcome = self._copy.with_edits(edits, more).run(_CYCLES)
        if not self._started(outcome):
            return None
        kind = "+".join(change.kind for change in tried)
        return Fix(kind, ", and ".join(change.text for change in tried), outcome.evictions)

    def _started(self, outcome: TrialOutcome) -> bool:
        job = outcome.world.jobs.get(self._key)
        if job is None:
            return False
        if self._pod:
            task = outcome.world.tasks.get(self._pod)
            return task is not None and task.row >= 0
        if not job.tasks:  # its controller creates the pods once it is enqueued
            return job.phase not in ("", PHASE_PENDING)
        return outcome.placed(self._key) >= max(job.min_available, self._before + 1)

    # -- families ------------------------------------------------------------------------------------------------------

    def _families(self, job: Job) -> Iterator[_Family]:
        world = self._world
        yield _Numbered(self._works, *self._members(job))
        yield _Choice(self._works, changes.other_queues(world, job))
        yield _Choice(self._works, changes.queue_opened(world, job))
        yield _Numbered(self._works, *changes.quota_raised(world, job))
        yield _Numbered(self._works, *changes.weight_raised(world, job))
        yield _Choice(self._works, changes.namespace_quota_raised(world, job))
        yield _Every(self._works, changes.rules_dropped(world, job))
        most = max(len(job.pending), job.min_available, 1)  # more nodes than pods do not help
        yield _Shapes([_Numbered(self._works, most, make) for make in changes.nodes_added(world, job)])

    def _members(self, job: Job) -> tuple[int, Callable[[int], StateChange | None]]:
        """Return how many fewer members are possible, and the change to ``n`` fewer."""
        return max(job.min_available - 1, 0), lambda fewer: changes.members(job, job.min_available - fewer)


class _Family:
    """Alternative changes of one kind."""

    strongest: StateChange | None = None

    def smallest(self) -> Fix | None:
        """Return the smallest that works."""
        raise NotImplementedError

    def shrunk(self, works: _Works) -> tuple[StateChange, Fix] | None:
        """Return a smaller change than the strongest that still works by ``works``; None when there is none."""
        return None


class _Numbered(_Family):
    """Changes by size 1 … most; a larger one works where a smaller one does, so that halving finds the smallest."""

    def __init__(self, works: _Works, most: int, make: Callable[[int], StateChange | None]) -> None:
        self._works = works
        self._most = most
        self._make = make

    def _try(self, size: int) -> Fix | None:
        change = self._make(size)
        return self._works(change) if change is not None else None

    def smallest(self) -> Fix | None:
        """Double the size until it works, then halve the gap."""
        low, high, best = 0, 1, None
        while self._most > 0:
            high = min(high, self._most)
            best = self._try(high)
            if best is not None or high == self._most:
                break
            low, high = high, high * 2
        if best is None:
            self.strongest = self._make(self._most) if self._most > 0 else None
            return None
        smaller = self._halve(low, high, self._works)
        return smaller[1] if smaller is not None else best

    def shrunk(self, works: _Works) -> tuple[StateChange, Fix] | None:
        """Halve the size as long as it works."""
        return self._halve(0, self._most, works)

    def _halve(self, low: int, high: int, works: _Works) -> tuple[StateChange, Fix] | None:
        """Return the smallest change between one that is too small and one that works."""
        best = None
        while high - low > 1:
            middle = (low + high) // 2
            change = self._make(middle)
            fix = works(change) if change is not None else None
            if change is None or fix is None:
                low = middle
            else:
                high, best = middle, (change, fix)
        return best


class _Choice(_Family):
    """Alternatives, of which the first that works is taken."""

    def __init__(self, works: _Works, choices: Sequence[StateChange]) -> None:
        self._works = works
        self._choices = choices
        self.strongest = choices[0] if choices else None

    def smallest(self) -> Fix | None:
        """Try one after the other."""
        return next((fix for fix in map(self._works, self._choices) if fix is not None), None)


class _Every(_Choice):
    """Rules that may be dropped; when no single one is enough, all of them."""

    def smallest(self) -> Fix | None:
        """Try each alone, then all together."""
        fix = super().smallest()
        if fix is None and len(self._choices) > 1:
            every = changes.joined(self._choices)
            fix = self._works(every)
            self.strongest = every
        return fix


class _Shapes(_Family):
    """Additional nodes of each existing shape; the first shape that works is taken."""

    def __init__(self, shapes: Sequence[_Numbered]) -> None:
        self._shapes = shapes
        self._strongest_of: _Numbered | None = None

    def smallest(self) -> Fix | None:
        """Return the first shape's number; shapes come in the order of how well they suit."""
        for shape in self._shapes:
            fix = shape.smallest()
            if fix is not None:
                return fix
            if self.strongest is None:
                self.strongest, self._strongest_of = shape.strongest, shape
        return None

    def shrunk(self, works: _Works) -> tuple[StateChange, Fix] | None:
        """Return fewer nodes of the shape that the strongest change has."""
        return self._strongest_of.shrunk(works) if self._strongest_of is not None else None
