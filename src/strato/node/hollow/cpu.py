"""The simulated CPU of hollow nodes: how much of it each container gets over time.

A pod's demand (`strato.api.cpudemand`) says how many cores its containers want over time. The node's cores are shared
as by the kernel's fair scheduler, by quotas and weights (`strato.node.hollow.cpushare`). Between two events (a demand
changes, a container starts, ends or gets another quota) all rates are constant, so usage is computed exactly with one
evaluation per event and node.

A container with a limited amount of work ends when it has received the CPU time for it: with half of the cores that it
wants it runs twice as long. Pods of one owner can form one training (`WAITS_FOR`, `SETS_PACE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.api.core import Container, Pod
from strato.api.cpudemand import CPU_DEMAND, Traces, demand_problem, read_quietly
from strato.api.quantity import InvalidQuantity, milli
from strato.clock import Clock
from strato.errors import InvariantError
from strato.node.hollow.cpuruns import HOT_RATIO, NEXT_TO_NOTHING, CpuGroup, CpuRun
from strato.node.hollow.cpushare import fair_shares
from strato.node.timers import Timers

WAITS_FOR: Final = "strato.dev/waits-for-pods"
"""Pod annotation, a number: its containers want no CPU while fewer pods of the pod's owner run or have ended."""
SETS_PACE: Final = "strato.dev/sets-pace"
"""Pod annotation ``true``: a CPU limit below its demand slows all other pods of its owner by the same factor."""
_LEAST_WEIGHT: Final = 2.0
"""Weight of a container without a request, in millicores: the kernel's least."""


@dataclass(slots=True)
class _Node:
    cores: float
    at: float = 0.0
    """Instant up to which usage is counted."""
    runs: dict[str, CpuRun] = field(default_factory=dict)
    used_core_seconds: float = 0.0
    given: float = 0.0
    epoch: int = 0
    """Number of the node's present timer; timers with another number are ignored."""


