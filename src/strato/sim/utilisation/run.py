"""Runs the variants of an experiment in virtual time, each on its own cluster; equal seeds give equal reports."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from strato.agent.events import Workload
from strato.api import catalog, quantity
from strato.clock import VirtualClock, run_virtual
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.manager import DEFAULT
from strato.errors import NotFound
from strato.history import statistics
from strato.history.rows import Host
from strato.history.statistics import GRID_SECONDS, Period
from strato.node.hollow.cpu import HollowCpu
from strato.seeding import child
from strato.sim.agents import AgentCounts, SimulatedAgents
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.utilisation.options import Experiment, VariantOptions
from strato.sim.utilisation.recording import HostFacts, UtilisationRecorder, WorkloadCounts
from strato.sim.utilisation.report import OnlineReport, TrainingReport, UtilisationReport, VariantReport
from strato.sim.utilisation.workload import (
    NAMESPACE,
    SubmittedTraining,
    draw_trainings,
    priority_classes,
    service_pods,
    training_job,
)

MIDNIGHT: Final = 1_700_006_400.0
"""When an experiment begins: a midnight in UTC, seconds since the epoch."""

_PARTS: Final = (*DEFAULT, GarbageCollector.name)
"""The controllers: the default ones, and the garbage collector to delete the pods of deleted trainings."""


@dataclass(frozen=True, slots=True)
class UtilisationProgress:
    """How far an experiment has come."""

    variant: str
    virtual_seconds: float
    total_seconds: float


def run_experiment(
    experiment: Experiment,
    *,
    name: str,
    variants: Sequence[str] = (),
    seed: int = 0,
    progress: Callable[[UtilisationProgress], None] | None = None,
) -> UtilisationReport:
    """Run variants of an experiment, all of them by default.

    Args:
        experiment: The experiment.
        name: Its name in the report.
        variants: Names of the variants to run; empty is all.
        seed: Seeds all random numbers; all variants get the same trainings.
        progress: Called after each five minutes of virtual time.
    """
    chosen = [one for one in experiment.variants if not variants or one in variants]
    reports = []
    for variant in chosen:
        clock = VirtualClock(MIDNIGHT)
        run = _Variant(experiment, variant, clock, seed, progress)
        reports.append(run_virtual(clock, run.play()))
    return UtilisationReport(experiment=name, seed=seed, hours=experiment.times.hours, variants=reports)


class _Variant:
    """Runs one variant of an experiment."""

    def __init__(
        self,
        experiment: Experiment,
        name: str,
        clock: VirtualClock,
        seed: int,
        progress: Callable[[UtilisationProgress], None] | None,
    ) -> None:
        self._experiment, self._name, self._clock = experiment, name, clock
        self._options: VariantOptions = experiment.variants[name]
        self._progress = progress
        self._warm_seconds = experiment.times.warm_up_hours * 3600
        self._total_seconds = self._warm_seconds + experiment.times.hours * 3600
        # trainings have a generator of their own, so that they are the same in all variants
        self._trainings = draw_trainings(experiment.kinds, experiment.arrivals, self._total_seconds, Random(seed))
        self._random = Random(seed + 1)
        shapes = experiment.nodes
        if not self._options.overcommit:
            shapes = tuple(dataclasses.replace(shape, cpu_overcommit_factor=1.0) for shape in shapes)
        self._cpu = HollowCpu(clock, experiment.traces, lambda run: self._recorder.on_closed(run))
        self._cluster = SimulatedCluster(
            clock, self._random, ClusterOptions(nodes=shapes, controllers=_PARTS), self._cpu
        )
        self._hosts: list[HostFacts] = []
        self._since = math.inf
        """When the warm-up ends and measuring begins, seconds since the epoch."""
        self._given_up = 0
        self._recorder = UtilisationRecorder(
            self._cluster.informers, clock, self._hosts, {kind.name: kind.pods for kind in experiment.kinds}
        )

    async def play(self) -> VariantReport:
        """Run the variant and return its measures."""
        cluster = self._cluster
        await cluster.start()
        try:
            return await cluster.guard(self._play())
        finally:
            await cluster.stop()

    async def _play(self) -> VariantReport:
        cluster, recorder = self._cluster, self._recorder
        begin = self._clock.monotonic()
        self._since = self._clock.now() + self._warm_seconds
        for shape, nodes in zip(cluster.options.nodes, cluster.nodes, strict=True):
            cores = quantity.milli(shape.resources["cpu"]) / 1000
            self._hosts += [HostFacts(name, cores, shape.cpu_overcommit_factor) for name in nodes.names]
        recorder.start()
        agents = self._start_agents()
        for body in priority_classes(self._experiment):
            await cluster.admin.create(catalog.PRIORITYCLASS, body)
        for service in self._experiment.services:
            for pod in service_pods(service):
                await cluster.admin.create(catalog.POD, pod, NAMESPACE)
        waiting = list(reversed(self._trainings))
        before = AgentCounts()
        at_start = recorder.counts(self._cpu)
        instants = [number * GRID_SECONDS for number in range(int(self._total_seconds / GRID_SECONDS) + 1)]
        for instant in instants:
            await self._submit(waiting, begin, instant)
            await self._sleep_until(begin + instant)
            if instant <= self._warm_seconds < instant + GRID_SECONDS:
                at_start = recorder.counts(self._cpu)
                before = dataclasses.replace(agents.counts) if agents is not None else before
            if instant >= self._warm_seconds:
                recorder.sample_hosts(self._cpu)
            await self._give_up()
            cluster.check()
            if self._progress is not None:
                self._progress(UtilisationProgress(self._name, instant, self._total_seconds))
        counts = agents.counts if agents is not None else AgentCounts()
        return self._report(at_start, before, counts)

    def _start_agents(self) -> SimulatedAgents | None:
        policy = self._experiment.policy_of(self._options)
        if policy is None:
            return None
        cluster = self._cluster
        names = [host.name for host in self._hosts]
        agents = SimulatedAgents(
            cluster.admin, cluster.informers, self._clock, child(self._random), self._cpu, names, policy
        )
        cluster.run_beside("agents", agents.run())
        return agents

    async def _submit(self, waiting: list[SubmittedTraining], begin: float, until: float) -> None:
        while waiting and waiting[-1].at < until:
            one = waiting.pop()
            await self._sleep_until(begin + one.at)
            await self._cluster.admin.create(catalog.TFJOB, training_job(one, gang=self._options.gang), NAMESPACE)

    async def _give_up(self) -> None:
        """Delete the trainings that have not begun after `Arrivals.give_up_minutes`, as their users would."""
        longest = self._experiment.arrivals.give_up_minutes * 60
        now = self._clock.now()
        for run in self._recorder.runs() if longest else ():
            if run.started is None and run.ended is None and now - run.submitted >= longest:
                self._given_up += now >= self._since
                with contextlib.suppress(NotFound):
                    await self._cluster.admin.delete(catalog.TFJOB, run.job, NAMESPACE)

    async def _sleep_until(self, instant: float) -> None:
        left = instant - self._clock.monotonic()
        if left > 0:
            await self._clock.sleep(left)

    def _report(
        self, at_start: dict[Workload, WorkloadCounts], before: AgentCounts, counts: AgentCounts
    ) -> VariantReport:
        recorder = self._recorder
        period = Period(self._since, self._since + self._experiment.times.hours * 3600)
        runs, replicas = statistics.of_runs(recorder.runs(), period), recorder.replicas()
        at_end = recorder.counts(self._cpu)
        training = _difference(at_end[Workload.TRAINING], at_start.get(Workload.TRAINING))
        online = _difference(at_end[Workload.ONLINE], at_start.get(Workload.ONLINE))
        return VariantReport(
            name=self._name,
            gang=self._options.gang,
            overcommit=self._options.overcommit,
            suppression=self._options.suppression,
            burst=self._options.burst,
            runs=runs,
            given_up=self._given_up,
            hosts=statistics.of_hosts(recorder.hosts, period),
            allocated=statistics.allocated(replicas, recorder.hosts, period),
            training=TrainingReport.of(training),
            online=OnlineReport.of(online),
            suppressions=counts.suppressions - before.suppressions,
            bursts=counts.bursts - before.bursts,
            evictions=counts.evictions - before.evictions,
            cut_cores=round(counts.cut_cores - before.cut_cores, 3),
            rounds=counts.rounds - before.rounds,
            skipped_rounds=counts.skipped_rounds - before.skipped_rounds,
            series=_series(recorder.hosts),
        )


def _difference(after: WorkloadCounts, before: WorkloadCounts | None) -> WorkloadCounts:
    if before is not None:
        for one in dataclasses.fields(after.total):
            setattr(after.total, one.name, getattr(after.total, one.name) - getattr(before.total, one.name))
        after.held_core_seconds -= before.held_core_seconds
    return after


def _series(hosts: Sequence[Host]) -> list[float]:
    """Return the CPU utilisation of all nodes together, in steps of five minutes."""
    by_time: dict[float, tuple[float, float]] = {}
    for host in hosts:
        used, cores = by_time.get(host.ts, (0.0, 0.0))
        by_time[host.ts] = used + host.cpu_used, cores + host.cpu_capacity
    return [round(used / cores, 4) for used, cores in (by_time[at] for at in sorted(by_time))]
