"""`JobClasses`: waiting jobs in equivalence classes, so that a verdict on one of a class holds for all of it.

The class key of a job is what the core and all plugins look at in it (`Plugin.job_facts`). Jobs of one class differ in
name and age only: when one is visited and refused and nothing moved meanwhile, the others would be refused on the same
account, so they are not visited (see `strato.scheduler.ordering.jobqueue`). They are told that verdict once
(`JobClasses.tell`), and in later cycles only when it differs from what they were told before.

A job is kept apart, in a class of its own, where more than its class key decides: a plugin or action of the
configuration says nothing of jobs, pods have rules about other pods, some of its pods run already, or one of them has
claims, host ports, gates or a promised node.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import Condition, GroupStatus, Plan
from strato.scheduler.model.reasons import QUEUE_SHARE, FitErrors

if TYPE_CHECKING:
    from strato.scheduler.framework.options import Config
    from strato.scheduler.framework.pluginanswers import PluginAnswers
    from strato.scheduler.model.plan import Notes

Order = tuple[str, str]
"""When a job was made, and its key."""
Account = tuple[Condition | None, tuple[tuple[str, str, str], ...], dict[int | str, FitErrors]]
"""What a verdict says, without the job's own names: condition, reasons, and why its task classes fit nowhere."""

WAITING: Final = 0
"""Stage of jobs that wait for their queue."""
PENDING: Final = 1
"""Stage of jobs in their queue that have pending tasks."""

_ACTIONS: Final = frozenset(("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"))
"""Actions that look at nothing of a job but what its class key holds."""
_CORE_FACTS: Final = ("min_available", "priority", "queue_name", "roles")
_BY_ORDER: Final = attrgetter("order")


class Member:
    """A job in its class.

    Attributes:
        account: What it was told; None when it has to be told again.
        status: The status its group should have; None while it was not looked at.
    """

    __slots__ = ("account", "cls", "job", "order", "status")

    def __init__(self, job: Job, cls: JobClass) -> None:
        self.job = job
        self.cls = cls
        self.order: Order = (job.created, job.key)
        self.account: Account | None = None
        self.status: GroupStatus | None = None


class JobClass:
    """Jobs that the core and all plugins treat the same, in the order of their making.

    Attributes:
        verdicts: Those of this cycle: whom each was given to, and the notes on it. It holds from that member to the
            one that the next was given to.
        account: What most members were told; ``others`` are those who were told something else, by key.
        visited: Key of the member whose verdict was the last.
    """

    __slots__ = ("account", "key", "members", "others", "queue_name", "stage", "verdicts", "visited")

    def __init__(self, key: Hashable, stage: int, queue_name: str) -> None:
        self.key = key
        self.stage = stage
        self.queue_name = queue_name
        self.members: list[Member] = []
        self.verdicts: list[tuple[Member, Notes]] = []
        self.account: Account | None = None
        self.others: dict[str, Member] = {}
        self.visited = ""

    def add(self, job: Job) -> Member:
        """Take a job in."""
        member = Member(job, self)
        if not self.members or self.members[-1].order < member.order:
            self.members.append(member)  # as they are made, mostly
        else:
            insort(self.members, member, key=_BY_ORDER)
        self.others[job.key] = member
        return member

    def remove(self, member: Member) -> None:
        """Let a member go."""
        del self.members[bisect_left(self.members, member.order, key=_BY_ORDER)]
        self.others.pop(member.job.key, None)

    def notes_for(self, member: Member) -> tuple[Member, Notes] | None:
        """Return the verdict of this cycle that holds for a member which was not visited."""
        return next((found for found in reversed(self.verdicts) if found[0].order < member.order), None)

    def told(self, member: Member, account: Account | None) -> None:
        """Note what a member was told."""
        if account is not None and account == self.account:
            member.account = self.account
            self.others.pop(member.job.key, None)
        else:
            member.account = account
            self.others[member.job.key] = member

    def tell(self, ssn: PluginAnswers) -> None:
        """Give the verdicts of this cycle to the members that were told something else."""
        accounts = [account_of(notes) for _, notes in self.verdicts]
        if accounts[-1] != self.account:
            self.account = accounts[-1]
            self.others = {member.job.key: member for member in self.members}
        starts = [bisect_right(self.members, member.order, key=_BY_ORDER) for member, _ in self.verdicts]
        ends = [*starts[1:], len(self.members)]
        for (visited, notes), account, start, end in zip(self.verdicts, accounts, starts, ends, strict=True):
            members = self.members[start:end]
            if members and account == self.account:
                last = members[-1].order
                members = [member for member in self.others.values() if visited.order < member.order <= last]
            for member in members:
                if member.account == account:
                    self.told(member, account)
                elif member.job.key not in ssn.notes:
                    give_notes(ssn, member.job, visited.job, notes)


