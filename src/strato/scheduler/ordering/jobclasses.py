"""`JobClasses`: waiting jobs in equivalence classes, so that a verdict on one of a class holds for all of it.

The class key of a job is all that the core and the plugins read of it (`Plugin.job_facts`). Jobs of one class differ in
name and age only. When one of them is visited and refused, the others would be refused for the same reasons as long as
no task has moved, so they are not visited (see `strato.scheduler.ordering.jobqueue`). `JobClasses.report` records the
verdict on these jobs once, and in later cycles only when it differs from the one before.

A job gets a class of its own where more than its class key decides: a plugin or action of the configuration declares
nothing about jobs, its pods have affinity rules about other pods or are selected by such rules, some of its pods run
already, or one of them has claims, host ports, gates or a nominated node.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

from strato.scheduler.cache.world import World
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import GroupCondition, GroupStatus, Notes, Plan, Transaction
from strato.scheduler.model.reasons import QUEUE_SHARE, FitErrors, Verdict

Order = tuple[str, str]
"""Creation time and key of a job: the order of the members of a class."""
Account = tuple[GroupCondition | None, tuple[tuple[str, str, str], ...], dict[int | str, FitErrors], "Nearly"]
"""A verdict without the job's own names: condition, reasons, why its task classes fit nowhere, places it nearly had."""
Nearly = tuple["Transaction | None", ...]
"""By task in order, the place that a discarded statement had for it; empty when there was none for any."""

WAITING: Final = 0
"""Stage of jobs that are not enqueued yet."""
PENDING: Final = 1
"""Stage of enqueued jobs that have pending tasks."""

_ACTIONS: Final = frozenset(("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"))
"""Actions that read nothing of a job but what its class key contains."""
_EVICTING: Final = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))
_CORE_FACTS: Final = ("min_available", "priority", "queue_name", "roles")
_TASK_FACTS: Final = attrgetter("cls", "role", "priority", "preemption_policy", "nominated")
_BY_ORDER: Final = attrgetter("order")


class ClassedJob:
    """A job in its class.

    Attributes:
        account: The account it was reported with; None when it has to be reported again.
        status: The status its PodGroup should have; None while it has not been computed.
    """

    __slots__ = ("account", "cls", "job", "order", "status")

    def __init__(self, job: Job, cls: JobClass) -> None:
        self.job = job
        self.cls = cls
        self.order: Order = (job.created, job.key)
        self.account: Account | None = None
        self.status: GroupStatus | None = None


class Judged(NamedTuple):
    """A verdict: the refused member, its notes (None if the action makes none), and places of discarded statements."""

    member: ClassedJob
    notes: Notes | None
    nearly: Nearly


class Pass:
    """One action's visits to the members of a class.

    Attributes:
        verdicts: In the order of members; each holds for the members after its own, up to that of the next verdict.
        visited: Keys of the members that were visited and still have pending tasks.
    """

    __slots__ = ("verdicts", "visited")

    def __init__(self) -> None:
        self.verdicts: list[Judged] = []
        self.visited: set[str] = set()

    def verdict_at(self, order: Order) -> Judged | None:
        """Return the verdict that holds for the members right after a position in the order."""
        return next((found for found in reversed(self.verdicts) if found.member.order <= order), None)