class HollowCpu:
    """See the module. One for all hollow nodes of a cluster.

    Args:
        clock: The cluster's clock, which also defines the days of daily demands.
        traces: The traces that demands of the kind ``trace`` may name.
        on_closed: Called with every run that has ended or was stopped.
    """

    def __init__(
        self,
        clock: Clock,
        traces: Traces | None = None,
        on_closed: Callable[[CpuRun], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._traces = traces or {}
        self._on_closed = on_closed
        self._timers = Timers(clock)
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, dict[str, CpuRun]] = {}
        """Runs by the pod's uid and the container's name."""
        self._groups: dict[str, CpuGroup] = {}
        """Groups by the owner's uid."""
        self._ended: dict[str, CpuGroup] = {}
        """Groups of pods that have done their work, by the pod's uid."""
        self._dirty: dict[str, None] = {}
        self._before_change: dict[str, Callable[[float], None]] = {}

    async def run(self) -> None:
        """Serve the timers until cancelled."""
        await self._timers.run()

    def add_node(self, name: str, cores: float) -> None:
        """Add a node with a number of real cores."""
        self._nodes[name] = _Node(cores, self._clock.monotonic())

    def cores_of(self, node: str) -> float:
        """Return a node's real cores."""
        return self._nodes[node].cores

    def before_change(self, node: str, function: Callable[[float], None]) -> None:
        """Register a function to be called before a node's rates change.

        It gets the monotonic instant of the change; usage has been counted up to it.
        """
        self._before_change[node] = function

    def has_demand(self, pod: Pod) -> bool:
        """Return whether a pod has a demand."""
        return CPU_DEMAND in (pod.metadata.annotations or {}) and pod.spec.node_name in self._nodes

    def problems(self, pod: Pod) -> Iterator[str]:
        """Yield a sentence for each annotation about CPU that is ignored because it cannot be read."""
        annotations = pod.metadata.annotations
        problem = demand_problem(annotations, pod.metadata.name, self._traces)
        if problem:
            yield problem
        text = (annotations or {}).get(WAITS_FOR)
        if text is not None and not (text.isascii() and text.isdigit()):
            yield f"annotation {WAITS_FOR}: {text!r} is ignored, want a number of pods"

    def start(self, pod: Pod, container: Container, seconds: float, on_end: Callable[[], None]) -> bool:
        """Start a run of a container; return False if the pod's demand cannot be parsed.

        Args:
            pod: A pod bound to one of the nodes.
            container: One of its containers.
            seconds: Duration of its work at full CPU; if infinite, only `stop` ends the run.
            on_end: Called when the work is done.
        """
        node = pod.spec.node_name
        demand = read_quietly(pod.metadata.annotations, pod.metadata.name, self._traces)
        if demand is None:
            return False
        limit = _milli(container.resources.limits)
        run = CpuRun(
            pod=pod,
            container=container.name,
            node=node,
            demand=demand,
            request_weight=max(_LEAST_WEIGHT, _milli(container.resources.requests) or limit or 0),
            quota=limit / 1000 if limit else math.inf,
            left_seconds=seconds,
            sets_pace=(pod.metadata.annotations or {}).get(SETS_PACE) == "true",
            _on_end=on_end,
        )
        run.group = self._group_of(pod)
        self._settle(self._nodes[node])
        self._nodes[node].runs[run.key] = run
        self._pods.setdefault(pod.metadata.uid, {})[run.container] = run
        if run.group is not None:
            run.group.runs[run.key] = run
            self._mark_group(run.group)
        self._mark(node)
        return True

    def stop(self, uid: str) -> None:
        """Stop the runs of a pod that have not ended."""
        for run in list(self._pods.get(uid, {}).values()):
            self._settle(self._nodes[run.node])
            self._close(run, is_done=False)

    def forget(self, uid: str) -> None:
        """Forget a pod that was deleted from the API."""
        self.stop(uid)
        group = self._ended.pop(uid, None)
        if group is not None:
            group.finished.discard(uid)
            self._mark_group(group)

    def set_quota(self, uid: str, container: str, quota_milli: int | None) -> bool:
        """Set a container's quota in millicores, None for no quota; return whether the container runs."""
        run = self._pods.get(uid, {}).get(container)
        if run is None:
            return False
        run.quota = math.inf if quota_milli is None else quota_milli / 1000
        self._mark(run.node)
        return True

    def give_way(self, uid: str, container: str, *, does: bool) -> None:
        """Let a container use only CPU that no other container of its node wants (``cpu.idle``), or end that."""
        run = self._pods.get(uid, {}).get(container)
        if run is not None and run.gives_way != does:
            run.gives_way = does
            self._mark(run.node)

    def resize(self, pod: Pod) -> None:
        """Apply the new limits and requests of a running pod."""
        for container in pod.spec.containers:
            run = self._pods.get(pod.metadata.uid, {}).get(container.name)
            if run is not None:
                run.pod = pod
                limit = _milli(container.resources.limits)
                run.request_weight = max(_LEAST_WEIGHT, _milli(container.resources.requests) or limit or 0)
                self.set_quota(pod.metadata.uid, container.name, limit)

    def runs_of(self, node: str) -> Mapping[str, CpuRun]:
        """Return the runs on a node by key, with their usage counted up to now."""
        found = self._nodes[node]
        self._settle(found)
        return found.runs

    def used_core_seconds(self, node: str) -> float:
        """Return the core-seconds that a node's containers have used since the node was added, up to now."""
        found = self._nodes[node]
        self._settle(found)
        return found.used_core_seconds

    def given_cores(self, node: str) -> float:
        """Return the cores that a node's containers get now."""
        return self._nodes[node].given

    def _group_of(self, pod: Pod) -> CpuGroup | None:
        owner = pod.metadata.controller
        if owner is None:
            return None
        text = (pod.metadata.annotations or {}).get(WAITS_FOR, "")
        needed = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        group = self._groups.get(owner.uid)
        if group is None:
            group = self._groups[owner.uid] = CpuGroup(needed)
        group.needed = max(group.needed, needed)
        return group

    def _close(self, run: CpuRun, *, is_done: bool) -> None:
        uid, node = run.pod.metadata.uid, self._nodes[run.node]
        del node.runs[run.key]
        del self._pods[uid][run.container]
        if not self._pods[uid]:
            del self._pods[uid]
        group = run.group
        if group is not None:
            del group.runs[run.key]
            if is_done and uid not in self._pods:
                group.finished.add(uid)
                self._ended[uid] = group
            self._mark_group(group)
            owner = run.pod.metadata.controller
            if owner is not None and not group.runs and not group.finished:
                self._groups.pop(owner.uid, None)
        self._mark(run.node)
        self._on_closed(run)

    def _mark_group(self, group: CpuGroup) -> None:
        group.refresh()
        for run in group.runs.values():
            self._mark(run.node)

    def _mark(self, node: str) -> None:
        """Schedule one evaluation of a node at this instant, after all its events of this instant."""
        if not self._dirty:
            self._timers.after(0.0, self._flush)
        self._dirty[node] = None

    def _flush(self) -> None:
        rounds = 0
        while self._dirty:
            name = next(iter(self._dirty))
            rounds += 1
            if rounds > 100 * len(self._nodes) + 1000:
                raise InvariantError(f"the CPU of hollow node {name} comes to no rest")
            node = self._nodes[name]
            self._settle(node)
            for run in [run for run in node.runs.values() if run.left_seconds <= NEXT_TO_NOTHING]:
                self._close(run, is_done=True)
                run.end()
            self._evaluate(name, node)
            self._dirty.pop(name, None)

    def _settle(self, node: _Node) -> None:
        now = self._clock.monotonic()
        seconds, node.at = now - node.at, now
        if seconds <= 0:
            return
        is_overloaded = node.given >= HOT_RATIO * node.cores
        node.used_core_seconds += node.given * seconds
        for run in node.runs.values():
            run.settle(seconds, is_overloaded=is_overloaded)

    def _evaluate(self, name: str, node: _Node) -> None:
        wall = self._clock.now()
        if name in self._before_change:
            self._before_change[name](node.at)
        runs = list(node.runs.values())
        for run in runs:
            run.want(wall)
            if run.sets_pace and run.group is not None and run.group.slowest() != run.group.pace:
                self._mark_group(run.group)
        for run in runs:  # a second time, because the first pass may have changed the pace of a group
            run.want(wall)
        shares = fair_shares(node.cores, [run.usable for run in runs], [run.weight for run in runs])
        node.given = math.fsum(shares)
        soonest = min((run.give(cores, wall) for run, cores in zip(runs, shares, strict=True)), default=math.inf)
        node.epoch += 1
        if soonest < math.inf:
            self._timers.at(node.at + soonest, self._wake, name, node.epoch)

    def _wake(self, name: str, epoch: int) -> None:
        if self._nodes[name].epoch == epoch:
            self._dirty[name] = None
            self._flush()


def _milli(amounts: Mapping[str, object]) -> int | None:
    """Return an amount of CPU in millicores, None if there is none."""
    try:
        return milli(str(amounts["cpu"])) if "cpu" in amounts else None
    except InvalidQuantity:
        return None
