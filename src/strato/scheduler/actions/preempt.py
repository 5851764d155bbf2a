"""preempt: evict tasks of jobs of lower priority for starving jobs of the same queue (spec volcano-actions 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.offers import Offers
from strato.scheduler.actions.placing import promise
from strato.scheduler.actions.podpreempt import preempt_for_pod
from strato.scheduler.actions.surplus import given_back, is_given_back
from strato.scheduler.framework.arguments import arg
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import BOUND, RUNNING
from strato.scheduler.ordering.jobqueue import starving_jobs
from strato.scheduler.session import Session
from strato.scheduler.statement import Statement

Eligible = Callable[[Task], bool]
_EVICTABLE = frozenset((BOUND, RUNNING))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptArgs:
    """Arguments of the action, as written under ``configurations:``."""

    predicate_error_cache: bool = arg("predicateErrorCacheEnable", True)
    """Accepted for compatibility; filters are always cached here. Default true."""
    topology_aware: bool = arg("enableTopologyAwarePreemption", False)
    """Choose the node by the cost of its victims, as kube-scheduler does, instead of by score. Default false."""
    workers: int = arg("topologyAwarePreemptWorkerNum", 16)
    """Accepted for compatibility; one thread evaluates the candidates."""
    min_candidates_percent: int = arg("minCandidateNodesPercentage", 10)
    min_candidates: int = arg("minCandidateNodesAbsolute", 1)
    max_candidates: int = arg("maxCandidateNodesAbsolute", 100)


class Preempt(Action):
    """Evict within a queue, between jobs and then within each job."""

    name = "preempt"
    args_type = PreemptArgs

    def execute(self, ssn: Session) -> None:
        """Serve the starving jobs of each queue in order."""
        queues = starving_jobs(ssn, ssn.job_classes, lambda job: job.layout is None or not job.layout.topological)
        offers = Offers(ssn, "preemptable")
        while (queue := queues.pop()) is not None:
            for job in queue.visits():
                with ssn.isolated(job):
                    self._between_jobs(ssn, queue.queue, job, offers)
            for job in queue.restart().visits():
                with ssn.isolated(job):
                    self._within_job(ssn, queue.queue, job)

    def _between_jobs(self, ssn: Session, queue: Queue, job: Job, offers: Offers) -> None:
        stmt, attempts = ssn.statement(), choice.Attempts()

        def other_job(victim: Task) -> bool:
            return victim.job is not None and victim.job is not job and victim.job.queue is queue

        for task in pending_in_order(ssn, job):
            if not ssn.job_starving(job):
                break
            self._preempt(ssn, stmt, queue, task, other_job, attempts, offers)
        if ssn.job_pipelined(job):
            stmt.commit()
        else:
            stmt.discard()

    def _within_job(self, ssn: Session, queue: Queue, job: Job) -> None:
        attempts = choice.Attempts(nobody=not any(job.counts[status] for status in _EVICTABLE))
        for task in pending_in_order(ssn, job):
            stmt = ssn.statement()
            if not self._preempt(ssn, stmt, queue, task, lambda victim: victim.job is job, attempts):
                stmt.discard()
                return
            stmt.commit()

    def _preempt(
        self,
        ssn: Session,
        stmt: Statement,
        queue: Queue,
        task: Task,
        eligible: Eligible,
        attempts: choice.Attempts,
        offers: Offers | None = None,
    ) -> bool:
        """Pipeline one task, with evictions if needed; return whether it has a place."""
        if task.preemption_policy == "Never" or ssn.pre_filter(task) is not None:
            return False
        waits = task.nominated or ssn.world.evictions.serve(task.key)
        if waits and promise(ssn, queue, stmt, task):
            return True
        if not may_preempt(ssn, task):
            return False

        def wanted(victim: Task) -> bool:
            if victim.status not in _EVICTABLE or not choice.may_go(ssn, victim) or not eligible(victim):
                return False
            job, mine = victim.job, task.job
            if job is not None and job.solo and mine is not None and job.priority >= mine.priority:
                return False
            return victim.cls.best_effort or not task.cls.best_effort

        open_rows = offers.surplus.rows() if offers is not None else set()
        if task.job is not None and task.job.solo:
            if promise(ssn, queue, stmt, task):
                return True
            return preempt_for_pod(ssn, stmt, queue, task, open_rows)
        if self.args.topology_aware:
            job = task.job  # a task of a gang may fit without evictions while other tasks of it do not
            if job is not None and 1 < job.min_available <= job.valid and promise(ssn, queue, stmt, task):
                return True
            rows = choice.candidate_rows(ssn, task)
            rows = rows if ssn.simulates else ssn.neighbours_allow(task, rows)
            groups = [group.tolist() for group in choice.by_shard(ssn, task, rows)]

            def spare(victim: Task) -> bool:
                return is_given_back(victim) and wanted(victim)

            opened = ([row for row in group if row in open_rows] for group in groups if open_rows)
            return any(self._cheapest_node(ssn, stmt, queue, task, group, spare) for group in opened) or any(
                self._cheapest_node(ssn, stmt, queue, task, group, wanted) for group in groups
            )
        attempts.turn_to(ssn, task, offers)

        def candidates_on(row: int) -> list[Task]:
            return [t for t in ssn.world.nodes.tasks[row].values() if t.status in _EVICTABLE and wanted(t)]

        def serves_with_surplus(row: int) -> bool:
            surplus = given_back(candidates_on(row)) if row in open_rows else []
            victims = ssn.preemptable(task, surplus) if surplus else []
            fits = bool(victims) and choice.suffices(task, ssn.world.nodes.free(row), victims)
            return fits and self._on_row(ssn, stmt, queue, task, row, victims)

        def serves(row: int) -> bool:
            free = ssn.world.nodes.free(row)
            candidates = candidates_on(row)
            victims = ssn.preemptable(task, candidates) if candidates else []
            if not choice.suffices(task, free, victims):
                attempts.refuse(row, free, victims)
                return False
            return self._on_row(ssn, stmt, queue, task, row, victims)

        if open_rows and attempts.best_first(ssn, task, serves_with_surplus, neighbours=True):
            return True
        return attempts.best_first(ssn, task, serves, neighbours=True)

    @staticmethod
    def _on_row(ssn: Session, stmt: Statement, queue: Queue, task: Task, row: int, victims: Sequence[Task]) -> bool:
        """Evict victims on a row until the task fits; undo all evictions when it does not."""
        trial = ssn.statement()
        order = ssn.victims_in_order(victims, task)
        evicted = False
        while True:
            if ssn.allocatable(queue, task) and choice.passes_filters(ssn, task, row):
                trial.pipeline(task, row, evicted=evicted)
                stmt.merge(trial)
                return True
            if not order:
                break
            victim = order.pop(0)
            trial.evict(victim, "preempt", task.key)
            evicted = evicted or not victim.cls.best_effort
        trial.discard()
        return False

    # -- topology-aware (spec volcano-actions 4.4) ---------------------------------------------------------------------

    def _cheapest_node(
        self, ssn: Session, stmt: Statement, queue: Queue, task: Task, rows: list[int], wanted: Eligible
    ) -> bool:
        if not rows:
            return False
        limit = len(rows) * self.args.min_candidates_percent // 100
        limit = min(max(limit, self.args.min_candidates), self.args.max_candidates, len(rows))
        offset = ssn.rng.randrange(len(rows))
        found: list[tuple[int, list[Task]]] = []
        for i in range(len(rows)):
            row = rows[(offset + i) % len(rows)]
            victims = self._fewest_victims(ssn, queue, task, row, wanted)
            if victims:
                found.append((row, victims))
                if len(found) >= limit:
                    break
        if not found:
            return False
        row, victims = min(found, key=lambda pair: cost_of(pair[1], ssn.now))
        for victim in victims:
            stmt.evict(victim, "preempt", task.key)
        stmt.pipeline(task, row, evicted=True)
        return True

    @staticmethod
    def _fewest_victims(ssn: Session, queue: Queue, task: Task, row: int, wanted: Eligible) -> list[Task]:
        """Return the victims needed for the task to fit on a row: evict until it fits, then undo needless evictions."""
        nodes = ssn.world.nodes
        candidates = [t for t in nodes.tasks[row].values() if wanted(t)]
        victims = ssn.preemptable(task, candidates) if candidates else []
        if not victims or not choice.suffices(task, nodes.free(row), victims):
            return []
        trial = ssn.statement()
        potential: list[Task] = []

        def works() -> bool:
            return bool(ssn.allocatable(queue, task)) and choice.passes_filters(ssn, task, row)

        for victim in ssn.victims_in_order(victims, task):
            trial.evict(victim, "preempt")
            potential.append(victim)
            if works():
                break
        needed: list[Task] = []
        if works():
            for victim in reversed(potential):
                trial.spare(victim)
                if not works():
                    trial.evict(victim, "preempt")
                    needed.append(victim)
        trial.discard()
        return needed


def cost_of(victims: list[Task], now: float) -> tuple[int, int, int, str]:
    """Return the cost of evicting a node's victims, as a sort key; smaller is better."""
    priorities = [victim.pod.spec.priority or 0 for victim in victims]
    highest = max(priorities)
    starts = [
        victim.pod.status.start_time or "~"
        for victim, priority in zip(victims, priorities, strict=True)
        if priority == highest
    ]
    earliest = min(starts, default="~")
    total = sum(priority + (1 << 31) for priority in priorities)
    return priorities[0], total, len(victims), _later_first(earliest)