class JobClass:
    """Jobs that the core and all plugins treat the same, in order of creation.

    Attributes:
        has_equal_tasks: Whether the tasks within each member are known to be equal.
        passes: The passes of this cycle's actions, in order.
        account: The account most members were reported with; ``others``, by key, were reported with another or none.
        last: Key of the member that got the last verdict.
    """

    __slots__ = ("account", "has_equal_tasks", "key", "last", "members", "others", "passes", "queue_name", "stage")

    def __init__(self, key: Hashable, stage: int, queue_name: str) -> None:
        self.key = key
        self.stage = stage
        self.queue_name = queue_name
        self.members: list[ClassedJob] = []
        self.passes: list[Pass] = []
        self.account: Account | None = None
        self.others: dict[str, ClassedJob] = {}
        self.last = ""
        self.has_equal_tasks = stage == PENDING and isinstance(key, tuple) and len(key[1][2]) == 1

    def add(self, job: Job) -> ClassedJob:
        """Add a job."""
        member = ClassedJob(job, self)
        if not self.members or self.members[-1].order < member.order:
            self.members.append(member)  # the usual case, as jobs arrive in order of creation
        else:
            insort(self.members, member, key=_BY_ORDER)
        self.others[job.key] = member
        return member

    def remove(self, member: ClassedJob) -> None:
        """Remove a member."""
        first = self.members[0] is member
        del self.members[0 if first else bisect_left(self.members, member.order, key=_BY_ORDER)]
        self.others.pop(member.job.key, None)

    @property
    def is_judged(self) -> bool:
        """Whether this cycle has verdicts with notes, which also hold for members that were not visited."""
        return any(found.notes is not None for done in self.passes for found in done.verdicts)

    def give(self, ssn: PluginAnswers, member: ClassedJob, passes: Sequence[Pass]) -> None:
        """Copy to a member the verdicts that hold for it, from the passes after the last one that visited it."""
        visits = [at for at, done in enumerate(passes) if member.job.key in done.visited]
        for done in passes[visits[-1] + 1 if visits else 0 :]:
            found = done.verdict_at(member.order)
            if found is not None:
                give_notes(ssn, member.job, found)

    def reported(self, member: ClassedJob, account: Account | None) -> None:
        """Record the account that a member was reported with."""
        if account is not None and account == self.account:
            member.account = self.account
            self.others.pop(member.job.key, None)
        else:
            member.account = account
            self.others[member.job.key] = member

    def report(self, ssn: PluginAnswers, visited: Iterable[ClassedJob]) -> None:
        """Copy this cycle's verdicts to the visited members, and to members last reported with another account."""
        for member in visited:
            self.give(ssn, member, self.passes)
        starts = sorted({found.member.order for done in self.passes for found in done.verdicts})
        accounts = [self._account_at(start) for start in starts]
        if accounts[-1] != self.account:
            self.account = accounts[-1]
            self.others = {member.job.key: member for member in self.members}
        ends = [*starts[1:], self.members[-1].order]
        for account, start, end in zip(accounts, starts, ends, strict=True):
            if account == self.account:
                members = [other for other in self.others.values() if start < other.order <= end]
            else:
                members = self.members[self._after(start) : self._after(end)]
            for member in members:
                if member.account == account:
                    self.reported(member, account)
                elif not any(member.job.key in done.visited for done in self.passes):
                    self.give(ssn, member, self.passes)

    def _account_at(self, order: Order) -> Account:
        """Return the account of the members right after a position in the order that no pass has visited."""
        notes: Notes | None = None
        nearly: Nearly = ()
        for done in self.passes:
            found = done.verdict_at(order)
            if found is not None:
                notes = found.notes or notes
                nearly = _overlaid(nearly, found.nearly)
        return account_of(notes, nearly)

    def _after(self, order: Order) -> int:
        return bisect_right(self.members, order, key=_BY_ORDER)


