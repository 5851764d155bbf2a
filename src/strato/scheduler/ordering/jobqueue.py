"""`JobQueues`: the order in which an action visits jobs, queue by queue; a refused job class gets one visit only.

Plugins order the queues, and the jobs within each. Of a job class one member has an entry in its queue at a time. If
its visit moved something (a task got or lost a place, a job was enqueued), the next member gets an entry. If it was
refused and nothing moved, the verdict holds for the members after it, which are not visited until something moves. Then
those that come after the last visit in the order get entries again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.ordering.jobclasses import (
    PENDING,
    ClassedJob,
    JobClass,
    JobClasses,
    Judged,
    Nearly,
    Pass,
    nearly_of,
)

_Key = tuple[Any, ...]


class QueuedJob(NamedTuple):
    """An entry of a job in a queue; ``number`` orders entries with equal keys.

    Attributes:
        at: Its index among the members of its class.
        cls: None for a job that an earlier visit has changed, so that it no longer belongs to its class.
    """

    key: _Key
    number: int
    job: Job
    at: int = 0
    cls: JobClass | None = None


class JobQueue:
    """The jobs of one queue that an action visits.

    Args:
        notes: Whether the action makes notes on the jobs it visits.
    """

    def __init__(self, ssn: PluginAnswers, classes: JobClasses, queue: Queue, *, notes: bool) -> None:
        self.queue = queue
        self._ssn = ssn
        self._classes = classes
        self._notes = notes
        self._heap: list[QueuedJob] = []
        self._made = 0
        self._keys: dict[JobClass, _Key] = {}
        self._high: _Key = ()  # the highest key visited so far
        self._refused: list[tuple[JobClass, int]] = []  # not visited until something moves, from that member on
        self._visited: dict[Job, _Key] = {}
        self._passes: dict[JobClass, Pass | None] = {}
        self._nearly: Nearly = ()
        self._before = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def holds_verdicts(self) -> bool:
        """Whether there are members of refused classes that are not visited until something moves."""
        return bool(self._refused)

    def add(self, cls: JobClass, key: _Key) -> None:
        """Add a class to the queue; ``key`` is the sort key that plugins give any of its members."""
        self._keys[cls] = key
        self._passes[cls] = self._classes.begin_pass(cls)
        self._push_from(cls, 0)

    def pop(self) -> QueuedJob:
        """Remove and return the next entry; the queue must not be empty, and the caller must call `done` afterwards."""
        entry = heappop(self._heap)
        self._pass(entry.key)
        if entry.cls is not None and len(entry.cls.passes) > 1:  # earlier actions may not have visited it
            entry.cls.give(self._ssn, entry.cls.members[entry.at], entry.cls.passes[:-1])
        self._nearly = nearly_of(self._ssn, entry.job) if self._ssn.transactions else ()
        self._before = self._moves()
        return entry

    def done(self, entry: QueuedJob, *, again: bool = False, count: int = 1) -> bool:
        """Note that a job was visited; return whether anything moved.

        Args:
            entry: Entry of the job.
            again: Whether the job is to be visited again.
            count: How many members of its class were visited with it, itself included.
        """
        moved, cls = self._before != self._moves(), entry.cls
        if again:
            self._push(self._ssn.job_key(entry.job), entry.job)
        if not self._notes:
            self._visited.setdefault(entry.job, entry.key)
        done = self._passes[cls] if cls is not None else None
        if done is not None and entry.job.pending:
            done.visited.add(entry.job.key)
        if moved or self._is_judged_anew(entry):
            for refused, at in self._refused:
                self._push_from(refused, at)
            self._refused = []
            if cls is not None:
                if count > 1:
                    self._pass(self._key_at(cls, entry.at + count - 1))
                self._push_from(cls, entry.at + count)
        elif cls is not None and entry.at + 1 < len(cls.members):
            self._refused.append((cls, entry.at + 1))
            if done is not None:
                self._judge(done, cls.members[entry.at])
        return moved

    def _is_judged_anew(self, entry: QueuedJob) -> bool:
        """Whether a refusal changed how plugins judge jobs that are not visited because of another job's verdict."""
        waits = self._refused or (entry.cls is not None and entry.at + 1 < len(entry.cls.members))
        tasks = entry.job.pending
        return bool(waits and tasks) and self._ssn.judges_anew(next(iter(tasks.values())))

    def visits(self) -> Iterator[Job]:
        """Yield the jobs to visit; asking for the next one ends the visit of the last."""
        while self:
            entry = self.pop()
            yield entry.job
            self.done(entry)

    def restart(self) -> JobQueue:
        """Return a new queue with all classes that were added to this one, for another round.

        Jobs that a visit has moved out of their class get entries of their own.
        """
        self._classes.sync()
        fresh = JobQueue(self._ssn, self._classes, self.queue, notes=self._notes)
        for cls, key in self._keys.items():
            fresh.add(cls, key)
        for job, key in self._visited.items():
            member = self._classes.members.get(job.key)
            if member is None or member.cls not in self._keys:
                fresh._push(key, job)
        return fresh

    def following(self, entry: QueuedJob, most: int) -> list[Job]:
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
        """Push an entry of the first member from index ``at`` on that comes after the highest key visited."""
        members = cls.members
        if at == len(members):
            return
        key = self._key_at(cls, at)
        if not self._high < key:
            at = bisect_right(members, self._high, lo=at, key=lambda member: (*self._keys[cls], *member.order))
            if at == len(members):
                return
            key = self._key_at(cls, at)
        self._push(key, members[at].job, at, cls)

    def _pass(self, key: _Key) -> None:
        if self._high < key:
            self._high = key

    def _push(self, key: _Key, job: Job, at: int = 0, cls: JobClass | None = None) -> None:
        self._made += 1
        heappush(self._heap, QueuedJob(key, self._made, job, at, cls))

    def _key_at(self, cls: JobClass, at: int) -> _Key:
        return (*self._keys[cls], *cls.members[at].order)

    def _judge(self, done: Pass, member: ClassedJob) -> None:
        """Record the verdict on a refused member, which holds for the members after it until something moves."""
        key, before = member.job.key, self._nearly
        found = nearly_of(self._ssn, member.job)
        if before:  # keep only the places that statements of this visit had, not those of earlier ones
            found = tuple([None if new is old else new for new, old in zip(found, before, strict=True)])
        notes = self._ssn.notes.get(key) if self._notes else None
        if notes is not None:
            member.cls.last = key
        done.verdicts.append(Judged(member, notes, found if any(found) else ()))

    def _moves(self) -> int:
        return self._ssn.moves + len(self._ssn.plan.failures)


