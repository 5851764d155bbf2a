"""The nodes of this scheduler when several share a cluster (spec scheduler-core 8, NodeShard; volcano-agent C5).

Under ``hard`` only nodes of the own shard may be used, under ``soft`` they are preferred to all others. These are a
filter and a static score like those of plugins, so their results are cached, and a row is judged again only when the
shard has gained or lost its node. Pods of Volcano's agent scheduler, which this scheduler can serve too, have a shard
of their own.
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
"""Extra score of nodes of the own shard: more than plugins' scores add up to, yet small enough that float64 keeps the
differences between these, which decide among the shard's nodes."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The status a NodeShard should have; node names, sorted."""

    in_use: tuple[str, ...]
    to_add: tuple[str, ...]
    to_remove: tuple[str, ...]


class Shards:
    """The NodeShards, and the nodes that this scheduler may use by them.

    Args:
        nodes: The node table; rows are marked changed when the shard gains or loses their nodes.
        mode: One of `MODES`.
        name: Name of the own NodeShard.
        agents: Name of the NodeShard of pods that name the agent scheduler; empty: the same.

    Attributes:
        usable: By own NodeShard, the names of its nodes that no other NodeShard still has in use.
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
        """Whether sharding is on."""
        return self.mode != NONE

    def set_shard(self, view: NodeShard) -> bool:
        """Take a NodeShard as the API has it now; return whether a cycle or a status write is needed."""
        self._shards[view.metadata.name] = view
        return self._refresh()

    def remove_shard(self, name: str) -> bool:
        """Forget a NodeShard; return whether a cycle or a status write is needed."""
        return self._shards.pop(name, None) is not None and self._refresh()

    def use(self, names: Collection[str]) -> None:
        """Use exactly these nodes, whatever the NodeShards say."""
        for own in self.usable:
            self._change(own, frozenset(names))

    def _refresh(self) -> bool:
        changes = [self._change(own, self._free(own)) for own in self.usable]
        return any(changes) or bool(self.statuses())

    def _free(self, own: str) -> frozenset[str]:
        """Return the desired nodes of a shard that no other shard still has in use."""
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
        """Return the statuses that own NodeShards should have, for those whose status differs."""
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

    # -- extension points, as of a plugin ------------------------------------------------------------------------------

    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Reject nodes outside the shard."""
        return Verdicts.reject_where(~self.ours(cls, nodes, rows), OUTSIDE)

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Prefer nodes of the shard to all others."""
        return (StaticScore(self.ours(cls, nodes, rows).astype(np.float64), _PREFERENCE),)

    def ours(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Mask:
        """Return which rows are nodes of the shard that a class uses."""
        usable = self.usable[self._agents if cls.spec.scheduler_name == AGENT_SCHEDULER else self.name]
        return np.fromiter((nodes.names[row] in usable for row in rows.tolist()), np.bool_, len(rows))
