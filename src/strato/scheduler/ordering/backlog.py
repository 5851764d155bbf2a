"""`Backlog`: jobs that were refused and told why, kept in crowds of equals, so that a cycle asks one of each.

A long queue is mostly made of jobs that differ in nothing but their names. Asking each in every cycle costs as much as
the queue is long, although all of them are refused on one account: their queue has no share left, no node has room. So
a job that was refused joins the crowd of those that are like it. In the next cycle the first of a crowd is asked as
ever. If it is refused, nothing has moved, and so the others would be refused on the same account, one after the other;
those that were told just that are passed over, and those that were told something else are asked as ever. As soon as
anything moves (somebody gets a place), the next of each crowd is asked again.

Why this decides and says what asking everybody decides and says:

- Whatever changes about a job takes it out of its crowd (`Accounts.stirred`); it is asked by itself.
- Two jobs are alike only in what plugins that declare `Plugin.same_for_alike`, the core and the words they are told may
  look at, their names and ages apart. With any other plugin or action configured there are no crowds, nor while pods
  have rules about other pods.
- Jobs of a crowd stand in order, and what stands between two of them is asked between them.
- What they were told stands with whoever was told just that. A job whose pods were told of a place that they nearly
  had (`Session.nearly_placed`) is asked again. A status that is not written yet is handed on in every cycle.
- Actions that take from others ask one of each crowd in every cycle, and the next of each as soon as anything moved,
  if only to be undone (`scheduler.actions.starving`). A job that is asked then, though it was passed over before,
  first gets the notes that it would have by now (`Room.call`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import Condition, GroupStatus, Plan
from strato.scheduler.model.reasons import QUEUE_SHARE, FitErrors
from strato.scheduler.reporting.status import status_differs

if TYPE_CHECKING:
    from strato.scheduler.config import Config
    from strato.scheduler.session import Notes, Session

Account = tuple[Condition | None, tuple[tuple[str, str, str], ...], dict[int | str, FitErrors]]
"""What a refusal rests on, without the job's own names: condition, verdicts, and why its classes fit nowhere."""
Order = tuple[str, str]
"""When a job was made, and its key."""

_ACTIONS: Final = frozenset(("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"))
_BY_ORDER = attrgetter("order")


class Waiter:
    """A job in a crowd.

    Attributes:
        account: What it was told; None when that is not known, or its pods were told something else.
        turn: The room's turn in which it was asked last.
        pods: How many pods it waits with.
        wanted: The status its group should have; None for a job without a group.
        closed: The cycle in which that was found.
    """

    __slots__ = ("account", "closed", "crowd", "job", "order", "pods", "turn", "wanted")

    def __init__(self, job: Job, crowd: Crowd, turn: int) -> None:
        self.job = job
        self.crowd = crowd
        self.order: Order = (job.created, job.key)
        self.account: Account | None = None
        self.turn = turn
        self.pods = len(job.pending)
        self.wanted: GroupStatus | None = None
        self.closed = -1


class Crowd:
    """Jobs that are alike, in order.

    Attributes:
        account: What most of them were told; ``odd`` are the others, by key.
        pods: How many pods they wait with, together.
        asked: Key of the one that was asked last.
        heard: Accounts given in the room's turn ``heard_in``, with who got each first, and the notes.
    """

    def __init__(self, likeness: Hashable, queue_name: str) -> None:
        self.likeness = likeness
        self.queue_name = queue_name
        self.waiters: list[Waiter] = []
        self.account: Account | None = None
        self.odd: dict[str, Waiter] = {}
        self.pods = 0
        self.asked = ""
        self.heard: list[tuple[Account, Job, Notes]] = []
        self.heard_in = -1

    def add(self, waiter: Waiter) -> None:
        """Take a job in."""
        insort(self.waiters, waiter, key=_BY_ORDER)
        self.pods += waiter.pods
        self.odd[waiter.job.key] = waiter

    def remove(self, waiter: Waiter) -> None:
        """Let a job go."""
        del self.waiters[bisect_left(self.waiters, waiter.order, key=_BY_ORDER)]
        self.pods -= waiter.pods
        self.odd.pop(waiter.job.key, None)

    def tell(self, waiter: Waiter, account: Account | None) -> None:
        """Note what a job was told."""
        self.asked = waiter.job.key
        if account is not None and account == self.account:
            waiter.account = self.account
            self.odd.pop(waiter.job.key, None)
            return
        waiter.account = account
        self.odd[waiter.job.key] = waiter
        if account is not None and 2 * len(self.odd) > len(self.waiters):  # most were told something else than before
            self.account = account
            self.odd = {}
            for other in self.waiters:
                if other.account == account:
                    other.account = account
                else:
                    self.odd[other.job.key] = other

    def hear(self, turn: int, account: Account, job: Job, notes: Notes) -> None:
        """Note the account that a job got in a turn."""
        if self.heard_in != turn:
            self.heard, self.heard_in = [], turn
        if not self.heard or self.heard[-1][0] != account:
            self.heard.append((account, job, notes))

    def to_tell(self, account: Account) -> list[Waiter]:
        """Return the jobs that were not told this, in no order."""
        some = self.odd.values() if account == self.account else self.waiters
        return [waiter for waiter in some if waiter.account is None or waiter.account != account]