class JobQueues:
    """The queues that have jobs for an action, in the plugins' order.

    Args:
        stage: Which jobs: `WAITING` or `PENDING`.
        wanted: Whether the action visits a job; called for one member of each class.
        notes: Whether the action makes notes on the jobs it visits.
    """

    def __init__(
        self, ssn: PluginAnswers, classes: JobClasses, stage: int, wanted: Callable[[Job], bool], *, notes: bool = True
    ) -> None:
        self._ssn = ssn
        self._queues: dict[str, JobQueue] = {}
        for cls, key in _with_keys(ssn, _wanted_classes(ssn, classes, stage, wanted)):
            found = self._queues.get(cls.queue_name)
            if found is None:
                found = JobQueue(ssn, classes, ssn.world.queues[cls.queue_name], notes=notes)
                self._queues[cls.queue_name] = found
            found.add(cls, key)
        self._ordered_at = self._stamp() if self._queues else 0
        self._heap = self._entries(list(self._queues))

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> JobQueue | None:
        """Remove and return the queue that is next; None when no queue has jobs left."""
        if not self._heap:
            return None
        stamp = self._stamp()
        if stamp != self._ordered_at:
            self._ordered_at = stamp
            self._heap = self._entries([name for _, name in self._heap])
        while self._heap:
            found = self._queues[heappop(self._heap)[1]]
            if found:
                return found
        return None

    def push(self, queue: JobQueue) -> None:
        """Put a popped queue back, to be visited again."""
        name = queue.queue.name
        if self._heap:
            heappush(self._heap, self._entry(name))
        else:
            self._heap = self._entries([name])

    def _entries(self, names: list[str]) -> list[tuple[Any, str]]:
        """Return a heap of queues by name; a single queue gets no key, which saves computing it."""
        heap = [((), name) for name in names] if len(names) == 1 else [self._entry(name) for name in names]
        heapify(heap)
        return heap

    def _entry(self, name: str) -> tuple[Any, str]:
        return self._ssn.queue_key(self._queues[name].queue), name

    def _stamp(self) -> int:
        """Return a number that grows when a decision may have changed the sort keys of other queues."""
        ssn = self._ssn
        return ssn.world.version if ssn.queue_keys_move else len(ssn.plan.evictions)


def starving_jobs(ssn: PluginAnswers, classes: JobClasses, wanted: Callable[[Job], bool] = lambda _: True) -> JobQueues:
    """Return the queues with the starving jobs, for which tasks may be evicted."""
    return JobQueues(ssn, classes, PENDING, lambda job: wanted(job) and ssn.job_starving(job), notes=False)


def jobs_in_order(
    ssn: PluginAnswers,
    classes: JobClasses,
    stage: int,
    wanted: Callable[[Job], bool],
    also: Mapping[str, Job] | None = None,
) -> list[Job]:
    """Return every job that an action wants, and the jobs of ``also``, by the current order of queues and jobs."""
    jobs = dict(also or {})
    for cls in _wanted_classes(ssn, classes, stage, wanted):
        jobs.update((member.job.key, member.job) for member in cls.members)
    order = {name: ssn.queue_key(ssn.world.queues[name]) for name in {job.queue_name for job in jobs.values()}}
    return sorted(jobs.values(), key=lambda job: (order[job.queue_name], ssn.job_key(job)))


def can_try(ssn: PluginAnswers, job: Job) -> bool:
    """Whether a job is valid; record a verdict on it when it is not."""
    validity = ssn.job_valid(job)
    if validity is None:
        return True
    verdict = Verdict("gang", validity.reason, validity.message)
    if verdict not in ssn.note(job).verdicts:
        ssn.record_verdict(job, verdict)
    return False


def _wanted_classes(
    ssn: PluginAnswers, classes: JobClasses, stage: int, wanted: Callable[[Job], bool]
) -> Iterable[JobClass]:
    """Yield the classes of known queues that an action visits; record a verdict on the invalid ones."""
    for cls in classes.of(stage):
        queue = ssn.world.queues.get(cls.queue_name)
        if queue is None or queue.view is None:
            continue
        first = cls.members[0]
        if stage == PENDING and not can_try(ssn, first.job):
            done = classes.begin_pass(cls)
            if done is not None:
                cls.last = first.job.key
                done.visited.add(cls.last)
                done.verdicts.append(Judged(first, ssn.notes[cls.last], ()))
        elif wanted(first.job):
            yield cls


def _with_keys(ssn: PluginAnswers, classes: Iterable[JobClass]) -> Iterable[tuple[JobClass, _Key]]:
    """Return classes with the sort key that plugins give their members."""
    found = list(classes)
    if not found:
        return ()
    return zip(found, ssn.job_plugin_keys([cls.members[0].job for cls in found]), strict=True)
