"""`JobQueues`: whose visit is next in an action, queue by queue and job by job, one visit for a class that is refused.

Queues come in the plugins' order, and the jobs of a queue in theirs. Of a job class one member stands in its queue at a
time. When it was visited and something moved (somebody got or lost a place, a group entered its queue), the next member
takes its place. When it was refused and nothing moved, the verdict holds for the members after it, and none of them is
visited until something moves: then those whose order has not passed yet are as good as new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from strato.scheduler.model.jobs import Job
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.ordering.jobclasses import PENDING, JobClass, JobClasses

if TYPE_CHECKING:
    from strato.scheduler.framework.pluginanswers import PluginAnswers

_Key = tuple[Any, ...]


class Entry(NamedTuple):
    """A job that stands in a queue; ``number`` keeps equal keys apart.

    Attributes:
        at: Its place among the members of its class.
        cls: None for a job that an earlier visit changed: it is not like its class any more.
    """

    key: _Key
    number: int
    job: Job
    at: int = 0
    cls: JobClass | None = None


class JobQueue:
    """The jobs of one queue that an action visits.

    Args:
        ssn: The session, which orders.
        classes: The job classes.
        queue: The queue.
        judges: Whether verdicts hold for what members are told; other actions leave no notes.
    """

    def __init__(self, ssn: PluginAnswers, classes: JobClasses, queue: Queue, *, judges: bool) -> None:
        self.queue = queue
        self._ssn = ssn
        self._classes = classes
        self._judges = judges
        self._heap: list[Entry] = []
        self._made = 0
        self._keys: dict[JobClass, _Key] = {}
        self._high: _Key = ()  # the last in the order that was visited
        self._refused: list[tuple[JobClass, int]] = []  # whose members need no visit until something moves
        self._changed: list[Job] = []
        self._before = 0, 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def holds_verdicts(self) -> bool:
        """Whether members of a refused class wait for something to move."""
        return bool(self._refused)

    def add(self, cls: JobClass, key: _Key) -> None:
        """Let a class stand in the queue; ``key`` is what plugins say of the order of any member."""
        self._keys[cls] = key
        self._push_from(cls, 0)

    def pop(self) -> Entry:
        """Return whose visit is next; there has to be one, and `done` has to follow."""
        entry = heappop(self._heap)
        self._pass(entry.key)
        if entry.cls is not None and not self._judges:
            self._classes.catch_up(self._ssn, entry.cls.members[entry.at])
        self._before = self._moves()
        return entry

    def done(self, entry: Entry, *, again: bool = False, count: int = 1) -> bool:
        """Note that a job was visited; return whether anything moved.

        Args:
            entry: The job.
            again: Whether it wants another visit.
            count: How many members of its class were visited with it, itself included.
        """
        moved, cls = self._before != self._moves(), entry.cls
        if again:
            self._push(self._ssn.job_key(entry.job), entry.job)
        if moved:
            self._changed.append(entry.job)
            for refused, at in self._refused:
                self._push_from(refused, at)
            self._refused = []
            if cls is not None:
                if count > 1:
                    self._pass(self._key_at(cls, entry.at + count - 1))
                self._push_from(cls, entry.at + count)
        elif cls is not None and entry.at + 1 < len(cls.members):
            self._refused.append((cls, entry.at + 1))
            if self._judges:
                self._classes.judge(self._ssn, cls.members[entry.at])
        return moved

    def visits(self) -> Iterator[Job]:
        """Yield the jobs to visit; who asks for the next one is done with the last."""
        while self:
            entry = self.pop()
            yield entry.job
            self.done(entry)

    def restart(self) -> JobQueue:
        """Return all that stood in this queue once more; those that their visit changed stand for themselves."""
        fresh = JobQueue(self._ssn, self._classes, self.queue, judges=self._judges)
        for cls, key in self._keys.items():
            fresh.add(cls, key)
        for job in dict.fromkeys(self._changed):
            if job.key in self._ssn.world.dirty_jobs:
                fresh._push(self._ssn.job_key(job), job)
        return fresh

    def following(self, entry: Entry, most: int) -> list[Job]:
        """Return the members of an entry's class that would be visited next, one after the other."""
        cls = entry.cls
        if cls is None:
            return []
        found: list[Job] = []
        for at in range(entry.at + 1, min(entry.at + most, len(cls.members))):
            if self._heap and self._heap[0].key < self._key_at(cls, at):
                break
            found.append(cls.members[at].job)
        return found

    def _push_from(self, cls: JobClass, at: int) -> None:
        """Let the first member from ``at`` on stand here that comes after the last visit and that nothing changed."""
        members, changed = cls.members, self._ssn.world.dirty_jobs
        while at < len(members):
            job, key = members[at].job, self._key_at(cls, at)
            if not self._high < key:
                at = bisect_right(members, self._high, lo=at, key=lambda member: (*self._keys[cls], *member.order))
            elif job.key in changed:
                at += 1
            else:
                self._push(key, job, at, cls)
                return

    def _pass(self, key: _Key) -> None:
        if self._high < key:
            self._high = key

    def _push(self, key: _Key, job: Job, at: int = 0, cls: JobClass | None = None) -> None:
        self._made += 1
        heappush(self._heap, Entry(key, self._made, job, at, cls))

    def _key_at(self, cls: JobClass, at: int) -> _Key:
        return (*self._keys[cls], *cls.members[at].order)

    def _moves(self) -> tuple[int, int]:
        return self._ssn.world.version, len(self._ssn.plan.failures)