def _later_first(text: str) -> str:
    """Complement each character of a time's text, so that a later time sorts first."""
    return "".join(chr(0x7E - (ord(c) - 0x20)) if 0x20 <= ord(c) <= 0x7E else c for c in text)


def may_preempt(ssn: Session, task: Task) -> bool:
    """Whether a task may evict: its policy allows it, no victim for it is leaving, its nominated node does not fit."""
    return not waits_for_victims(ssn, task) and not _fits_nominated(ssn, task)


def waits_for_victims(ssn: Session, task: Task) -> bool:
    """Whether a task must not evict: its policy forbids it, or victims of an earlier eviction for it are leaving."""
    if task.preemption_policy == "Never":
        return True
    if ssn.world.evictions.serve(task.key):
        return choice.keeps_room(ssn, task)
    row = _nominated_row(ssn, task)
    if row < 0:
        return False
    if choice.passes_filters(ssn, task, row):
        return False
    mine = task.pod.spec.priority or 0
    for other in ssn.world.nodes.tasks[row].values():
        condition = other.pod.status.condition("DisruptionTarget")
        leaving = other.pod.metadata.deletion_timestamp is not None
        ours = condition is not None and condition.reason == "PreemptionByScheduler"
        if leaving and ours and (other.pod.spec.priority or 0) < mine:
            return True
    return False


def _fits_nominated(ssn: Session, task: Task) -> bool:
    row = _nominated_row(ssn, task)
    return row >= 0 and choice.passes_filters(ssn, task, row)


def _nominated_row(ssn: Session, task: Task) -> int:
    row = ssn.world.nodes.row_of.get(task.nominated, -1) if task.nominated else -1
    return row if row >= 0 and ssn.world.nodes.present[row] else -1


def pending_in_order(ssn: Session, job: Job) -> list[Task]:
    """Return the pending tasks that are not gated, in their order."""
    return ssn.sorted_tasks([task for task in job.pending.values() if not task.gated])
