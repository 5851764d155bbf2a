"""Which nodes are ours when several schedulers share a cluster (spec scheduler-core 8, NodeShard).

Under ``hard`` only nodes of the own shard may be used, under ``soft`` they come before all others. Both are a
filter and a static score per node, as plugins have them, so that they cost nothing once known: rows are looked at again
only when the shard gained or lost them.
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
from strato.scheduler.model.tasks import TaskClass

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

    Attributes:
        usable: Names of the nodes of the own shard that no other scheduler uses still.
    """

    def __init__(self, nodes: NodeTable, mode: str = NONE, name: str = "volcano") -> None:
        self._nodes = nodes
        self.mode = mode
        self.name = name
        self.usable: frozenset[str] = frozenset()
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
        self._change(frozenset(names))

    def _refresh(self) -> bool:
        own = self._shards.get(self.name)
        wanted = set(own.spec.nodes_desired) if own is not None else set()
        for name, shard in self._shards.items():
            if name != self.name:
                wanted.difference_update(shard.status.nodes_in_use)
        return self._change(frozenset(wanted)) or self.status() is not None

    def _change(self, usable: frozenset[str]) -> bool:
        changed = usable ^ self.usable
        self.usable = usable
        if self.on:
            self._nodes.mark_changed(changed)
        return bool(changed)

    def status(self) -> ShardStatus | None:
        """Return what the own NodeShard's status should say when it says something else; None when it is right."""
        own = self._shards.get(self.name)
        if own is None or not self.on:
            return None
        desired = frozenset(own.spec.nodes_desired)
        present = own.status
        wanted = ShardStatus(
            tuple(sorted(self.usable)), tuple(sorted(desired - self.usable)), tuple(sorted(self.usable - desired))
        )
        have = ShardStatus(
            tuple(sorted(present.nodes_in_use)),
            tuple(sorted(present.nodes_to_add)),
            tuple(sorted(present.nodes_to_remove)),
        )
        return None if wanted == have else wanted

    # -- as plugins say it ---------------------------------------------------------------------------------------------

    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Turn down nodes outside the shard."""
        return Verdicts.reject_where(~self.ours(nodes, rows), OUTSIDE)

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Put nodes of the shard before all others."""
        return (StaticScore(self.ours(nodes, rows).astype(np.float64), _PREFERENCE),)

    def ours(self, nodes: NodeTable, rows: Rows) -> Mask:
        """Return which rows are nodes of the own shard."""
        return np.fromiter((nodes.names[row] in self.usable for row in rows.tolist()), np.bool_, len(rows))
