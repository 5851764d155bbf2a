"""deviceshare: share GPUs between pods, counted card by card (spec volcano-plugins 20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strato.scheduler.cache.ingest import group_of
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.nodes import JOURNAL_SIZE, NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import PENDING, RELEASING
from strato.scheduler.plugins import gpushare, vgpu

NO_MEMORY = Reason("deviceshare", "GpuShare no enough gpu memory on node")
NO_NUMBER = Reason("deviceshare", "GpuNumber no enough gpu number on node")
NO_VGPU = Reason("deviceshare", "hamivgpu no enough device on node")
_REASONS = (NO_MEMORY, NO_NUMBER, NO_VGPU)


def _rules(value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list) or not all(isinstance(rule, dict) and rule for rule in value):
        raise ValueError(f"{value!r} is not a list of label maps")
    return tuple({str(k): str(v) for k, v in rule.items()} for rule in value)


def _not_here(value: Any) -> bool:
    if value not in (False, "false"):
        raise ValueError("is not available here; leave it out or false")
    return False


def _policy(value: Any) -> str:
    if value not in ("", vgpu.BINPACK, vgpu.SPREAD):
        raise ValueError(f"{value!r} is neither binpack nor spread")
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShareArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    gpu_sharing: bool = arg("deviceshare.GPUSharingEnable", False)
    """Share cards by ``volcano.sh/gpu-memory``."""
    gpu_number: bool = arg("deviceshare.GPUNumberEnable", False)
    """Give whole cards by ``volcano.sh/gpu-number``."""
    vgpu: bool = arg("deviceshare.VGPUEnable", False)
    """Give parts of cards by ``volcano.sh/vgpu-…``."""
    mindcluster: bool = arg("deviceshare.AscendMindClusterVNPUEnable", False, read=_not_here)
    ascend: bool = arg("deviceshare.AscendHAMiVNPUEnable", False, read=_not_here)
    node_lock: bool = arg("deviceshare.NodeLockEnable", False, read=_not_here)
    policy: str = arg("deviceshare.SchedulePolicy", "", read=_policy)
    """``binpack`` fills cards, ``spread`` empties them; neither takes the last card first."""
    weight: int = arg("deviceshare.ScheduleWeight", 0)
    """Factor of the score; 0 scores nothing."""
    geometries_name: str = arg("deviceshare.KnownGeometriesCMName", "volcano-vgpu-device-config")
    """Accepted for compatibility; cards in MIG mode are not divided here."""
    geometries_namespace: str = arg("deviceshare.KnownGeometriesCMNamespace", "kube-system")
    rules: tuple[Mapping[str, str], ...] = arg("deviceshare.GPUExclusiveRules", (), read=_rules)
    """Label maps: two pods that match one do not share a card."""


class DeviceShare(Plugin):
    """Place pods by the memory and cores that are left on each card."""

    name = "deviceshare"
    args_type = DeviceShareArgs

    @classmethod
    def contradictions(cls, args: DeviceShareArgs) -> Sequence[tuple[str, str]]:
        """Only one way of giving cards can be switched on."""
        found = []
        if args.gpu_sharing and args.gpu_number:
            found.append(("deviceshare.GPUNumberEnable", "excludes deviceshare.GPUSharingEnable"))
        if args.vgpu and (args.gpu_sharing or args.gpu_number):
            found.append(("deviceshare.VGPUEnable", "excludes deviceshare.GPUSharingEnable and GPUNumberEnable"))
        return found

    def off_points(self) -> frozenset[str]:
        """Scores are off unless they have a weight."""
        return frozenset() if self.args.weight > 0 and self.args.vgpu else frozenset(("score_task",))

    def open(self, ssn: CycleContext) -> None:
        """Nothing is counted before a task asks for devices."""
        self._ssn = ssn
        self._counts: Counts = ssn.world.plugin_state.setdefault(self.name, Counts())

    def _shares(self, task: Task) -> gpushare.GpuShareRequest | None:
        return gpushare.wanted(task.cls.spec, memory=self.args.gpu_sharing, number=self.args.gpu_number)

    def _parts(self, task: Task) -> list[vgpu.VGpuRequest] | None:
        return vgpu.wanted(task.cls.spec) if self.args.vgpu else None

    def watches_pods(self, task: Task) -> bool:
        """Whether the task asks for devices."""
        return self._shares(task) is not None or self._parts(task) is not None

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes whose cards have room, one by one."""
        share, parts = self._shares(task), self._parts(task)
        if share is None and parts is None:
            return None
        self._counts.refresh(nodes)
        codes = np.zeros(len(rows), np.uint16)
        for i, row in enumerate(rows.tolist()):
            if share is not None and self._cards(share, row) is None:
                codes[i] = 1 if share.memory else 2
            elif parts is not None and self._pieces(task, parts, row) is None:
                codes[i] = 3
        return Verdicts(codes, _REASONS)

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """The policy's score of the cards that would be given, in whole points, times the weight."""
        parts = self._parts(task)
        if parts is None:
            return None
        self._counts.refresh(nodes)
        found = [self._pieces(task, parts, row) for row in rows.tolist()]
        points = np.array([answer[1] if answer is not None else 0.0 for answer in found])
        scaled: FloatArray = np.floor(points + 0.5) * float(self.args.weight)  # halves go up
        return scaled

    # -- counting ------------------------------------------------------------------------------------------------------

    def _cards(self, want: gpushare.GpuShareRequest, row: int) -> tuple[int, ...] | None:
        cards = self._counts.cards.get(row, self._counts)
        if isinstance(cards, Counts):
            node = self._ssn.world.nodes.facts[row]
            cards = gpushare.cards_of(node) if node is not None else None
            for task in self._holders(row) if cards is not None else ():
                held = self._shares(task)
                if held is not None and cards is not None:
                    cards.take(gpushare.ids_of(task.granted(self.name)), held)
            self._counts.cards[row] = cards
        return cards.choose(want) if cards is not None else None

    def _pieces(
        self, task: Task, wants: list[vgpu.VGpuRequest], row: int
    ) -> tuple[list[list[vgpu.Piece]], float] | None:
        cards = self._counts.parts.get(row)
        if cards is None:
            node = self._ssn.world.nodes.facts[row]
            cards = self._counts.parts[row] = vgpu.cards_of(node) if node is not None else []
            for other in self._holders(row) if cards else ():
                text = other.granted(self.name).get(vgpu.IDS, "")
                if text:
                    vgpu.hold(cards, vgpu.read_pieces(text), asker(other))
        if not cards:
            return None
        return vgpu.choose(vgpu.copied(cards), wants, asker(task), self.args.policy, self.args.rules)

    def _holders(self, row: int) -> list[Task]:
        """Return the tasks that hold devices on a row, without finished and leaving ones."""
        on_row = self._ssn.world.nodes.tasks[row].values()
        return [t for t in on_row if ON_NODE[t.status] and t.status not in (PENDING, RELEASING)]

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Give placed tasks their devices."""
        for task in tasks:
            share, parts = self._shares(task), self._parts(task)
            held = task.granted(self.name)
            if (share is None and parts is None) or vgpu.IDS in held or gpushare.INDEX in held:
                continue
            self._counts.refresh(self._ssn.world.nodes)
            self._counts.forget(task.row)
            task.grant(self.name, self._devices_for(task, share, parts))
            self._counts.forget(task.row)

    def _devices_for(
        self, task: Task, share: gpushare.GpuShareRequest | None, parts: list[vgpu.VGpuRequest] | None
    ) -> Mapping[str, str]:
        """Return the annotations with the devices that a task gets on its row, where it holds none yet."""
        task.grant(self.name, {})
        notes: dict[str, str] = {}
        cards = self._cards(share, task.row) if share is not None else None
        if cards is not None:
            notes |= gpushare.annotations_for(cards, self._ssn.now)
        pieces = self._pieces(task, parts, task.row) if parts is not None else None
        if pieces is not None:
            notes |= vgpu.annotations_for(pieces[0], self._ssn.world.nodes.names[task.row], self._ssn.now)
        return notes


class Counts:
    """The parts of each row's cards that pods hold, kept between sessions; rows that changed are counted again."""

    def __init__(self) -> None:
        self.cards: dict[int, gpushare.Cards | None] = {}
        self.parts: dict[int, list[vgpu.Card]] = {}
        self._cursor = 0
        self._clock = 0

    def refresh(self, nodes: NodeTable) -> None:
        """Forget the rows that changed since the last call."""
        now = int(nodes.cursor[0])
        if now - self._cursor >= JOURNAL_SIZE:
            self.cards, self.parts = {}, {}
        elif now != self._cursor:
            for row in set(nodes.journal[np.arange(self._cursor, now) % JOURNAL_SIZE].tolist()):
                self.forget(row)
        if nodes.object_clock != self._clock:
            for row in np.nonzero(nodes.changed_at[: nodes.size] > self._clock)[0].tolist():
                self.forget(row)
        self._cursor, self._clock = now, nodes.object_clock

    def forget(self, row: int) -> None:
        """Forget a row, so that it is counted again when it is next needed."""
        self.cards.pop(row, None)
        self.parts.pop(row, None)


def asker(task: Task) -> vgpu.Asker:
    """Return what the choice of cards depends on besides a pod's containers."""
    meta = task.pod.metadata
    return vgpu.Asker(meta.annotations or {}, meta.labels or {}, group_of(task.pod))
