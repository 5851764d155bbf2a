"""predicates: where Kubernetes' own rules let a pod run (spec volcano-plugins 12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from strato.api.core import Node
from strato.api.nodeselection import CORDON, HARD_EFFECTS, matches_node, tolerates
from strato.api.pods import host_ports, host_ports_clash
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.reservation import Reservation
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.plugins import devicebinding, neighbourly, volumebinding

UNSCHEDULABLE = Reason("predicates", "node(s) were unschedulable", curable=False)
AFFINITY = Reason("predicates", "node(s) didn't match Pod's node affinity/selector", curable=False)
PORTS = Reason("predicates", "node(s) didn't have free ports for the requested pod ports")


def _list(given: Any) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise ValueError(f"{given!r} is not a list")
    return tuple(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicatesArgs:
    """Arguments, as written under ``arguments:`` of this plugin; each switches one rule, default on."""

    node_affinity: bool = arg("predicate.NodeAffinityEnable", True)
    node_ports: bool = arg("predicate.NodePortsEnable", True)
    taint_toleration: bool = arg("predicate.TaintTolerationEnable", True)
    pod_affinity: bool = arg("predicate.PodAffinityEnable", True)
    node_volume_limits: bool = arg("predicate.NodeVolumeLimitsEnable", True)
    volume_zone: bool = arg("predicate.VolumeZoneEnable", True)
    pod_topology_spread: bool = arg("predicate.PodTopologySpreadEnable", True)
    volume_binding: bool = arg("predicate.VolumeBindingEnable", True)
    devices: bool = arg("predicate.DynamicResourceAllocationEnable", True)
    cache: bool = arg("predicate.CacheEnable", False)
    """Accepted for compatibility; filters are always cached here, by class and node."""
    bind_timeout_seconds: int = arg("volumebinding.bindTimeoutSeconds", 600)
    volume_weight: int = arg("volumebinding.weight", 1)
    shape: tuple[Any, ...] = arg("volumebinding.shape", (), read=_list)
    """Accepted for compatibility, as the weight before it: volumes are not scored."""
    claims_timeout_seconds: int = arg("dynamicresources.filterTimeoutSeconds", 10, minimum=0)


class Predicates(Plugin):
    """Reject nodes that are cordoned, tainted, of the wrong kind, or full of pods or ports."""

    name = "predicates"
    job_facts = ()
    args_type = PredicatesArgs
    limits_pods = True
    """A node takes no more pods than its allocatable ``pods``, pipelined ones included; the kernel counts them."""

    def open(self, ssn: CycleContext) -> None:
        """Nothing to prepare."""
        self._ssn = ssn

    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts:
        """Cordons, node selectors and affinity, taints: whatever depends on the node object only."""
        codes = np.zeros(len(rows), np.uint16)
        numbers = {UNSCHEDULABLE: 1, AFFINITY: 2}
        affinity = cls.spec.affinity.node_affinity if cls.spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        selective = self.args.node_affinity and (bool(cls.spec.node_selector) or required is not None)
        if selective:
            looked_at: Iterable[int] = range(len(rows))
        else:
            looked_at = np.nonzero(nodes.tainted[rows])[0].tolist()
        for i in looked_at:
            node = nodes.facts[rows[i]]
            if node is not None:
                refused = self._judge(cls, node, selective)
                if refused is not None:
                    codes[i] = numbers.setdefault(refused, len(numbers) + 1)
        return Verdicts(codes, tuple(numbers))

    def _judge(self, cls: TaskClass, node: Node, selective: bool) -> Reason | None:
        tolerations = cls.spec.tolerations
        if node.spec.unschedulable and not tolerates(tolerations, CORDON):
            return UNSCHEDULABLE
        if selective and not matches_node(cls.spec, node):
            return AFFINITY
        if self.args.taint_toleration:
            for taint in node.spec.taints:
                if taint.effect in HARD_EFFECTS and not tolerates(tolerations, taint):
                    text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
                    return Reason(self.name, text, curable=False)
        return None

    def watches_pods(self, task: Task) -> bool:
        """Whether what runs on a node matters for this task."""
        if task.cls.uses_claims or (self.args.node_ports and task.cls.host_ports):
            return True
        world = self._ssn.world
        return bool(world.affinity) and neighbourly.concerns(world, task)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Host ports that are taken, rules about other pods, volumes, devices: the first rule a row breaks."""
        found: list[Verdicts] = []
        if self.args.node_ports and task.cls.host_ports:
            taken = np.fromiter((ports_clash(task, self._ssn.met_on(row)) for row in rows), np.bool_, len(rows))
            found.append(Verdicts.reject_where(taken, PORTS))
        neighbours = self.filter_neighbours(task, nodes, rows)
        if neighbours is not None:
            found.append(neighbours)
        if task.cls.uses_claims:
            found += [verdicts for verdicts in self._filter_claims(task, rows) if verdicts is not None]
        return merged(found, len(rows))

    def _filter_claims(self, task: Task, rows: Rows) -> Iterator[Verdicts | None]:
        """Judge rows by volumes, then devices."""
        world, args = self._ssn.world, self.args
        if task.pod.spec.volumes:
            yield volumebinding.filter_in_use(world.volumes, task, rows)
            if args.node_volume_limits:
                yield volumebinding.filter_limits(world, task, rows, self._ssn.met_on)
            if args.volume_zone:
                yield volumebinding.filter_zones(world, task, rows)
            if args.volume_binding:
                yield volumebinding.filter_binding(world, task, rows)
        if args.devices and task.pod.spec.resource_claims:
            yield devicebinding.filter_claims(world, task, rows)

    def pre_filter(self, task: Task) -> Reason | None:
        """Reject a task with claims that no node can serve as they are now."""
        if not task.cls.uses_claims:
            return None
        world, args = self._ssn.world, self.args
        checks = (
            ("VolumeBinding", volumebinding.pre_filter(world.volumes, task) if args.volume_binding else ""),
            ("DynamicResources", devicebinding.pre_filter(world.devices, task) if args.devices else ""),
        )
        for rule, problem in checks:
            if problem:
                return Reason(self.name, f"plugin {rule} pre-predicates failed {problem}", curable=False)
        return None

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Reserve volumes and devices for tasks that were placed or pipelined."""
        if not tasks[0].cls.uses_claims:
            return
        for task in tasks:
            self._reserve(task)

    def _reserve(self, task: Task) -> None:
        world, args = self._ssn.world, self.args
        reservation = Reservation(task.row, timeout_seconds=args.bind_timeout_seconds)
        if args.volume_binding:
            reservation.volumes, reservation.provisions = volumebinding.reserve(world, task, task.row)
        if args.devices:
            reservation.devices, reservation.claims = devicebinding.reserve(world, task, task.row)
        if not reservation.is_empty:
            world.reservations.add(task, reservation)

    def filter_neighbours(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Inter-pod affinity and topology spread."""
        world = self._ssn.world
        found: list[Verdicts] = []
        if self.args.pod_affinity and world.affinity:
            found.append(neighbourly.filter_affinity(world, task, rows))
        if self.args.pod_topology_spread and task.cls.spec.topology_spread_constraints:
            spread = neighbourly.filter_spread(world, task, rows)
            if spread is not None:
                found.append(spread)
        return merged(found, len(rows))


def merged(verdicts: Iterable[Verdicts], rows: int) -> Verdicts | None:
    """Combine several answers into one: each row's first rejection."""
    codes, reasons = np.zeros(rows, np.uint16), list[Reason]()
    for verdict in verdicts:
        shifted = np.where(verdict.codes > 0, verdict.codes + np.uint16(len(reasons)), 0)
        codes = np.where(codes == 0, shifted, codes).astype(np.uint16)
        reasons += verdict.reasons
    return Verdicts(codes, tuple(reasons)) if reasons else None


def ports_clash(task: Task, others: Iterable[Task]) -> bool:
    """Whether any pod on a node holds a host port the task wants."""
    held = (other.cls.host_ports or host_ports(other.pod.spec) for other in others if other is not task)
    return host_ports_clash(task.cls.host_ports, chain.from_iterable(held))