class JobQueues:
    """The queues that have jobs for an action, the next in the plugins' order first.

    Args:
        ssn: The session.
        classes: The job classes.
        stage: Which jobs: `WAITING` or `PENDING`.
        wanted: Whether the action visits a job; asked of one of each class.
        judges: Whether verdicts hold for what members are told.
    """

    def __init__(
        self,
        ssn: PluginAnswers,
        classes: JobClasses,
        stage: int,
        wanted: Callable[[Job], bool],
        *,
        judges: bool = True,
    ) -> None:
        self._ssn = ssn
        self._queues: dict[str, JobQueue] = {}
        for cls, key in _with_keys(ssn, _wanted_classes(ssn, classes, stage, wanted)):
            found = self._queues.get(cls.queue_name)
            if found is None:
                found = JobQueue(ssn, classes, ssn.world.queues[cls.queue_name], judges=judges)
                self._queues[cls.queue_name] = found
            found.add(cls, key)
        self._ordered_at = self._stamp()
        self._heap = [self._entry(name) for name in self._queues]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> JobQueue | None:
        """Remove and return the queue that is next; None when no queue has jobs left."""
        stamp = self._stamp()
        if stamp != self._ordered_at:
            self._ordered_at = stamp
            self._heap = [self._entry(name) for _, name in self._heap]
            heapify(self._heap)
        while self._heap:
            found = self._queues[heappop(self._heap)[1]]
            if found:
                return found
        return None

    def push(self, queue: JobQueue) -> None:
        """Put a queue back."""
        name = queue.queue.name
        heappush(self._heap, self._entry(name) if self._heap else ((), name))  # the only one needs no key

    def _entry(self, name: str) -> tuple[Any, str]:
        return self._ssn.queue_key(self._queues[name].queue), name

    def _stamp(self) -> int:
        """Return a number that grows when what was decided for one queue may change where others stand."""
        ssn = self._ssn
        return ssn.world.version if ssn.queue_keys_move else len(ssn.plan.evictions)


def starving_jobs(ssn: PluginAnswers, classes: JobClasses, wanted: Callable[[Job], bool] = lambda _: True) -> JobQueues:
    """Return the queues with the jobs that may take from others."""
    return JobQueues(ssn, classes, PENDING, lambda job: wanted(job) and ssn.job_starving(job), judges=False)


def jobs_in_order(
    ssn: PluginAnswers,
    classes: JobClasses,
    stage: int,
    wanted: Callable[[Job], bool],
    also: Mapping[str, Job] | None = None,
) -> list[Job]:
    """Return every job that an action wants, and some more, in the order of queues and jobs as it stands now."""
    jobs = dict(also or {})
    for cls in _wanted_classes(ssn, classes, stage, wanted):
        jobs.update((member.job.key, member.job) for member in cls.members)
    order = {name: ssn.queue_key(ssn.world.queues[name]) for name in {job.queue_name for job in jobs.values()}}
    return sorted(jobs.values(), key=lambda job: (order[job.queue_name], ssn.job_key(job)))


def can_try(ssn: PluginAnswers, job: Job) -> bool:
    """Whether a job is valid; says why when it is not."""
    validity = ssn.job_valid(job)
    if validity is None:
        return True
    verdict = Verdict("gang", validity.reason, validity.message)
    if verdict not in ssn.note(job).verdicts:
        ssn.say(job, verdict)
    return False


def _wanted_classes(
    ssn: PluginAnswers, classes: JobClasses, stage: int, wanted: Callable[[Job], bool]
) -> Iterable[JobClass]:
    """Yield the classes of known queues that an action visits; the invalid ones are told so."""
    for cls in classes.of(stage):
        queue = ssn.world.queues.get(cls.queue_name)
        if queue is None or queue.view is None:
            continue
        first = cls.members[0]
        if stage == PENDING and not can_try(ssn, first.job):
            if not cls.verdicts:
                classes.judge(ssn, first)
        elif wanted(first.job):
            yield cls


def _with_keys(ssn: PluginAnswers, classes: Iterable[JobClass]) -> Iterable[tuple[JobClass, _Key]]:
    """Return classes with what plugins say of the order of their members."""
    found = list(classes)
    return zip(found, ssn.job_plugin_keys([cls.members[0].job for cls in found]), strict=True)