class JobClasses:
    """The job classes of one world and one configuration; updated for the jobs in ``World.dirty_jobs`` only.

    Args:
        apart: Whether every job gets a class of its own: each is visited, and its verdict reported, in every cycle.

    Attributes:
        members: By key, every job that waits to be enqueued or has pending tasks.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self._all_apart = apart
        self._apart = apart
        self._affinity_generation = 0
        self._config: Config | None = None
        self._facts: Callable[[Job], Hashable] | None = None
        self._world: World | None = None
        self._unwritten: dict[str, ClassedJob] = {}
        self._classes: tuple[dict[Hashable, JobClass], dict[Hashable, JobClass]] = {}, {}
        self._passed: list[JobClass] = []
        self.members: dict[str, ClassedJob] = {}

    def open(self, world: World, config: Config) -> None:
        """Begin a cycle."""
        if config is not self._config:
            self.forget()
            names = facts_of(config)
            self._config, self._facts = config, None if names is None else attrgetter(*names)
        apart = self._all_apart or self._facts is None
        if apart != self._apart or world.affinity.generation != self._affinity_generation:
            self.forget()
            self._apart, self._affinity_generation = apart, world.affinity.generation
        if self._world is not world or world.dirty_for is not self:
            self.forget()
            self._world, world.dirty_for = world, self
            world.dirty_jobs = dict.fromkeys([*world.with_pending, *world.waiting_for_queue])
        for cls in self._passed:
            cls.passes = []
        self._passed = []
        self.sync()
        if not apart:
            members = [self.members[key] for key in world.status_dirty if key in self.members]
            self._unwritten.update((member.job.key, member) for member in members)
        world.status_dirty = {}

    def forget(self) -> None:
        """Forget every job, so that all verdicts are reported again."""
        if self._world is not None and self._world.dirty_for is self:
            self._world.dirty_for = None
        self._world = None
        self._unwritten, self._classes, self._passed, self.members = {}, ({}, {}), [], {}

    # -- classes -------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Move every dirty job to the class it belongs to now."""
        world = self._world
        assert world is not None
        waiting, pending, members = world.waiting_for_queue, world.with_pending, self.members
        for key in world.dirty_jobs:
            stage, job = WAITING, waiting.get(key)
            if job is None:
                stage, job = PENDING, pending.get(key)
                if job is not None and job.is_waiting_for_queue:
                    job = None
            if job is not None or key in members:
                self._classify(world, key, stage, job)
        world.dirty_jobs = {}

    def of(self, stage: int) -> list[JobClass]:
        """Return the classes of a stage, after `sync`."""
        self.sync()
        return list(self._classes[stage].values())

    def _classify(self, world: World, key: str, stage: int, job: Job | None) -> None:
        """Move a job to its class at a stage; ``job`` None removes it from its class."""
        member = self.members.get(key)
        found = None if job is None else self._key_of(world, stage, job)
        if member is not None:
            self._unwritten.pop(key, None)
            cls = member.cls
            if member.job is job and found == cls.key and stage == cls.stage and member.order[0] == member.job.created:
                cls.reported(member, None)
                return
            del self.members[key]
            cls.remove(member)
            if not cls.members:
                del self._classes[cls.stage][cls.key]
        if job is not None:
            classes = self._classes[stage]
            into = classes.get(found)
            if into is None:
                into = classes[found] = JobClass(found, stage, job.queue_name)
            self.members[key] = into.add(job)

    def _key_of(self, world: World, stage: int, job: Job) -> Hashable:
        if self._apart or self._facts is None:
            return job.key
        mine = waiting_facts(job) if stage == WAITING else pending_facts(world, job)
        if mine is None:
            return job.key
        return self._facts(job), mine

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def begin_pass(self, cls: JobClass) -> Pass | None:
        """Begin a pass for an action; None for a class of one member, whose verdict holds for no other job."""
        if len(cls.members) < 2 and not cls.passes:
            return None
        if not cls.passes:
            self._passed.append(cls)
        cls.passes.append(Pass())
        return cls.passes[-1]

    def report(self, ssn: PluginAnswers) -> None:
        """Report this cycle's verdicts on members last reported with other ones; called once, after the last action."""
        self.sync()
        judged = [cls for cls in self._passed if cls.members and any(done.verdicts for done in cls.passes)]
        for cls in judged:
            visited = [self.members.get(key) for done in cls.passes for key in done.visited]
            cls.report(ssn, [member for member in visited if member is not None and member.cls is cls])
        quiet = sum(len(cls.members) * len(cls.members[0].job.pending) for cls in judged if cls.is_judged)
        for key, notes in ssn.notes.items():
            member = self.members.get(key)
            if member is not None and (len(member.cls.members) > 1 or member.cls.passes):
                member.cls.reported(member, account_of(notes, nearly_of(ssn, member.job)))
                quiet -= len(member.job.pending) if member.cls.is_judged else 0
        ssn.plan.quiet_pods = quiet

    def has_equal_tasks(self, job: Job) -> bool:
        """Whether the tasks of a pending job differ in name and age only; False where that is not known."""
        member = self.members.get(job.key)
        return member is not None and member.cls.has_equal_tasks

    def visited_for(self, key: str) -> str:
        """Return the key of the job whose verdict a job got last, being of its class; empty without one."""
        member = self.members.get(key)
        return member.cls.last if member is not None else ""

    # -- statuses ------------------------------------------------------------------------------------------------------

    def wants(self, status: GroupStatus) -> None:
        """Record the status that a job's PodGroup should have."""
        member = self.members.get(status.job.key)
        if member is not None and not self._apart:
            member.status = status
            self._unwritten[status.job.key] = member

    def hand_on(self, plan: Plan, closed: Collection[str]) -> None:
        """Add unwritten statuses of jobs that were not visited to the plan; those of ``closed`` are in it already."""
        for key, member in list(self._unwritten.items()):
            if member.status is None or not member.status.is_news:
                del self._unwritten[key]
            elif key not in closed and member.cls.is_judged:
                plan.groups.append(member.status)


# -- class keys --------------------------------------------------------------------------------------------------------


