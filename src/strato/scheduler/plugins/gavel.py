"""gavel: share GPUs of different speed fairly over time, in rounds, by how fast each kind of jobs runs on each model.

In each round (six minutes by default) the jobs of highest priority run, on the model that the round assigns them; the
others wait. When a round ends, jobs that are not in the next one are evicted through the action ``shuffle`` and start
again later, so they must save their work. A pod's annotation gives the kind of its job; jobs without it, or of a kind
that the table of throughputs does not have, are left to the other plugins.

Source: D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
Departure: a job that arrives within a round may start at once on GPUs that the round leaves idle.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from strato.api.quantity import value
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import PENDING, RELEASING
from strato.scheduler.plugins.gavelrounds import OBJECTIVES, Account, Objective, Rounds
from strato.scheduler.plugins.maxmin import Floats
from strato.scheduler.plugins.throughputs import JobKind, Throughputs, parse_throughputs, read_throughputs

KIND: Final = "strato.dev/job-kind"
NOT_ITS_TURN: Final = Reason("gavel", "job waits for its turn; GPUs go to others in this round", curable=False)
OTHER_MODEL: Final = Reason("gavel", "job runs on another model of GPUs in this round", curable=False)
_UNPLANNED: Final = -1


def _throughputs(given: Any) -> Throughputs:
    if isinstance(given, str):
        return read_throughputs(Path(given))
    return parse_throughputs(given, "")


def _objective(text: Any) -> Objective:
    if text not in OBJECTIVES:
        raise ValueError(f"{text!r} is none of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[str(text)]


_NONE: Final = Throughputs({})
_FAIR: Final = OBJECTIVES["max-min"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    throughputs: Throughputs = arg("gavel.throughputs", _NONE, read=_throughputs)  # noqa: RUF009 # arg makes a field
    """Path of a table in the format of Gavel's ``simulation_throughputs.json``, gzip or not, or the table itself."""
    objective: Objective = arg("gavel.objective", _FAIR, read=_objective)  # noqa: RUF009 # arg makes a field
    """``max-min`` fairness (default), ``max-min-blind`` to speed, or ``makespan``."""
    round_seconds: float = arg("gavel.roundSeconds", 360.0, minimum=10)
    """Length of a round. Default 360."""
    resource: str = arg("gavel.resource", "nvidia.com/gpu")
    """What pods and nodes have of GPUs. Default ``nvidia.com/gpu``."""
    label: str = arg("gavel.modelLabel", "nvidia.com/gpu.product")
    """Label of nodes with the model; a model of the table must be part of it. Default ``nvidia.com/gpu.product``."""


class _Memory:
    """State that is kept between sessions."""

    def __init__(self, args: GavelArgs) -> None:
        self.args = args
        self.models = tuple(args.throughputs.alone)
        self.models_of: dict[str, int] = {}
        self.present: tuple[int, ...] = ()
        self.rounds: Rounds | None = None
        self.seen_at: float | None = None
        self.round_ends_at = 0.0
        self.plan: dict[Hashable, int] = {}
        """Job → number of its model, in this round."""