class Room:
    """The jobs that one action asks.

    Args:
        likeness: Returns what tells a job from those that are like it; None for one that stays by itself.

    Attributes:
        loose: Jobs that are asked by themselves, by key.
        crowds: The others.
        turn: Grows with every execution of the action.
        begun: Whether the action has been executed in this cycle.
        quiet: Pods of the crowds that joined in this turn, less those of jobs that were asked.
    """

    def __init__(self, likeness: Callable[[World, Job], Hashable]) -> None:
        self._likeness = likeness
        self.loose: dict[str, Job] = {}
        self.crowds: dict[Hashable, Crowd] = {}
        self.waiters: dict[str, Waiter] = {}
        self.turn = 0
        self.begun = False
        self.quiet = 0

    def begin(self) -> None:
        """Begin a turn."""
        self.turn += 1
        self.begun = True
        self.quiet = 0

    def take(self, key: str, job: Job | None) -> None:
        """Let a job stand by itself, or forget it."""
        waiter = self.waiters.pop(key, None)
        if waiter is not None:
            waiter.crowd.remove(waiter)
            if not waiter.crowd.waiters:
                del self.crowds[waiter.crowd.likeness]
        if job is None:
            self.loose.pop(key, None)
        else:
            self.loose[key] = job

    def call(self, ssn: Session, job: Job) -> None:
        """Give a job that was passed over in this turn, and is asked by another action now, the notes it would have."""
        waiter = self.waiters.get(job.key)
        if waiter is None or not self.begun or waiter.turn == self.turn:
            return
        waiter.turn = self.turn
        self.quiet -= waiter.pods
        if waiter.crowd.heard_in == self.turn:
            for account, other, notes in waiter.crowd.heard:
                if account == waiter.account:
                    _take_notes(ssn, job, other, notes)
                    return

    def refused(self, world: World, job: Job, account: Account | None) -> None:
        """Let a job that was refused join those that are like it; no account when its pods are told something else."""
        likeness = self._likeness(world, job)
        if likeness is None:
            return
        crowd = self.crowds.get(likeness)
        if crowd is None:
            crowd = self.crowds[likeness] = Crowd(likeness, job.queue_name)
        del self.loose[job.key]
        waiter = self.waiters[job.key] = Waiter(job, crowd, self.turn)
        crowd.add(waiter)
        crowd.tell(waiter, account)


class Backlog:
    """The crowds of one world and one configuration.

    Attributes:
        waiting: Jobs that wait for their queue (action enqueue).
        pending: Jobs that wait for places (action allocate).
    """

    def __init__(self) -> None:
        self._config: Config | None = None
        self._serves = False
        self._world: World | None = None
        self._cycle = 0
        self._unwritten: dict[str, Waiter] = {}
        self.waiting = Room(alike_waiting)
        self.pending = Room(alike_pending)

    def open(self, world: World, config: Config) -> bool:
        """Begin a cycle; return whether there may be crowds in it."""
        if config is not self._config:
            self._config, self._serves = config, only_same_for_alike(config)
        if not self._serves or world.pairwise:
            self.forget()
            if world.watched_by is None:  # nobody else empties them
                world.stirred, world.restated = {}, {}
            return False
        self._cycle += 1
        if self._world is not world or world.watched_by is not self:
            self.forget()
            self._world, world.watched_by = world, self
            world.stirred, world.restated = dict.fromkeys([*world.with_pending, *world.waiting_for_queue]), {}
        self.sync()
        for key in world.restated:
            waiter = self._waiter(key)
            if waiter is not None:
                self._unwritten[key] = waiter
        world.restated = {}
        for room in (self.waiting, self.pending):
            room.begun, room.quiet = False, 0
        return True

    def sync(self) -> None:
        """Let every job that changed stand by itself."""
        world = self._world
        assert world is not None
        for key in world.stirred:
            self._unwritten.pop(key, None)
            self.waiting.take(key, world.waiting_for_queue.get(key))
            job = world.with_pending.get(key)
            self.pending.take(key, None if job is None or job.is_waiting_for_queue else job)
        world.stirred = {}

    def forget(self) -> None:
        """Forget every job; all are asked by themselves next."""
        if self._world is not None and self._world.watched_by is self:
            self._world.watched_by = None
        self._world = None
        self._unwritten = {}
        self.waiting, self.pending = Room(alike_waiting), Room(alike_pending)

    def wants(self, status: GroupStatus) -> None:
        """Note the status that the group of a job that was looked at should have."""
        waiter = self._waiter(status.job.key)
        if waiter is not None:
            waiter.wanted, waiter.closed = status, self._cycle
            self._unwritten[status.job.key] = waiter

    def close(self, plan: Plan) -> None:
        """Hand on the statuses of jobs that were passed over and are not written yet."""
        for key, waiter in list(self._unwritten.items()):
            if waiter.wanted is None or not status_differs(waiter.job, waiter.wanted):
                del self._unwritten[key]
            elif waiter.closed != self._cycle:
                plan.groups.append(waiter.wanted)
        plan.quiet_pods = self.waiting.quiet + self.pending.quiet

    def stand_in(self, key: str) -> str:
        """Return the key of the job that was asked last instead of a job; empty when it stands for itself."""
        waiter = self._waiter(key)
        return waiter.crowd.asked if waiter is not None else ""

    def _waiter(self, key: str) -> Waiter | None:
        return self.pending.waiters.get(key) or self.waiting.waiters.get(key)