def facts_of(config: Config) -> Sequence[str] | None:
    """Return the job attributes that plugins and core read; None when a plugin or an action does not declare them.

    A plugin class has to declare its own ``job_facts``: those of a base class do not count.
    """
    if not _ACTIONS.issuperset(config.actions) or len(set(config.actions)) < len(config.actions):
        return None
    if config.topology_aware:
        return None  # topology-aware preemption draws a random number for every job it visits
    named = [vars(option.plugin).get("job_facts") for tier in config.tiers for option in tier]
    if None in named:
        return None
    facts = {*_CORE_FACTS, *(name for names in named for name in names or ())}
    if "stated_seconds" in facts and not _EVICTING.isdisjoint(config.actions):
        return None  # easy keeps nodes for one job; a job that is refused on these may be pipelined on another node
    return sorted(facts)


def waiting_facts(job: Job) -> Hashable:
    """Return what the core reads of a job to enqueue it; None to give it a class of its own."""
    if job.group is None or not _is_plain(job) or any(task.cls.uses_claims for task in job.pending.values()):
        return None
    return job.phase, job.minimum, len(job.pending)


def pending_facts(world: World, job: Job) -> tuple[bool, int, tuple[Any, ...]] | None:
    """Return what the core reads of a job to place it; None to give it a class of its own.

    The facts of its tasks come last: only one entry when all tasks are equal.
    """
    pending = job.pending
    if not _is_plain(job) or job.key in world.for_flow or world.evictions.serve_any(pending):
        return None
    if world.queue_gated and not world.queue_gated.keys().isdisjoint(pending):
        return None
    if world.affinity and any(world.has_rules_about(task) for task in pending.values()):
        return None
    facts = set(map(_TASK_FACTS, pending.values()))
    for cls, *_, nominated in facts:
        if nominated or cls.uses_claims or cls.host_ports or cls.pairwise:
            return None
    if len(facts) == 1:
        return job.solo, len(pending), tuple(facts)
    return job.solo, len(pending), tuple(map(_TASK_FACTS, sorted(pending.values(), key=_BY_ORDER)))


def _is_plain(job: Job) -> bool:
    """Whether all pods of a job are pending, ungated and request something, and it has no sub-jobs."""
    return job.layout is None and not job.gated and not job.pending_best_effort and len(job.pending) == len(job.tasks)


# -- accounts of members -----------------------------------------------------------------------------------------------


def account_of(notes: Notes | None, nearly: Nearly) -> Account:
    """Return the account of a job's notes; without the text about a queue's share, as that names a task."""
    if notes is None:
        return None, (), {}, nearly
    reasons = tuple([(v.plugin, v.code, "" if v.code == QUEUE_SHARE else v.text) for v in notes.verdicts])
    return notes.condition, reasons, notes.errors, nearly


def nearly_of(ssn: PluginAnswers, job: Job) -> Nearly:
    """Return the places that discarded statements had for the pending tasks of a job."""
    if not ssn.nearly_placed(job):
        return ()
    return tuple([ssn.transactions.get(task.key) for task in ssn.sorted_tasks(job.pending.values())])


def _overlaid(nearly: Nearly, later: Nearly) -> Nearly:
    if not (nearly and later):
        return nearly or later
    return tuple([new or old for old, new in zip(nearly, later, strict=True)])


def give_notes(ssn: PluginAnswers, job: Job, found: Judged) -> None:
    """Copy the notes on another job of the class to a job; texts that name a task get the job's own."""
    notes = found.notes
    if notes is not None:
        mine = ssn.note(job)
        mine.condition, mine.errors, mine.failed_roles = notes.condition, dict(notes.errors), set(notes.failed_roles)
        mine.verdicts = list(notes.verdicts)
        if any(verdict.code == QUEUE_SHARE for verdict in notes.verdicts):
            _rename_tasks(ssn, job, found.member.job, mine.verdicts)
    if found.nearly:
        ssn.note(job)
        job.last_verdicts = None
        for task, last in zip(ssn.sorted_tasks(job.pending.values()), found.nearly, strict=True):
            if last is not None:
                ssn.transactions[task.key] = last


def _rename_tasks(ssn: PluginAnswers, job: Job, other: Job, verdicts: list[Verdict]) -> None:
    """Replace the other job's tasks in texts about a queue's share by the job's own."""
    pairs = zip(ssn.sorted_tasks(other.tasks.values()), ssn.sorted_tasks(job.tasks.values()), strict=True)
    own = {theirs.key: task.key for theirs, task in pairs}
    for at, verdict in enumerate(verdicts):
        if verdict.code == QUEUE_SHARE:
            text, _, key = verdict.text.rpartition(" ")
            verdicts[at] = replace(verdict, text=f"{text} {own[key]}")