class JobClasses:
    """The classes of one world and one configuration, kept current job by job.

    Args:
        apart: Whether every job is kept apart: each is visited and told its verdict in every cycle.

    Attributes:
        members: Every job that waits for its queue or for places, by key.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self._all_apart = apart
        self._apart = apart
        self._config: Config | None = None
        self._facts: Callable[[Job], Hashable] | None = None
        self._world: World | None = None
        self._unwritten: dict[str, Member] = {}
        self._classes: tuple[dict[Hashable, JobClass], dict[Hashable, JobClass]] = {}, {}
        self._judged: list[JobClass] = []
        self.members: dict[str, Member] = {}

    def open(self, world: World, config: Config) -> None:
        """Begin a cycle."""
        if config is not self._config:
            self.forget()
            names = facts_of(config)
            self._config, self._facts = config, None if names is None else attrgetter(*names)
        apart = self._all_apart or self._facts is None or bool(world.pairwise)
        if apart != self._apart:
            self.forget()
            self._apart = apart
        if self._world is not world or world.dirty_for is not self:
            self.forget()
            self._world, world.dirty_for = world, self
            world.dirty_jobs = dict.fromkeys([*world.with_pending, *world.waiting_for_queue])
        for cls in self._judged:
            cls.verdicts = []
        self._judged = []
        self.sync()
        if not apart:
            members = [self.members[key] for key in world.status_dirty if key in self.members]
            self._unwritten.update((member.job.key, member) for member in members)
        world.status_dirty = {}

    def forget(self) -> None:
        """Forget every job; all are told again."""
        if self._world is not None and self._world.dirty_for is self:
            self._world.dirty_for = None
        self._world = None
        self._unwritten, self._classes, self._judged, self.members = {}, ({}, {}), [], {}

    # -- classes -------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Put every job that changed into the class it belongs to now."""
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
        """Return the classes of a stage, as things stand now."""
        self.sync()
        return list(self._classes[stage].values())

    def _classify(self, world: World, key: str, stage: int, job: Job | None) -> None:
        """Put a job into its class; no job takes it out of the one it was in."""
        self._unwritten.pop(key, None)
        found = None if job is None else self._key_of(world, stage, job)
        member = self.members.get(key)
        if member is not None:
            cls = member.cls
            if member.job is job and (found, stage) == (cls.key, cls.stage) and member.order[0] == member.job.created:
                cls.told(member, None)
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
        return mine, self._facts(job)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def judge(self, ssn: PluginAnswers, member: Member) -> None:
        """Note that a member was refused and nothing moved: its notes hold for the members after it."""
        notes, cls = ssn.notes.get(member.job.key), member.cls
        if notes is None or len(cls.members) == 1:
            return
        cls.visited = member.job.key
        if not cls.verdicts:
            self._judged.append(cls)
        cls.verdicts.append((member, notes))

    def catch_up(self, ssn: PluginAnswers, member: Member) -> None:
        """Give a member that needed no visit the notes it would have by now: another action visits it."""
        found = member.cls.notes_for(member)
        if found is not None and member.job.key not in ssn.notes:
            give_notes(ssn, member.job, found[0].job, found[1])

    def tell(self, ssn: PluginAnswers) -> None:
        """Give the verdicts of this cycle to whoever was told something else; once, after the last action."""
        self.sync()
        for cls in self._judged:
            if cls.members:
                cls.tell(ssn)
        noted = 0
        for key, notes in ssn.notes.items():
            member = self.members.get(key)
            if member is not None and (len(member.cls.members) > 1 or member.cls.verdicts):
                # pods that nearly had a place are told of that, which the notes do not say
                member.cls.told(member, None if ssn.nearly_placed(member.job) else account_of(notes))
                noted += len(member.job.pending) if member.cls.verdicts else 0
        judged = sum(len(cls.members) * len(cls.members[0].job.pending) for cls in self._judged if cls.members)
        ssn.plan.quiet_pods = judged - noted

    def visited_for(self, key: str) -> str:
        """Return the key of the job that was visited last instead of a job; empty when it was none."""
        member = self.members.get(key)
        return member.cls.visited if member is not None else ""

    # -- statuses ------------------------------------------------------------------------------------------------------

    def wants(self, status: GroupStatus) -> None:
        """Note the status that the group of a job that was looked at should have."""
        member = self.members.get(status.job.key)
        if member is not None and not self._apart:
            member.status = status
            self._unwritten[status.job.key] = member

    def hand_on(self, plan: Plan, closed: Collection[str]) -> None:
        """Put statuses that are not written yet of jobs that needed no visit into the plan; ``closed`` are in it."""
        for key, member in list(self._unwritten.items()):
            if member.status is None or not member.status.is_news:
                del self._unwritten[key]
            elif key not in closed and member.cls.verdicts:
                plan.groups.append(member.status)