class Gavel(Plugin):
    """Run jobs in turns on the GPU models that suit each best."""

    name = "gavel"
    args_type = GavelArgs
    time_based = True

    def open(self, ssn: CycleContext) -> None:
        """Account for the time that jobs ran since the last cycle, and begin a round if the last one is over."""
        memory = ssn.world.plugin_state.get(self.name)
        if memory is None or memory.args != self.args:
            memory = ssn.world.plugin_state[self.name] = _Memory(self.args)
        self._memory: _Memory = memory
        self._nodes = ssn.world.nodes
        self._kinds: dict[str, JobKind] = {}
        jobs = {job.key: job for job in ssn.world.jobs.values() if self._kind_of(job) is not None}
        self._new_round = False
        rounds = self._rounds(ssn)
        if rounds is None:
            self._memory.plan = {}
            return
        self._follow(rounds, jobs, ssn.now)
        if ssn.now >= memory.round_ends_at:
            rounds.allocate(ssn.now)
            memory.plan = {job: memory.present[at] for job, at in rounds.next_round().items()}
            memory.round_ends_at = ssn.now + self.args.round_seconds
            self._new_round = True
        else:
            self._let_in(rounds)

    def resources(self) -> Sequence[str]:
        """What GPUs are called."""
        return (self.args.resource,)

    # -- the accounts --------------------------------------------------------------------------------------------------

    def _kind_of(self, job: Job) -> JobKind | None:
        """Return the kind of a job that takes part; None leaves it to others."""
        known = self._kinds.get(job.key)
        if known is not None:
            return known
        name, gpus = "", 0
        for task in job.tasks.values():
            name = name or task.pod.metadata.annotation(KIND)
            gpus += self._gpus(task)
        for kind in (JobKind(name, gpus), JobKind(name, 1)):
            if gpus and any(kind in speeds for speeds in self.args.throughputs.alone.values()):
                self._kinds[job.key] = JobKind(name, gpus)
                return self._kinds[job.key]
        return None

    def _gpus(self, task: Task) -> int:
        return sum(value(c.resources.limits.get(self.args.resource, 0)) for c in task.cls.spec.containers)

    def _speed(self, kind: JobKind) -> Floats:
        table = self.args.throughputs
        found = [table.on(self._memory.models[model], kind) for model in self._memory.present]
        if not any(found):
            found = [table.on(self._memory.models[model], JobKind(kind.name, 1)) for model in self._memory.present]
        return np.array(found, np.float64)

    def _model_of(self, label: str) -> int:
        """Return the number of the model that a label names; the longest name that is part of it."""
        memory = self._memory
        found = memory.models_of.get(label)
        if found is None:
            fitting = [at for at, model in enumerate(memory.models) if label and model.lower() in label.lower()]
            found = max(fitting, key=lambda at: len(memory.models[at]), default=_UNPLANNED)
            memory.models_of[label] = found
        return found

    def _model_on(self, row: int) -> int:
        node = self._nodes.facts[row]
        return self._model_of(node.metadata.label(self.args.label)) if node is not None else _UNPLANNED

    def _rounds(self, ssn: CycleContext) -> Rounds | None:
        """Return the rounds for the cluster's current GPUs; None without GPUs."""
        column = ssn.world.column(self.args.resource)
        counts: dict[int, float] = {}
        for row in np.nonzero(self._nodes.present[: self._nodes.size])[0].tolist():
            model, gpus = self._model_on(row), float(self._nodes.allocatable[row, column]) / 1000.0
            if model != _UNPLANNED and gpus >= 1:
                counts[model] = counts.get(model, 0.0) + gpus
        present, memory = tuple(sorted(counts)), self._memory
        machines = np.array([counts[model] for model in present])
        if not present:
            memory.rounds = None
        elif memory.rounds is None or present != memory.present:
            memory.present, memory.round_ends_at = present, 0.0
            memory.rounds = Rounds(machines, self.args.objective, self.args.round_seconds)
        else:
            memory.rounds.resize(machines)
        return memory.rounds

    def _follow(self, rounds: Rounds, jobs: Mapping[str, Job], now: float) -> None:
        memory = self._memory
        elapsed = max(0.0, now - memory.seen_at) if memory.seen_at is not None else 0.0
        memory.seen_at = now
        for gone in [job for job in rounds if job not in jobs]:
            rounds.remove(gone)
            memory.plan.pop(gone, None)
        for key, job in jobs.items():
            if key not in rounds:
                kind = self._kinds[key]
                rounds.add(key, Account(self._speed(kind), kind.gpus))
            model = self._runs_on(job)
            if model in memory.present and elapsed:
                rounds.ran(key, memory.present.index(model), elapsed)

    def _runs_on(self, job: Job) -> int:
        """Return the model on which a job runs or is about to; -1 when it does not."""
        for task in job.tasks.values():
            if ON_NODE[task.status] and task.status not in (PENDING, RELEASING) and task.row >= 0:
                return self._model_on(task.row)
        return _UNPLANNED

    def _let_in(self, rounds: Rounds) -> None:
        """Assign GPUs that the round leaves idle to jobs that have arrived since it began."""
        memory = self._memory
        left = dict(zip(memory.present, rounds.machines.tolist(), strict=True))
        for job, model in memory.plan.items():
            if model in left:
                left[model] -= rounds.account(job).held
        for job in rounds:
            account = rounds.account(job)
            if job in memory.plan or account.time is not None:
                continue
            speeds = {
                m: float(s) for m, s in zip(memory.present, account.speed, strict=True) if left[m] >= account.held
            }
            best = max(speeds, key=lambda model: speeds[model], default=_UNPLANNED)
            if best != _UNPLANNED and speeds[best] > 0:
                memory.plan[job] = best
                left[best] -= account.held

    # -- extension points ----------------------------------------------------------------------------------------------

    def job_order(self, job: Job) -> int:
        """Jobs whose turn it is, then those that take no part, then the others."""
        if job.key not in self._kinds:
            return 1
        return 0 if job.key in self._memory.plan else 2

    def facet(self, task: Task) -> Hashable:
        """The model that its job runs on in this round; None for a task that takes no part."""
        if task.job is None or task.job.key not in self._kinds or not self._gpus(task):
            return None
        return self._memory.plan.get(task.job.key, _UNPLANNED)

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes of the model that its job runs on in this round."""
        model = self.facet(task)
        if model is None:
            return None
        if model == _UNPLANNED:
            return Verdicts.reject_where(np.ones(len(rows), np.bool_), NOT_ITS_TURN)
        wrong = np.array([self._model_on(row) != model for row in rows.tolist()], np.bool_)
        return Verdicts.reject_where(wrong, OTHER_MODEL)

    def victim_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """When a round begins: the pods of jobs whose turn is over, or that are to run on another model."""
        if not self._new_round:
            return ()
        plan = self._memory.plan
        return [
            task
            for task in tasks
            if task.job is not None
            and task.job.key in self._kinds
            and self._gpus(task)
            and self._model_on(task.row) != plan.get(task.job.key, _UNPLANNED)
        ]
