"""Which nodes are ours when several schedulers share a cluster (spec scheduler-core 8, NodeShard; volcano-agent C5).

Under ``hard`` only nodes of the own shard may be used, under ``soft`` they come before all others. Both are a
filter and a static score per node, as plugins have them, so that they cost nothing once known: rows are looked at again
only when the shard gained or lost them. Pods of Volcano's agent scheduler, which this one serves too, have a shard of
their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strato.api.volcano.shard import NodeShard
from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.nodes import Mask, NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import AGENT_SCHEDULER, TaskClass

NONE: Final = "none"
HARD: Final = "hard"
SOFT: Final = "soft"
MODES: Final = (NONE, HARD, SOFT)

OUTSIDE = Reason("core", "node isn't in scheduler node shard", curable=False)
_PREFERENCE = float(1 << 24)
"""What a node of the own shard is ahead of any other: more than plugins' scores add up to, little enough for them to
keep deciding among the nodes of the shard."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """What a NodeShard's status should say; node names, sorted."""

    in_use: tuple[str, ...]
    to_add: tuple[str, ...]
    to_remove: tuple[str, ...]


class Shards:
    """The NodeShards and what follows for this scheduler.

    Args:
        nodes: The nodes; notified when the shard gains or loses some.
        mode: One of `MODES`.
        name: Name of the own NodeShard.
        agents: Name of the NodeShard of pods that name the agent scheduler; empty: the same.

    Attributes:
        usable: By own NodeShard, names of its nodes that no other scheduler uses still.
    """

    def __init__(self, nodes: NodeTable, mode: str = NONE, name: str = "volcano", agents: str = "") -> None:
        self._nodes = nodes
        self.mode = mode
        self.name = name
        self._agents = agents or name
        self.usable: dict[str, frozenset[str]] = dict.fromkeys((name, self._agents), frozenset())
        self._shards: dict[str, NodeShard] = {}

    @property
    def on(self) -> bool:
        """Whether the cluster is shared out at all."""
        return self.mode != NONE

    def set_shard(self, view: NodeShard) -> bool:
        """Take a NodeShard as the API has it now; return whether a cycle or a status follows from it."""
        self._shards[view.metadata.name] = view
        return self._refresh()

    def remove_shard(self, name: str) -> bool:
        """Forget a NodeShard; return whether a cycle follows from it."""
        return self._shards.pop(name, None) is not None and self._refresh()

    def use(self, names: Collection[str]) -> None:
        """Use exactly these nodes, whatever the NodeShards say."""
        for own in self.usable:
            self._change(own, frozenset(names))

    def _refresh(self) -> bool:
        changes = [self._change(own, self._free(own)) for own in self.usable]
        return any(changes) or bool(self.statuses())

    def _free(self, own: str) -> frozenset[str]:
        """Return the nodes of a shard that no other one uses still."""
        shard = self._shards.get(own)
        wanted = set(shard.spec.nodes_desired) if shard is not None else set()
        for name, other in self._shards.items():
            if name != own:
                wanted.difference_update(other.status.nodes_in_use)
        return frozenset(wanted)

    def _change(self, own: str, usable: frozenset[str]) -> bool:
        changed = usable ^ self.usable[own]
        self.usable[own] = usable
        if self.on:
            self._nodes.mark_changed(changed)
        return bool(changed)

    def statuses(self) -> dict[str, ShardStatus]:
        """Return what statuses of own NodeShards should say, of those that say something else."""
        found = {own: self._status(own, usable) for own, usable in self.usable.items()} if self.on else {}
        return {own: status for own, status in found.items() if status is not None}

    def _status(self, name: str, usable: frozenset[str]) -> ShardStatus | None:
        own = self._shards.get(name)
        if own is None:
            return None
        desired = frozenset(own.spec.nodes_desired)
        present = own.status
        wanted = ShardStatus(tuple(sorted(usable)), tuple(sorted(desired - usable)), tuple(sorted(usable - desired)))
        have = ShardStatus(
            tuple(sorted(present.nodes_in_use)),
            tuple(sorted(present.nodes_to_add)),
            tuple(sorted(present.nodes_to_remove)),
        )
        return None if wanted == have else wanted

    # -- as plugins say it ---------------------------------------------------------------------------------------------

    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Turn down nodes outside the shard."""
        return Verdicts.reject_where(~self.ours(cls, nodes, rows), OUTSIDE)

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Put nodes of the shard before all others."""
        return (StaticScore(self.ours(cls, nodes, rows).astype(np.float64), _PREFERENCE),)

    def ours(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Mask:
        """Return which rows are nodes of the shard of a class."""
        usable = self.usable[self._agents if cls.spec.scheduler_name == AGENT_SCHEDULER else self.name]
        return np.fromiter((nodes.names[row] in usable for row in rows.tolist()), np.bool_, len(rows))
