"""`UtilisationRecorder`: records an experiment: rows of the history for runs and hosts, CPU accounts by workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields

from strato.agent.containers import workload_of
from strato.agent.events import Workload
from strato.api.amplification import amplified
from strato.api.core import Pod
from strato.api.kubeflow import TFJob
from strato.api.volcano.scheduling import GROUP_NOT_ADMITTED, PodGroup
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.history.jobs import facts_of
from strato.history.rows import Host, JobRun, PodContainer
from strato.history.statistics import GRID_SECONDS
from strato.history.tracker import Tracker
from strato.node.hollow.cpu import HollowCpu
from strato.node.hollow.cpuruns import CpuAccount, CpuRun


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A node with its CPU."""

    name: str
    cores: float
    factor: float
    """Ratio of the CPU that the node offers to the CPU that it has."""


class WorkloadCounts:
    """The CPU accounts of the containers of one kind of workload, summed up."""

    def __init__(self) -> None:
        self.total = CpuAccount()
        self.held_core_seconds = 0.0
        """Core-seconds that containers requested while they waited for the other pods of their training."""

    def add(self, run: CpuRun, sign: float = 1.0) -> None:
        """Add the account of a container's run; with ``sign`` -1 subtract it."""
        for one in fields(CpuAccount):
            before = getattr(self.total, one.name)
            setattr(self.total, one.name, before + sign * getattr(run.account, one.name))
        self.held_core_seconds += sign * run.request_weight / 1000 * run.account.waiting_seconds


class UtilisationRecorder:
    """Records jobs, pods and nodes of a simulated cluster.

    Args:
        informers: Give the informers of jobs, pod groups and pods.
        clock: Gives the instants.
        hosts: The nodes.
        pods_of: Kind of a training (its name up to the last hyphen) → number of its pods.
    """

    def __init__(self, informers: Informers, clock: Clock, hosts: Sequence[HostFacts], pods_of: dict[str, int]) -> None:
        self._informers, self._clock = informers, clock
        self._facts, self._pods_of = hosts, pods_of
        self._tracker = Tracker()
        self._runs: dict[str, JobRun] = {}
        self._replicas: dict[tuple[str, str, str], PodContainer] = {}
        self._closed: dict[Workload, WorkloadCounts] = defaultdict(WorkloadCounts)
        self._used: dict[str, float] = {}
        self.hosts: list[Host] = []
        """The usage of each node in steps of five minutes."""

    def start(self) -> None:
        """Add handlers to the informers."""
        self._informers.informer(TFJob).add_handler(self._on_job)
        self._informers.informer(PodGroup).add_handler(self._on_group)
        self._informers.informer(Pod).add_batch_handler(self._on_pods)

    def on_closed(self, run: CpuRun) -> None:
        """Add the account of a container's run that has ended."""
        self._closed[workload_of(run.pod)].add(run)

    def sample_hosts(self, cpu: HollowCpu) -> None:
        """Record the CPU that each node has used since the last call, five minutes ago; the first records nothing."""
        now = self._clock.now()
        for host in self._facts:
            used = cpu.used_core_seconds(host.name)
            before = self._used.get(host.name)
            self._used[host.name] = used
            if before is not None:
                self.hosts.append(
                    Host(
                        ts=now - GRID_SECONDS,
                        node=host.name,
                        cpu_capacity=host.cores,
                        cpu_used=(used - before) / GRID_SECONDS,
                        cpu_allocatable=amplified(round(host.cores * 1000), host.factor) / 1000,
                    )
                )

    def counts(self, cpu: HollowCpu) -> dict[Workload, WorkloadCounts]:
        """Return the counts so far by workload, of ended and present runs of containers."""
        found: dict[Workload, WorkloadCounts] = defaultdict(WorkloadCounts)
        for workload, counts in self._closed.items():
            for one in fields(CpuAccount):
                setattr(found[workload].total, one.name, getattr(counts.total, one.name))
            found[workload].held_core_seconds = counts.held_core_seconds
        for host in self._facts:
            for run in cpu.runs_of(host.name).values():
                found[workload_of(run.pod)].add(run)
        return found

    def runs(self) -> list[JobRun]:
        """Return all runs of trainings."""
        self._take_rows()
        return list(self._runs.values())

    def replicas(self) -> list[PodContainer]:
        """Return all pods of trainings."""
        self._tracker.save_all(self._clock.now())
        self._take_rows()
        return list(self._replicas.values())

    def _on_job(self, change: Change[TFJob]) -> None:
        job, now = change.object, self._clock.now()
        facts = facts_of(job)
        pods = self._pods_of.get(job.metadata.name.rpartition("-")[0], facts.min_available)
        self._tracker.see_job(facts._replace(min_available=pods), now)
        if change.new is None:
            self._take_rows()
            self._tracker.forget_job(job.metadata.uid, now)

    def _on_group(self, change: Change[PodGroup]) -> None:
        group = change.new
        if group is not None and group.status.phase not in GROUP_NOT_ADMITTED and (owner := group.metadata.controller):
            self._tracker.see_group(owner.uid, self._clock.now())

    def _on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        now = self._clock.now()
        for change in changes:
            self._tracker.see_pod(change.object, is_gone=change.new is None, now=now)

    def _take_rows(self) -> None:
        for row in self._tracker.take_rows():
            if isinstance(row, JobRun):
                self._runs[row.run_id] = row
            else:
                self._replicas[row.run_id, row.pod, row.container] = row
