"""fgd: place pods on GPU nodes so that what stays idle remains usable (fragmentation gradient descent), card by card.

It reads shares as Volcano's device plugin writes them: a pod's limit ``volcano.sh/gpu-memory`` is a share of one card,
``volcano.sh/gpu-number`` is whole cards, and nodes offer both. The cards that a pod gets are written with its bind, as
by ``deviceshare`` (use one of the two). On nodes with whole cards only (``nvidia.com/gpu``) cards have no numbers. The
annotations ``nvidia.com/use-gputype`` and ``nvidia.com/nouse-gputype`` choose models of cards, which a label of the
node names.

Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023; the other policies are the ones it is compared with.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import CPU, FloatArray
from strato.scheduler.placement.arrays import Int64s
from strato.scheduler.plugins import fgdkernels as kernels
from strato.scheduler.plugins import gpushare
from strato.scheduler.plugins.fgdcards import CardTable
from strato.scheduler.plugins.fgdworkload import Typical, accepts, most_frequent, read_workload

CARDS_FULL: Final = Reason("fgd", "too few idle GPUs, or too little of one, on node")
WRONG_MODEL: Final = Reason("fgd", "node has no GPU of a model that the pod accepts", curable=False)

USE_MODELS: Final = "nvidia.com/use-gputype"
AVOID_MODELS: Final = "nvidia.com/nouse-gputype"
POLICIES: Final[Mapping[str, int]] = {
    "fragmentation": kernels.FRAGMENTATION,
    "dot-product": kernels.DOT_PRODUCT,
    "best-fit": kernels.BEST_FIT,
    "packing": kernels.PACKING,
    "clustering": kernels.CLUSTERING,
    "random": kernels.RANDOM,
}
POPULARITY_PERCENT: Final = 95.0
"""Percentage of all pods that the typical ones represent, as in the paper."""
_RECOUNT_RATIO: Final = 1.1
"""Factor by which the number of known pods must change before the typical ones are chosen again."""


def _policy(text: Any) -> int:
    if text not in POLICIES:
        raise ValueError(f"{text!r} is none of {', '.join(POLICIES)}")
    return POLICIES[str(text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FgdArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    policy: int = arg("fgd.policy", kernels.FRAGMENTATION, read=_policy)
    """``fragmentation`` (default), or what it is compared with: ``dot-product``, ``best-fit``, ``packing``,
    ``clustering``, ``random``."""
    weight: int = arg("fgd.weight", 1, minimum=1)
    """Factor of the score, which is in whole points from 0 to 100. Default 1."""
    workload: tuple[Typical, ...] = arg("fgd.workload", (), read=read_workload)
    """The typical pods against which fragments are counted; by default the most frequent of those in the cluster."""
    first_of_equals: bool = arg("fgd.firstOfEquals", True)
    """Whether of nodes with equal points the first is taken, so that they fill up one after the other. Default true."""
    every_pod: bool = arg("fgd.everyPod", True)
    """Whether pods without GPUs are scored too: what they take of a node decides whether its GPUs stay usable."""
    resource: str = arg("fgd.resource", "nvidia.com/gpu")
    """Whole GPUs of nodes that do not share theirs. Default ``nvidia.com/gpu``."""
    label: str = arg("fgd.modelLabel", "nvidia.com/gpu.product")
    """Label of nodes with the model of their GPUs. Default ``nvidia.com/gpu.product``."""


class _Points:
    """Points of rows for one class, and the version of each row that they were computed at."""

    __slots__ = ("at", "points")

    def __init__(self, rows: int) -> None:
        self.points: Int64s = np.full(rows, -1, np.int64)
        self.at: Int64s = np.zeros(rows, np.int64)


class _Memory:
    """State that is kept between sessions."""

    def __init__(self, args: FgdArgs) -> None:
        self.args = args
        self.cards = CardTable(Fgd.name, args.resource, args.label)
        self.points: dict[int, _Points] = {}
        self.pods_counted = 0


class Fgd(Plugin):
    """Fill nodes so that typical future pods can use the GPUs that are left."""

    name = "fgd"
    args_type = FgdArgs

    def open(self, ssn: CycleContext) -> None:
        """Begin a session; cards are counted when a task first needs them."""
        self._ssn = ssn
        memory = ssn.world.plugin_state.get(self.name)
        if memory is None or memory.args != self.args:
            memory = ssn.world.plugin_state[self.name] = _Memory(self.args)
        self._memory: _Memory = memory
        self._cards = memory.cards
        self._expect()

    def resources(self) -> Sequence[str]:
        """The resources that pods ask GPUs by."""
        return (gpushare.MEMORY, gpushare.NUMBER, self.args.resource)

    def _expect(self) -> None:
        """Set the typical pods to the configured workload, or to the most frequent pods in the cluster."""
        if self.args.policy != kernels.FRAGMENTATION:
            return
        if self.args.workload:
            self._cards.expect(self.args.workload)
            return
        pods, before = len(self._ssn.world.tasks), self._memory.pods_counted
        if before / _RECOUNT_RATIO <= pods <= before * _RECOUNT_RATIO and before:
            return
        self._memory.pods_counted = pods
        unit = self._cards.usual_unit
        typical = [self._typical(task, unit) for task in self._ssn.world.tasks.values()]
        self._cards.expect(most_frequent(typical, POPULARITY_PERCENT))

    def _typical(self, task: Task, unit: int) -> Typical:
        ask = self._cards.ask(task.cls)
        share = min(kernels.WHOLE, kernels.share_on(ask, unit)) or kernels.WHOLE
        cards = 1 if ask.memory else ask.cards
        return Typical(cpu_millicores=ask.cpu, share=share, cards=cards, models=_models(task)[0])

    def watches_pods(self, task: Task) -> bool:
        """Whether the task requests GPUs, or is scored because it takes cpu that pods with GPUs would need."""
        ask = self._cards.ask(task.cls)
        return self.args.every_pod or ask.memory > 0 or ask.cards > 0

    # -- models --------------------------------------------------------------------------------------------------------

    def facet(self, task: Task) -> Hashable:
        """The models it accepts."""
        return _models(task)

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes whose cards are of a model that the task accepts."""
        use, avoid = _models(task)
        ask = self._cards.ask(task.cls)
        if not (use or avoid) or not (ask.memory or ask.cards):
            return None
        labels = [node.metadata.label(self.args.label) if node is not None else "" for node in _facts(nodes, rows)]
        right = {m: bool(m) and accepts(use, m) and not (avoid and accepts(avoid, m)) for m in set(labels)}
        return Verdicts.reject_where(np.array([not right[model] for model in labels], np.bool_), WRONG_MODEL)

    # -- cards ---------------------------------------------------------------------------------------------------------

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes whose cards have room, one by one."""
        ask = self._cards.ask(task.cls)
        if not ask.memory and not ask.cards:
            return None
        return Verdicts.reject_where(self._points(task, nodes, rows) < 0, CARDS_FULL)

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """The policy's points times the weight; of equals the first has up to one point more."""
        points = np.maximum(self._points(task, nodes, rows), 0).astype(np.float64)
        if self.args.policy == kernels.RANDOM:
            points = np.array([self._ssn.rng.random() for _ in range(len(rows))]) * 100.0
        elif self.args.first_of_equals:
            points += (nodes.size - rows) / (nodes.size + 1.0)
        scaled: FloatArray = points * float(self.args.weight)
        return scaled

    def _points(self, task: Task, nodes: NodeTable, rows: Rows) -> Int64s:
        """Return points of rows, -1 where the cards do not suffice; only rows that changed are computed again."""
        cards = self._cards
        cards.refresh(nodes)
        known = self._memory.points.get(task.cls.number)
        if known is None or len(known.at) != len(cards.version):
            known = self._memory.points[task.cls.number] = _Points(len(cards.version))
        stale = rows[known.at[rows] != cards.version[rows]]
        if stale.size:
            cards.judge(self.args.policy, stale, cards.ask(task.cls), nodes, known.points)
            known.at[stale] = cards.version[stale]
        points: Int64s = known.points[rows]
        return points

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Give placed tasks their cards."""
        nodes = self._ssn.world.nodes
        for task in tasks:
            ask = self._cards.ask(task.cls)
            if (not ask.memory and not ask.cards) or gpushare.INDEX in task.granted(self.name):
                continue
            self._cards.refresh(nodes)
            if not self._cards.names_cards(task.row):
                continue
            chosen = self._choose(ask, task.row)
            task.grant(self.name, gpushare.annotations_for(chosen, self._ssn.now))
            self._cards.give(nodes, task.row, ask, chosen)

    def _choose(self, ask: kernels.PodRequest, row: int) -> tuple[int, ...]:
        if self.args.policy == kernels.RANDOM and ask.memory:
            return tuple(self._ssn.rng.sample(self._cards.cards_with_room(ask, row), 1))
        before = int(self._ssn.world.nodes.idle[row, CPU]) + ask.cpu  # the row is charged for it already
        return self._cards.choose(self.args.policy, ask, row, before)


def _models(task: Task) -> tuple[str, str]:
    notes = task.pod.metadata.annotations
    return (notes.get(USE_MODELS, ""), notes.get(AVOID_MODELS, "")) if notes else ("", "")


def _facts(nodes: NodeTable, rows: Rows) -> list[Any]:
    return [nodes.facts[row] for row in rows.tolist()]
