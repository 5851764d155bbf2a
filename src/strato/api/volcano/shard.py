"""Views of shard.volcano.sh/v1alpha1 (spec volcano-api 11)."""

from __future__ import annotations

from strato.api.meta import Object, View


class NodeShardSpec(View, frozen=True, kw_only=True):
    """``spec``, owned by the sharding controller."""

    nodes_desired: tuple[str, ...] = ()


class NodeShardStatus(View, frozen=True, kw_only=True):
    """``status``, owned by the scheduler of the same name."""

    last_update_time: str | None = None
    nodes_in_use: tuple[str, ...] = ()
    nodes_to_remove: tuple[str, ...] = ()
    nodes_to_add: tuple[str, ...] = ()


class NodeShard(Object, frozen=True, kw_only=True):
    """The nodes of one scheduler."""

    spec: NodeShardSpec = NodeShardSpec()
    status: NodeShardStatus = NodeShardStatus()
