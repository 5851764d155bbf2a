"""The search of allocate for jobs with sub-jobs or a network topology: finds the best domain that holds the gang.

Plugins give groups of domains in order. Each domain of a group is tried in a statement that is discarded; then the best
trial is replayed (spec volcano-actions 2.3, 2.4, 2.6). For a sub-job the score of a domain does not depend on the
trial, so domains are tried by falling score, and the first that works is the one that trying all would have chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strato.scheduler.actions.placing import TaskLoop, TasksToPlace
from strato.scheduler.actions.subjobqueue import SubJobQueue
from strato.scheduler.framework.plugin import ALLOCATE
from strato.scheduler.model.jobs import Job, SubJob
from strato.scheduler.model.nodes import Mask
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import FitErrors, Verdict
from strato.scheduler.topology.domains import Search

if TYPE_CHECKING:
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Saved, Statement


class _Trial(NamedTuple):
    """The result of placing a job within one domain."""

    saved: list[Saved]
    sub_jobs: SubJobQueue
    score: float
    decided: dict[str, int]


class GangSearch:
    """One visit of allocate to one job.

    Args:
        sub_jobs: The sub-jobs to place.

    Attributes:
        sub_jobs: The sub-jobs still to place after a successful `run`; unchanged after another.
    """

    def __init__(self, ssn: Session, job: Job, queue: Queue, sub_jobs: SubJobQueue) -> None:
        self._ssn = ssn
        self._job = job
        self._queue = queue
        self.sub_jobs = sub_jobs
        self._domain = -1
        self._decided: dict[str, int] = {}
        self._errors: dict[int | str, FitErrors] = {}
        self._reached: dict[int, tuple[int, str]] = {}
        self._tried: dict[int, set[int]] = {}

    def run(self) -> Statement | None:
        """Place the job in the best domain of the first group that holds it; None when none does."""
        ssn = self._ssn
        large = self._large_enough()
        for group in ssn.gradient(self._job, ssn.tree.top, ALLOCATE):
            chosen = group if large is None else [domain for domain in group if large[domain]]
            found = self._best(chosen) if chosen else None
            if found is not None:
                return found
        ssn.note(self._job).errors.update(self._errors)
        if ssn.domains.limit(self._job) is not None:
            self._record_why()
        return None

    def remember(self) -> None:
        """Record the domains of the job and its sub-jobs, once the statement of `run` is committed."""
        layout, domains = self._job.layout, self._ssn.domains
        assert layout is not None
        if not layout.topological:
            return
        domains.widen(layout, self._domain)
        for key, domain in self._decided.items():
            domains.widen(layout.subs[key], domain)

    def _large_enough(self) -> Mask | None:
        """Return bool[domains]: those whose total room is at least what the job lacks for its minimum.

        Trying the others would be in vain. None when any domain may do, as for a job that is ready.
        """
        ssn, job = self._ssn, self._job
        missing = job.min_available - job.ready - job.waiting - job.pending_best_effort
        classes = {task.cls for task in job.pending.values() if not task.cls.best_effort}
        if not classes or ssn.job_ready(job) or ssn.job_pipelined(job):
            return None
        tree, table = ssn.tree, ssn.world.nodes
        size = len(tree.leaf)
        room = tree.sums(np.maximum(table.idle[:size], table.future_idle[:size]).clip(min=0))
        least = np.minimum.reduce([cls.request for cls in classes]) * missing
        large: Mask = np.asarray((room >= least).all(axis=1))
        return large

    # -- domains for the job -------------------------------------------------------------------------------------------

    def _best(self, group: Sequence[int]) -> Statement | None:
        best: tuple[int, _Trial] | None = None
        stmt = self._ssn.statement()
        order = self._single_file(group)
        for domain in group if order is None else order:
            trial = self._try(domain, stmt if order is not None else None)
            if trial is not None and (best is None or trial.score > best[1].score):
                best = domain, trial
                if order is not None:
                    break
        if best is None:
            return None
        self._domain, trial = best
        stmt.replay(trial.saved)
        self.sub_jobs, self._decided = trial.sub_jobs, trial.decided
        return stmt

    def _single_file(self, group: Sequence[int]) -> list[int] | None:
        """Return the group by falling score if scores are known before trials; None if they depend on these.

        They are known for a job without sub-jobs that plugins do not send into inner domains.
        """
        assert self._job.layout is not None
        if self._job.layout.split:
            return None
        sub = self._job.layout.subs[self._job.key]
        for domain in group:
            inner = self._ssn.gradient(sub, domain, ALLOCATE)
            if len(inner) > 1 or any(list(row) != [domain] for row in inner):
                return None
        scores = self._ssn.hyper_node_scores(sub, group, together=False).tolist()
        return [domain for _, domain in sorted(zip(scores, group, strict=True), key=lambda pair: -pair[0])]

    def _try(self, domain: int, keep: Statement | None) -> _Trial | None:
        """Place the job within a domain, and undo it unless ``keep`` takes it; None when it cannot run there."""
        ssn, job = self._ssn, self._job
        assert job.layout is not None
        before = {sub.key: sub.allocated for sub in job.layout.subs.values()}
        statements: list[Statement] = []
        sub_jobs, score = self.sub_jobs.copy(), 0.0
        self._decided = {}
        self._errors = {}
        while sub_jobs:
            sub = sub_jobs.pop()
            found = self._place_part(sub, sub_jobs, domain)
            if found is not None:
                statements.append(found[0])
                score += found[1]
                if sub_jobs.work[sub.key]:
                    sub_jobs.push(sub)
                if ssn.job_ready(job):
                    break
        runs = ssn.job_ready(job) or ssn.job_pipelined(job)
        for part in job.layout.subs.values():
            part.allocated = before[part.key]
        works = runs and bool(statements)
        if works and keep is not None:
            for stmt in statements:
                keep.merge(stmt)
        saved: list[Saved] = []
        for stmt in reversed(statements):  # no effect if they were merged into `keep`, which empties them
            saved = stmt.saved() + saved
            stmt.discard()
        return _Trial(saved, sub_jobs, score, self._decided) if works else None

    # -- domains for a sub-job -----------------------------------------------------------------------------------------

    def _place_part(self, sub: SubJob, sub_jobs: SubJobQueue, within: int) -> tuple[Statement, float] | None:
        """Place a sub-job in its best domain; None when it fits in none."""
        ssn, work = self._ssn, sub_jobs.work[sub.key]
        for group in ssn.gradient(sub, within, ALLOCATE):
            left = list(group)
            while left:
                scores = ssn.hyper_node_scores(sub, left, together=True).tolist()
                score, at = max((score, -i) for i, score in enumerate(scores))
                domain = left.pop(-at)
                todo = work.copy()
                found = self._place_tasks(sub, todo, domain)
                if found is not None:
                    sub_jobs.work[sub.key] = todo
                    self._decide(sub, domain)
                    return found, score
        return None

    def _decide(self, sub: SubJob, domain: int) -> None:
        self._ssn.domains.widen(sub, domain)
        self._decided[sub.key] = self._ssn.domains.allocated(sub)

    def _place_tasks(self, sub: SubJob, work: TasksToPlace, domain: int) -> Statement | None:
        ssn = self._ssn
        search = Search(ssn.tree, domain, sub, ssn.domains.allocated(sub))
        if not search.rows.size:
            return None
        self._tried.setdefault(int(ssn.tree.tiers[domain]), set()).add(domain)
        stmt, notes = ssn.statement(), ssn.fresh_notes()
        with ssn.searching(search):
            stands = TaskLoop(ssn, stmt, self._job, self._queue, work, notes, sub).run()
        self._errors |= notes.errors
        if stands and not stmt.is_empty:
            return stmt
        self._reach(domain, stmt.count_placed)
        stmt.discard()
        return None

    # -- why not -------------------------------------------------------------------------------------------------------

    def _reach(self, domain: int, placed: int) -> None:
        tree = self._ssn.tree
        tier = int(tree.tiers[domain])
        if placed >= self._reached.get(tier, (0, ""))[0]:
            self._reached[tier] = placed, tree.names[domain]

    def _record_why(self) -> None:
        """Record a verdict with the most tasks that fitted into a domain of each tier."""
        ssn, job = self._ssn, self._job
        limit = ssn.domains.limit(job)
        assert limit is not None
        tree = ssn.tree
        lacking = max(job.min_available - job.ready, 1)
        parts, numbers = [], {"highest tier allowed": limit, "missing": lacking}
        for tier in sorted({int(t) for t in tree.tiers if t <= limit}):
            every, tried = int((tree.tiers == tier).sum()), len(self._tried.get(tier, ()))
            if not tried:
                parts.append(f"tier {tier}: none of {every} has the room")
                continue
            most, name = self._reached.get(tier, (0, ""))
            parts.append(f"tier {tier}: {tried} of {every} tried, {name} takes {most} of {lacking} tasks")
            numbers[f"tier {tier} most"] = most
        text = f"no HyperNode up to tier {limit} holds the job: {'; '.join(parts) or 'there is none'}"
        ssn.record_verdict(job, Verdict("network-topology-aware", "Topology", text, numbers))
