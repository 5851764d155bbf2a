"""The cards of every node, one by one, as arrays for the kernels of the plugin ``fgd``; kept between sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from strato.api.core import Node, PodSpec
from strato.api.quantity import value
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.nodes import NEVER, NodeTable, Rows
from strato.scheduler.model.resources import CPU
from strato.scheduler.model.tasks import PENDING, RELEASING, TaskClass
from strato.scheduler.placement.arrays import Int64s
from strato.scheduler.plugins import fgdkernels as kernels
from strato.scheduler.plugins import gpushare
from strato.scheduler.plugins.fgdworkload import NO_WORKLOAD, Typical, arranged

MOST_CARDS: Final = 64
"""Most cards of a node that are counted; every row has an entry for each, and no machine has more."""

_MOST_ASKED: Final = 1 << 40
"""Largest amount that counts, as kernels multiply amounts by thousands and pods may request any; no node has more."""


def asked_of(spec: PodSpec, cpu_millicores: int, resource: str) -> kernels.PodRequest:
    """Return what a pod asks for: memory of one card, or whole cards by Volcano's or the vendor's resource."""
    cpu = min(cpu_millicores, _MOST_ASKED)
    want = gpushare.wanted(spec, memory=True, number=True)
    if want is not None and want.memory:
        return kernels.PodRequest(cpu, min(want.memory, _MOST_ASKED), 0)
    whole = want.number if want is not None else 0
    named = sum(value(container.resources.limits.get(resource, 0)) for container in spec.containers)
    return kernels.PodRequest(cpu, 0, min(whole + named, _MOST_ASKED))


class CardTable:
    """Rows of cards, beside those of a `NodeTable`.

    Args:
        plugin: Name under which tasks are granted cards.
        resource: Whole cards of nodes that do not share theirs.
        label: Label of nodes whose value is the model of the cards.

    Attributes:
        state: What the kernels read.
        models: The known models, by number; the first is empty, for nodes without the label.
        version: int64[rows], grows with every change of a row that scores depend on.
        most_cpu: Millicores of the largest node.
        most_cards: Cards of the node that has most.
    """

    def __init__(self, plugin: str, resource: str, label: str) -> None:
        self._plugin = plugin
        self._resource = resource
        self._label = label
        self._asks: dict[int, kernels.PodRequest] = {}
        self._cursor = NEVER
        self._clock = -1
        self._typical: tuple[Typical, ...] = ()
        self._shared = np.zeros(0, np.bool_)
        self.models: dict[str, int] = {"": 0}
        self.workload = NO_WORKLOAD
        self.version: Int64s = np.zeros(0, np.int64)
        self.most_cpu = 1
        self.most_cards = 0
        self._allocate(0, 1)

    def _allocate(self, rows: int, width: int) -> None:
        self._total = np.full((rows, width), -1, np.int64)
        self._shared = np.zeros(rows, np.bool_)
        self.version = np.full(rows, int(self.version.max(initial=0)) + 1, np.int64)
        self.state = kernels.NodeArrays(
            self._total.copy(),
            np.full(rows, kernels.WHOLE, np.int64),
            np.zeros(rows, np.int64),
            np.zeros((rows, width + 1), np.int64),
            np.zeros(rows),
        )

    # -- what pods ask for ---------------------------------------------------------------------------------------------

    def ask(self, cls: TaskClass) -> kernels.PodRequest:
        """Return what the pods of a class ask for."""
        found = self._asks.get(cls.number)
        if found is None:
            found = self._asks[cls.number] = asked_of(cls.spec, int(cls.request[CPU]), self._resource)
        return found

    def expect(self, typical: Sequence[Typical]) -> None:
        """Set the typical pods, by which fragments are counted."""
        if tuple(typical) != self._typical:
            self._typical = tuple(typical)
            self._arrange()

    def _arrange(self) -> None:
        self.workload = arranged(self._typical, tuple(self.models))
        self.version += 1
        self._cursor = NEVER

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def refresh(self, nodes: NodeTable) -> None:
        """Count the rows again that have changed since the last call."""
        if self._clock != nodes.object_clock or len(self.version) != nodes.capacity:
            self._read_nodes(nodes)
        now = int(nodes.cursor[0])
        if self._cursor == now:
            return
        changed = nodes.written(self._cursor)
        rows = range(nodes.size) if changed is None else changed
        self._cursor = now
        if rows:
            self.count(nodes, rows)

    def _read_nodes(self, nodes: NodeTable) -> None:
        """Read the cards of nodes and their models."""
        facts = [self._cards_of(node) for node in nodes.facts]
        width = max([1, *(1 + max(cards, default=0) for cards, _ in facts)])  # those that are ill have numbers, too
        if len(self.version) != nodes.capacity or width > self._total.shape[1]:
            self._allocate(nodes.capacity, max(width, self._total.shape[1]))
            self._clock, self._cursor = -1, NEVER
        known = len(self.models)
        for row, node in enumerate(nodes.facts):
            if nodes.changed_at[row] > self._clock:
                cards, unit = facts[row]
                self._total[row] = -1
                self._total[row, cards] = kernels.WHOLE
                self._shared[row] = unit > 0
                self.state.unit[row] = unit or kernels.WHOLE
                model = node.metadata.label(self._label) if node is not None else ""
                self.state.model[row] = self.models.setdefault(model, len(self.models))
                nodes.touch(row)
        self._clock = nodes.object_clock
        self.most_cpu = max(1, int(nodes.allocatable[: nodes.size, CPU].max(initial=1)))
        self.most_cards = max([0, *(len(cards) for cards, _ in facts)])
        if len(self.models) != known:
            self._arrange()

    def _cards_of(self, node: Node | None) -> tuple[list[int], int]:
        """Return the numbers of a node's healthy cards and the memory of each; 0 where only whole cards are given."""
        if node is None:
            return [], 0
        shared = gpushare.cards_of(node)
        if shared is not None:
            return [card for card in shared.used if card < MOST_CARDS], shared.memory
        return list(range(min(MOST_CARDS, value(node.status.allocatable.get(self._resource, 0))))), 0

    def count(self, nodes: NodeTable, rows: Iterable[int]) -> None:
        """Count what is left of the cards of some rows, and their fragments."""
        counted: Rows = np.fromiter(rows, np.int64)
        left, kinds = self._total[counted].tolist(), [[0] * self.state.kinds.shape[1] for _ in counted]
        for row, cards, held in zip(counted.tolist(), left, kinds, strict=True):
            for task in nodes.tasks[row].values():
                if ON_NODE[task.status] and task.status not in (PENDING, RELEASING):
                    self._take(row, task, cards, held)
        self.state.left[counted], self.state.kinds[counted] = left, kinds
        self._rescore(nodes, counted)

    def _rescore(self, nodes: NodeTable, rows: Rows) -> None:
        self.version[rows] += 1
        kernels.refresh(rows, nodes.idle[rows, CPU], self.state, self.workload)

    def _take(self, row: int, task: Task, left: list[int], held: list[int]) -> None:
        """Subtract what a task holds from the cards of its row, and count the task there."""
        ask = self.ask(task.cls)
        if not ask.memory and not ask.cards:
            return
        held[0 if ask.memory else min(ask.cards, len(held) - 1)] += 1
        if self._shared[row]:
            self._charge(row, ask, gpushare.ids_of(task.granted(self._plugin)), left)
        else:
            given = [card for card, idle in enumerate(left) if idle == kernels.WHOLE][: ask.cards]
            self._charge(row, ask, given, left)  # any cards, as it is unknown which ones the pod has

    def _charge(self, row: int, ask: kernels.PodRequest, cards: Iterable[int], left: list[int] | Int64s) -> None:
        share = kernels.WHOLE
        if ask.memory:
            unit = int(self.state.unit[row])
            share = (ask.memory * kernels.WHOLE + unit - 1) // unit
        for card in cards:
            if card < len(left) and left[card] > 0:
                left[card] = max(0, left[card] - share)

    @property
    def usual_unit(self) -> int:
        """The most frequent memory of a card among nodes that share theirs; of several, the least."""
        units, counts = np.unique(self.state.unit[self._shared], return_counts=True)
        return int(units[counts.argmax()]) if units.size else kernels.WHOLE

    def judge(self, policy: int, rows: Rows, ask: kernels.PodRequest, nodes: NodeTable, out: Int64s) -> None:
        """Write the points of rows into ``out``; -1 where the cards do not suffice."""
        cpu = nodes.idle[rows, CPU]
        kernels.judge(policy, rows, ask, cpu, self.state, self.workload, self.most_cpu, self.most_cards, out)

    # -- giving --------------------------------------------------------------------------------------------------------

    def choose(self, policy: int, ask: kernels.PodRequest, row: int, cpu_millicores: int) -> tuple[int, ...]:
        """Return the cards that a pod would get on a row where it holds none yet; none when they do not suffice."""
        if ask.memory:
            card = kernels.card_for_share(policy, ask, row, cpu_millicores, self.state, self.workload)
            return (int(card),) if card >= 0 else ()
        idle: Rows = np.nonzero(self.state.left[row] == kernels.WHOLE)[0]
        return tuple(idle[: ask.cards].tolist()) if len(idle) >= ask.cards else ()

    def give(self, nodes: NodeTable, row: int, ask: kernels.PodRequest, cards: Sequence[int]) -> None:
        """Charge cards of a row for a pod that was counted there without any."""
        self._charge(row, ask, cards, self.state.left[row])
        self._rescore(nodes, np.array([row], np.int64))

    def cards_with_room(self, ask: kernels.PodRequest, row: int) -> list[int]:
        """Return the cards on which a share fits."""
        share = kernels.share_on(ask, int(self.state.unit[row]))
        cards: list[int] = np.nonzero(self.state.left[row] >= share)[0].tolist()
        return cards

    def names_cards(self, row: int) -> bool:
        """Whether pods are given cards by number on a row."""
        return bool(self._shared[row])