def only_same_for_alike(config: Config) -> bool:
    """Whether every action and plugin of a configuration treats jobs that are alike the same.

    A class that inherits from one that says so has to say so itself.
    """
    once = len(set(config.actions)) == len(config.actions)
    if config.topology_aware:
        return False  # every job that is asked throws dice
    plugins = {option.plugin for tier in config.tiers for option in tier}
    return (
        once and _ACTIONS.issuperset(config.actions) and all(vars(plugin).get("same_for_alike") for plugin in plugins)
    )


def account_of(notes: Notes) -> Account:
    """Return what a job's refusal rests on; the words about a queue's share hold nothing more but a name of its own."""
    said = tuple([(v.plugin, v.code, "" if v.code == QUEUE_SHARE else v.text) for v in notes.verdicts])
    return notes.condition, said, notes.errors


def _take_notes(ssn: Session, job: Job, other: Job, notes: Notes) -> None:
    """Note on a job what was noted on one like it; words about a queue's share name its own tasks."""
    mine = ssn.note(job)
    mine.errors, mine.failed_roles = dict(notes.errors), set(notes.failed_roles)
    pairs = zip(ssn.sorted_tasks(other.tasks.values()), ssn.sorted_tasks(job.tasks.values()), strict=True)
    own = {theirs.key: task.key for theirs, task in pairs}
    for verdict in notes.verdicts:
        if verdict.code == QUEUE_SHARE:
            words, _, key = verdict.text.rpartition(" ")
            mine.verdicts.append(replace(verdict, text=f"{words} {own[key]}"))
        else:
            mine.verdicts.append(verdict)


def alike_waiting(world: World, job: Job) -> Hashable:
    """Return what decides whether a job is let into its queue; None when more than that does."""
    group = job.group
    if group is None or not _is_plain(job) or any(task.cls.uses_claims for task in job.pending.values()):
        return None
    asks = None if group.spec.min_resources is None else tuple(group.spec.min_resources.items())
    return (*_of_group(job), asks, job.phase)


def alike_pending(world: World, job: Job) -> Hashable:
    """Return what decides whether a job gets places; None when more than that does."""
    if not job.pending or not _is_plain(job) or job.key in world.for_flow:
        return None
    if world.evictions.serve_any(job.pending):
        return None
    tasks = list(job.pending.values())
    for task in tasks:
        if task.nominated or task.cls.uses_claims or task.cls.host_ports or task.key in world.queue_gated:
            return None
    if len(tasks) > 1:
        tasks.sort(key=_BY_ORDER)
    facts = [(task.cls.number, task.role, task.priority, task.pod.spec.preemption_policy) for task in tasks]
    return (*_of_group(job), job.solo, tuple(facts))


def _is_plain(job: Job) -> bool:
    """Whether all pods of a job merely wait, and it is looked at as one."""
    return job.layout is None and not job.gated and not job.pending_best_effort and len(job.pending) == len(job.tasks)


def _of_group(job: Job) -> tuple[Hashable, ...]:
    roles = tuple(job.min_task.items()) if job.min_task else ()
    return job.queue_name, job.namespace, job.priority, job.min_available, roles
