"""numa-aware: place Guaranteed pods where the kubelet can give them CPUs of few NUMA nodes (spec plugins 19)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strato.api.pods import qos_class
from strato.api.volcano.nodeinfo import Numatopology
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import PENDING
from strato.scheduler.plugins.cpusets import POLICIES, CpuLayout, Cpus, assign, layout_of

POLICY: Final = "volcano.sh/numa-topology-policy"
DECISION: Final = "volcano.sh/topology-decision"

NO_INFO = Reason("numa-aware", "node has no numa information", curable=False)
NOT_STATIC = Reason("numa-aware", "cpu manager policy of the node is not static", curable=False)
OTHER_POLICY = Reason("numa-aware", "topology manager policy of the node is not the pod's", curable=False)
NO_CPUS = Reason("numa-aware", "cpu topology information of the node is empty", curable=False)
_MOST_REASONS: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaAwareArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("weight", 1)
    """Factor of the score. Default 1."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """CPUs that a task was given on a node."""

    node: str
    cpus: Cpus


class NumaAware(Plugin):
    """Place Guaranteed pods by the free CPUs of each node and its kubelet's policies."""

    name = "numa-aware"
    args_type = NumaAwareArgs

    def open(self, ssn: CycleContext) -> None:
        """Begin a session; topologies are read when a Guaranteed pod first needs them."""
        self._ssn = ssn
        self._views = ssn.world.objects.get(Numatopology, {})
        self._pinned: dict[str, Pinned] = ssn.world.plugin_state.setdefault(self.name, {})
        self._layouts: dict[str, CpuLayout | None] = {}

    def watches_pods(self, task: Task) -> bool:
        """Whether CPUs would be pinned for the task."""
        return bool(self._views or _policy(task)) and qos_class(task.cls.spec) == "Guaranteed"

    def _layout(self, name: str) -> CpuLayout | None:
        if name not in self._layouts:
            view = self._views.get(name)
            self._layouts[name] = layout_of(view) if isinstance(view, Numatopology) else None
        return self._layouts[name]

    def _free(self, name: str, layout: CpuLayout) -> Cpus:
        """Return a node's CPUs that no pod was given; its layout lacks those that the kubelet reports as given."""
        nodes = self._ssn.world.nodes
        view = self._views[name]
        assert isinstance(view, Numatopology)
        reported = {held.uid for held in view.spec.pod_allocations}
        free = layout.free
        for task in nodes.tasks[nodes.row_of[name]].values():
            pinned = self._pinned.get(task.uid)
            if pinned is not None and pinned.node == name and ON_NODE[task.status] and task.uid not in reported:
                free -= pinned.cpus
        return free

    def _assign(self, task: Task, row: int) -> tuple[CpuLayout | None, Cpus, Reason | None]:
        """Return the layout of a row's node, the CPUs that a task would get there, and the reason if it gets none."""
        name, wanted = self._ssn.world.nodes.names[row], _policy(task)
        layout = self._layout(name)
        if wanted:
            if layout is None:
                return None, frozenset(), NO_INFO
            if layout.cpu_policy != "static":
                return None, frozenset(), NOT_STATIC
            if layout.topology_policy != wanted:
                return None, frozenset(), OTHER_POLICY
            if not layout.cpus:
                return None, frozenset(), NO_CPUS
        elif layout is None or layout.cpu_policy != "static" or layout.topology_policy in ("", "none"):
            return None, frozenset(), None
        cpus, refused = assign(layout, self._free(name, layout), task.cls.spec.containers, layout.topology_policy)
        if refused:
            return layout, cpus, Reason(self.name, f"container {refused} cannot be assigned by numa", curable=False)
        return layout, cpus, None

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes whose kubelet would admit the pod."""
        if not self.watches_pods(task):
            return None
        codes = np.zeros(len(rows), np.uint16)
        reasons: list[Reason] = []
        for i, row in enumerate(rows.tolist()):
            reason = self._assign(task, row)[2]
            if reason is not None:
                if reason not in reasons and len(reasons) < _MOST_REASONS:
                    reasons.append(reason)
                codes[i] = (reasons.index(reason) if reason in reasons else 0) + 1
        return Verdicts(codes, tuple(reasons))

    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Fewer NUMA nodes are better, for pods that ask for a policy."""
        if not _policy(task) or not self.watches_pods(task):
            return None
        used = np.zeros(len(rows))
        for i, row in enumerate(rows.tolist()):
            layout, cpus, _ = self._assign(task, row)
            used[i] = len(layout.numa_nodes(cpus)) if layout is not None else 0
        most = used.max(initial=0.0)
        points: FloatArray = 100.0 - 100.0 * used / most if most else np.full(len(rows), 100.0)
        return points * float(self.args.weight)

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Pin the CPUs of placed tasks, and record them for their binds."""
        for task in tasks:
            if not self.watches_pods(task) or task.pod.spec.node_name:
                continue
            self._pinned.pop(task.uid, None)
            layout, cpus, _ = self._assign(task, task.row)
            if layout is not None and cpus:
                self._pinned[task.uid] = Pinned(self._ssn.world.nodes.names[task.row], cpus)
                numa = {str(n): {"cpu": str(c)} for n, c in sorted(layout.numa_nodes(cpus).items())}
                task.grant(self.name, {DECISION: json.dumps({"numa": numa}, separators=(",", ":"))})

    def close(self, ssn: CycleContext) -> None:
        """Forget the CPUs pinned for tasks that are gone or were not placed in the end."""
        if not self._pinned:
            return
        known = {t.uid for t in ssn.world.tasks.values() if t.row >= 0 and t.status != PENDING}
        for uid in self._pinned.keys() - known:
            del self._pinned[uid]


def _policy(task: Task) -> str:
    """Return the policy a pod asks for, empty for none."""
    wanted = task.pod.metadata.annotation(POLICY)
    return wanted if wanted in POLICIES else ""