# -- class keys --------------------------------------------------------------------------------------------------------


def facts_of(config: Config) -> Sequence[str] | None:
    """Return what of a job counts for the plugins and the core; None when a plugin or an action does not say.

    A class that inherits from one that says it has to say it itself.
    """
    if not _ACTIONS.issuperset(config.actions) or len(set(config.actions)) < len(config.actions):
        return None
    if config.topology_aware:
        return None  # a random number for every job that is visited
    named = [vars(option.plugin).get("job_facts") for tier in config.tiers for option in tier]
    return None if None in named else sorted({*_CORE_FACTS, *(name for names in named for name in names or ())})


def waiting_facts(job: Job) -> Hashable:
    """Return what of a job decides whether it is let into its queue, plugins aside; None to keep it apart."""
    if job.group is None or not _is_plain(job) or any(task.cls.uses_claims for task in job.pending.values()):
        return None
    return job.phase, job.minimum, len(job.pending)


def pending_facts(world: World, job: Job) -> Hashable:
    """Return what of a job decides whether it gets places, plugins aside; None to keep it apart."""
    pending = job.pending
    if not _is_plain(job) or job.key in world.for_flow or world.evictions.serve_any(pending):
        return None
    if world.queue_gated and not world.queue_gated.keys().isdisjoint(pending):
        return None
    facts = {(t.cls, t.role, t.priority, t.pod.spec.preemption_policy, t.nominated) for t in pending.values()}
    if any(nominated or cls.uses_claims or cls.host_ports for cls, _, _, _, nominated in facts):
        return None
    if len(facts) == 1:
        return job.solo, len(pending), *facts
    ordered = sorted(pending.values(), key=_BY_ORDER)
    return job.solo, tuple([(t.cls, t.role, t.priority, t.pod.spec.preemption_policy) for t in ordered])


def _is_plain(job: Job) -> bool:
    """Whether all pods of a job merely wait, and it is looked at as one."""
    return job.layout is None and not job.gated and not job.pending_best_effort and len(job.pending) == len(job.tasks)


# -- what members are told ---------------------------------------------------------------------------------------------


def account_of(notes: Notes) -> Account:
    """Return what notes say; the text about a queue's share says nothing more but the name of a task."""
    reasons = tuple([(v.plugin, v.code, "" if v.code == QUEUE_SHARE else v.text) for v in notes.verdicts])
    return notes.condition, reasons, notes.errors


def give_notes(ssn: PluginAnswers, job: Job, other: Job, notes: Notes) -> None:
    """Note on a job what was noted on another of its class; the text about a queue's share names its own tasks."""
    mine = ssn.note(job)
    mine.condition, mine.errors, mine.failed_roles = notes.condition, dict(notes.errors), set(notes.failed_roles)
    mine.verdicts = list(notes.verdicts)
    if any(verdict.code == QUEUE_SHARE for verdict in notes.verdicts):
        pairs = zip(ssn.sorted_tasks(other.tasks.values()), ssn.sorted_tasks(job.tasks.values()), strict=True)
        own = {theirs.key: task.key for theirs, task in pairs}
        for at, verdict in enumerate(notes.verdicts):
            if verdict.code == QUEUE_SHARE:
                text, _, key = verdict.text.rpartition(" ")
                mine.verdicts[at] = replace(verdict, text=f"{text} {own[key]}")
