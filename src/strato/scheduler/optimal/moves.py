"""Evictions and migrations of the action `flow`: proposed by one network, committed only with proven gain.

When everything that fits is placed, possible victims for jobs that still starve are pods of lower priority in their own
queue (*preemption*: as far as `ssn.preemptable`, and so gang, conformance, pdb, priority, drf, … allow), and pods that
can run on another node (*migration*: of any queue, if the owner replaces a deleted pod and every plugin that protects
pods agrees). One network over all starving jobs finds the cheapest victims (`optimal.evictions`). Its proposal is tried
job by job in a statement on the session's real vectors, and committed only if

- the job runs: a gang gets its whole minimum, its queue may take it, filters pass where it goes;
- every pod that moves has a free place, which is kept for its successor (`optimal.holds`);
- the gain, the job's worth less the prices of all its victims, exceeds the threshold.

Otherwise the statement is discarded, and a verdict on the job says what was lacking.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.preempt import pending_in_order, waits_for_victims
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.optimal.evictions import (
    FREE,
    LEFT_OUT,
    EvictionPlan,
    Place,
    Seeker,
    cheapest,
    how_often,
    places_of,
)
from strato.scheduler.optimal.gains import Prices
from strato.scheduler.optimal.holds import Holds
from strato.scheduler.optimal.victims import EVICTABLE, Holders, Victim
from strato.scheduler.ordering.jobclasses import PENDING
from strato.scheduler.ordering.jobqueue import jobs_in_order

if TYPE_CHECKING:
    from strato.scheduler.optimal.arguments import FlowArgs
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Statement

Int64s = npt.NDArray[np.int64]
_MOST_JOBS = 64
"""Most jobs of one network; the jobs after them follow in the next pass."""


class TaskGroup(NamedTuple):
    """Equal tasks of a starving job that need places.

    Attributes:
        job, queue, tasks: The job, its queue, and the tasks.
        whole: Whether the job needs all tasks of all its groups, because its minimum lacks them.
        worth: Worth of running one of the tasks, in node-hours.
        victims: By row, the possible victims.
    """

    job: Job
    queue: Queue
    tasks: list[Task]
    whole: bool
    worth: float
    victims: dict[int, list[Victim]]


class ProposalRefused(Exception):
    """A proposal does not work on the session; the text says why."""


class Moves:
    """The evictions of one cycle."""

    def __init__(self, ssn: Session, args: FlowArgs, holds: Holds) -> None:
        self._ssn, self._args, self._holds = ssn, args, holds
        self._prices = Prices(ssn.world.nodes, ssn.now)
        self._holders = Holders(ssn, self._prices, preemption=args.preemption, migration=args.migration)
        self._settled: set[str] = set()
        self._verdicts: dict[str, tuple[Job, Verdict]] = {}

    def run(self) -> None:
        """Serve starving jobs until nothing more is gained."""
        for _ in range(self._args.passes):
            if self._pass():
                continue
            if not (self._holders.migration and self._args.preemption):
                break
            self._holders.migration = False  # without places to move to, leaving victims out may still gain
        for job, verdict in self._verdicts.values():
            self._ssn.record_verdict(job, verdict)

    def _pass(self) -> bool:
        """Solve one network and try its proposals; return whether another pass may find more."""
        self._holders.refresh()
        jobs = list(islice(self._jobs(), _MOST_JOBS))
        groups = [group for job in jobs for group in self._groups(job)]
        if not groups:
            return False
        units = sum(len(group.tasks) for group in groups)
        classes: dict[int, int] = {}
        refuges: list[list[tuple[int, int]]] = []
        seekers = [self._seeker(group, groups, units, classes, refuges) for group in groups]
        plan = EvictionPlan(seekers, refuges)
        by_job: dict[str, list[int]] = {}
        for i, group in enumerate(groups):
            by_job.setdefault(group.job.key, []).append(i)
        used = self._settle(plan, groups, by_job)
        progress = False
        for mine in by_job.values():
            job = groups[mine[0]].job
            parts = [(groups[i], used[i]) for i in mine]
            if any(found for _, found in parts):
                with self._ssn.isolated(job):
                    progress = self._prove(job, parts) or progress
            else:
                self._record_too_dear(job, parts, [seekers[i] for i in mine])
                if len(jobs) == _MOST_JOBS:  # leave its place in the network to the jobs after the first 64
                    self._settled.add(job.key)
                    progress = True
        return progress

    # -- starving jobs -------------------------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[Job]:
        """Yield starving jobs in the order of queues and jobs."""
        ssn = self._ssn
        for job in jobs_in_order(
            ssn, ssn.job_classes, PENDING, lambda job: job.layout is None and ssn.job_starving(job)
        ):
            if job.key not in self._settled:
                yield job

    def _groups(self, job: Job) -> list[TaskGroup]:
        """Return the tasks to place in groups of equal ones; none for jobs that evictions by flow cannot serve."""
        ssn = self._ssn
        tasks = [task for task in pending_in_order(ssn, job) if not task.cls.best_effort]
        missing = job.min_available - job.ready - job.waiting - job.pending_best_effort
        whole = missing > 0
        if whole:
            tasks = self._core(job, tasks, missing)
        if not tasks or job.queue is None or not all(self._may(task) for task in _one_of_each(tasks)):
            return []
        by_class: dict[int, list[Task]] = {}
        for task in tasks:
            if not waits_for_victims(ssn, task):
                by_class.setdefault(task.cls.number, []).append(task)
            elif whole:
                return []  # victims of an earlier eviction for the gang are leaving
        return [
            TaskGroup(
                job, job.queue, some, whole, self._prices.worth(some[0]), self._holders.victims(job, job.queue, some[0])
            )
            for some in by_class.values()
        ]

    @staticmethod
    def _core(job: Job, tasks: list[Task], missing: int) -> list[Task]:
        """Return the first tasks that make up the minimum; nothing when there are too few."""
        left = {role: minimum - job.role_ready(role) for role, minimum in job.min_task.items()}
        chosen = []
        for task in tasks:
            if left.get(task.role, 0) > 0:
                left[task.role] -= 1
                chosen.append(task)
        taken = {task.key for task in chosen}
        chosen += [task for task in tasks if task.key not in taken][: max(0, missing - len(chosen))]
        return chosen if len(chosen) >= missing else []

    def _may(self, task: Task) -> bool:
        ssn = self._ssn
        return not task.cls.uses_claims and not ssn.one_by_one(task) and ssn.pre_filter(task) is None

    # -- the network ---------------------------------------------------------------------------------------------------

    def _seeker(
        self,
        group: TaskGroup,
        groups: Sequence[TaskGroup],
        units: int,
        classes: dict[int, int],
        refuges: list[list[tuple[int, int]]],
    ) -> Seeker:
        """Return a group with its places: the best free rows and the cheapest rows with victims.

        Of each, one row more than there are units of flow, as the network cannot use more.
        """
        task = group.tasks[0]
        rows = choice.candidate_rows(self._ssn, task)
        best = choice.scored_order(self._ssn, task, rows)
        tie = {row: i / len(best) for i, row in enumerate(best)}
        nodes, need, size = self._ssn.world.nodes, task.cls.request, len(group.tasks)
        room = self._holders.rooms(np.array(best, np.int64), task.cls)
        places = [
            Place(best[i], min(int(room[i]), size), 0.0, FREE, tie[best[i]])
            for i in np.flatnonzero(room)[: units + 1].tolist()
        ]
        opened: list[list[Place]] = []
        found_prices: list[float] = []
        for least, row in self._from_cheapest(group):
            if len(found_prices) > units and least > found_prices[units]:
                break  # the bounds ascend, so no further row can be among the cheapest
            victims = group.victims[row]
            offers = [(v.price, v.task.cls.request, self._class(v, classes, refuges)) for v in victims]
            free = nodes.future_idle_of(row)
            first = places_of(row, free, need, how_often(free, need) + 1, offers)
            if first:
                opened.append([place._replace(tie=tie.get(row, 0.0)) for place in first])
                insort(found_prices, first[0].price)
        opened.sort(key=lambda found: (found[0].price, found[0].tie, found[0].row))
        for found in opened[: units + 1]:
            row = found[0].row
            offers = [(v.price, v.task.cls.request, self._class(v, classes, refuges)) for v in group.victims[row]]
            free = nodes.future_idle_of(row)
            more = places_of(row, free, need, how_often(free, need) + size, offers)
            places += [place._replace(tie=found[0].tie) for place in more]
        together = sum(g.worth * len(g.tasks) for g in groups if g.job is group.job)
        return Seeker(size, together if group.whole else group.worth, places)

    def _from_cheapest(self, group: TaskGroup) -> list[tuple[float, int]]:
        """Return the rows with victims, sorted by a lower bound of the price of a first place there."""
        nodes, need = self._ssn.world.nodes, group.tasks[0].cls.request.tolist()
        asked = [d for d, amount in enumerate(need) if amount > 0]
        found = []
        for row, victims in group.victims.items():
            free = nodes.free(row)
            gives = [(victim.price, victim.task.cls.request.tolist()) for victim in victims]
            lacks = [(d, need[d] * (max(0, free[d]) // need[d] + 1) - free[d]) for d in asked]
            scarcest = min(max(0, free[d]) // need[d] for d in asked)
            bounds = [
                lack * min((price / give[d] for price, give in gives if give[d] > 0), default=0.0)
                for d, lack in lacks
                if max(0, free[d]) // need[d] == scarcest
            ]
            found.append((max(bounds) * (1 - 1e-9), row))
        return sorted(found)

    def _class(self, victim: Victim, classes: dict[int, int], refuges: list[list[tuple[int, int]]]) -> int:
        """Return the network's number of the class a victim moves with."""
        if not victim.moves:
            return LEFT_OUT
        number = victim.task.cls.number
        if number not in classes:
            classes[number] = len(refuges)
            refuges.append(self._holders.refuge(victim.task))
        return classes[number]

    @staticmethod
    def _settle(
        plan: EvictionPlan, groups: Sequence[TaskGroup], by_job: dict[str, list[int]]
    ) -> list[list[tuple[Place, int]]]:
        """Solve, dropping gangs that get a part, until every gang gets all it lacks or nothing."""
        while True:
            used = plan.solve()
            got = [sum(count for _, count in found) for found in used]
            short = [
                mine
                for mine in by_job.values()
                if groups[mine[0]].whole
                and any(got[i] for i in mine)
                and any(got[i] < len(groups[i].tasks) for i in mine)
            ]
            if not short:
                return used
            plan.drop([i for mine in short[len(short) // 2 :] for i in mine])

    # -- the proof -----------------------------------------------------------------------------------------------------

    def _prove(self, job: Job, parts: Sequence[tuple[TaskGroup, list[tuple[Place, int]]]]) -> bool:
        """Try what the network proposes for a job in a statement; commit it if it works and gains enough.

        Returns:
            Whether another pass may find more.
        """
        ssn, threshold = self._ssn, self._args.min_gain
        stmt, mark = ssn.statement(), self._holds.mark()
        victims: list[tuple[Victim, str]] = []
        worth, served = 0.0, 0
        try:
            for group, found in parts:
                count = self._take(stmt, group, found, victims)
                served += count
                worth += count * group.worth
            if not ssn.job_pipelined(job):
                raise ProposalRefused("its minimum would not be met")
            gain = worth - sum(victim.price for victim, _ in victims)
            if victims and gain <= threshold:
                self._settled.add(job.key)  # the places may be worth it for other jobs
                raise ProposalRefused(
                    f"evicting {len(victims)} pods for {served} tasks would gain {gain:.6g} node-hours, "
                    f"no more than the threshold of {threshold:g}"
                )
        except ProposalRefused as refused:
            stmt.discard(remember=False)
            self._holds.undo(mark)
            self._record(job, "FlowNoGain", f"nobody is evicted: {refused}", {"threshold": threshold})
            return job.key in self._settled
        except Exception:
            self._holds.undo(mark)  # `Session.isolated` discards the statement
            raise
        if not victims:  # the job would fit without evictions, yet allocate did not place it: leave it to allocate
            stmt.discard(remember=False)
            return False
        stmt.commit()
        if victims[0][0].task.key not in {eviction.task.key for eviction in ssn.plan.evictions}:
            self._holds.undo(mark)  # `Statement.commit` has discarded it
            return False
        self._record_done(job, victims, served, worth)
        return True

    def _take(
        self, stmt: Statement, group: TaskGroup, found: Sequence[tuple[Place, int]], victims: list[tuple[Victim, str]]
    ) -> int:
        """Pipeline a group's tasks to the places found, evicting victims there; return how many tasks got one.

        Raises:
            Refused: The group must be whole and is not.
        """
        ssn = self._ssn
        counts: dict[int, int] = {}
        for place, count in found:
            counts[place.row] = counts.get(place.row, 0) + count
        served = 0
        for row, count in counts.items():
            step = count if group.whole else 1
            for _ in range(0, count, step):
                if not group.whole and not ssn.job_starving(group.job):
                    return served
                trial, mark = ssn.statement(), self._holds.mark()
                try:
                    gone = self._open(trial, group, group.tasks[served : served + step], row)
                except ProposalRefused:
                    trial.discard(remember=False)
                    self._holds.undo(mark)
                    if group.whole:
                        raise
                    return served
                stmt.merge(trial)
                victims += gone
                served += step
        return served

    def _open(self, trial: Statement, group: TaskGroup, tasks: Sequence[Task], row: int) -> list[tuple[Victim, str]]:
        """Evict victims on a row so that tasks fit, and pipeline these; return each victim and the node it moves to."""
        ssn, name, task = self._ssn, self._ssn.world.nodes.names[row], tasks[0]
        free, need = ssn.world.nodes.future_idle_of(row), task.cls.request * len(tasks)
        standing = [v for v in group.victims.get(row, ()) if v.task.status in EVICTABLE and v.task.row == row]
        leaving = [v.task for v in standing if not v.moves]
        given_up = self._holders.given_up(task, leaving)
        moving = [v.task for v in standing if v.moves]
        agreed = {t.key for t in ssn.movable(task, moving)} if moving else set()
        standing = [v for v in standing if v.task.key in (agreed if v.moves else given_up)]
        chosen = cheapest(free, need, [(v.price, v.task.cls.request, 0) for v in standing])
        if chosen is None:
            raise ProposalRefused(f"those who may be evicted from {name} make too little room")
        together = [standing[i].task for i in chosen]
        if moving and leaving and len(ssn.movable(task, together)) < len(together):
            raise ProposalRefused(f"plugins guard those on {name} that would have to go together")
        gone = []
        for i, victim in enumerate([standing[i] for i in chosen]):
            node = self._shelter(victim.task) if victim.moves else ""
            trial.evict(victim.task, "flow", tasks[i % len(tasks)].key, moves_to=node)
            gone.append((victim, node))
        for task in tasks:
            if not ssn.allocatable(group.queue, task):
                raise ProposalRefused(f"queue {group.queue.name} has no share left")
            if not choice.passes_filters(ssn, task, row):
                raise ProposalRefused(f"{name} would not take {task.key}")
            trial.pipeline(task, row, evicted=True)
        return gone

    def _shelter(self, task: Task) -> str:
        """Keep a place for the successor of a pod that moves; return the node's name."""
        for row in self._holders.room_now(task):
            if row != task.row:
                self._holds.keep(task, row)
                return self._ssn.world.nodes.names[row]
        raise ProposalRefused(f"{task.key} would have no place to move to")

    # -- why -----------------------------------------------------------------------------------------------------------

    def _record(self, job: Job, code: str, text: str, numbers: dict[str, float]) -> None:
        self._verdicts[job.key] = (job, Verdict("flow", code, text, numbers))

    def _record_done(self, job: Job, victims: Sequence[tuple[Victim, str]], served: int, worth: float) -> None:
        price = sum(victim.price for victim, _ in victims)
        shown = [
            f"{f'moves {victim.task.key} to {node}' if node else f'evicts {victim.task.key}'} ({victim.price:.4g})"
            for victim, node in victims[:_MAX_SHOWN]
        ]
        if len(victims) > _MAX_SHOWN:
            shown.append(f"and {len(victims) - _MAX_SHOWN} more")
        threshold = self._args.min_gain
        text = (
            f"{', '.join(shown)} for {served} tasks worth {worth:.6g}: "
            f"gain {worth - price:.6g} node-hours, threshold {threshold:g}"
        )
        self._record(
            job, "FlowGain", text, {"worth": worth, "price": price, "gain": worth - price, "threshold": threshold}
        )

    def _record_too_dear(
        self, job: Job, parts: Sequence[tuple[TaskGroup, list[tuple[Place, int]]]], seekers: Sequence[Seeker]
    ) -> None:
        """Record why the network leaves a job waiting: too few places, or too expensive ones."""
        worth = sum(group.worth * len(group.tasks) for group, _ in parts)
        price, lacking = 0.0, 0
        for seeker in seekers:
            prices = sorted(place.price for place in seeker.places for _ in range(min(place.tasks, seeker.units)))
            price += sum(prices[: seeker.units])
            lacking += max(0, seeker.units - len(prices))
        if lacking:
            text = f"nobody is evicted: no eviction that is allowed makes room for {lacking} of its tasks"
            self._record(job, "FlowNoPlace", text, {"lacking": lacking})
            return
        threshold = self._args.min_gain
        text = (
            f"nobody is evicted: its cheapest places cost {price:.6g} node-hours and it is worth {worth:.6g}, "
            f"or others gain more by them; threshold {threshold:g}"
        )
        self._record(job, "FlowNoGain", text, {"worth": worth, "price": price, "threshold": threshold})


_MAX_SHOWN = 5
"""Most victims that a job's verdict names; every eviction is reported by itself too."""


def _one_of_each(tasks: Sequence[Task]) -> list[Task]:
    return list({task.cls.number: task for task in tasks}.values())
