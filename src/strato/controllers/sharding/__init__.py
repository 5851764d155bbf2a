"""Sharding: divide the nodes among schedulers, one NodeShard each. Off unless switched on.

`settings` reads who wants which nodes, `policies` and `assign` decide, `usage` keeps how full nodes are, `controller`
reads and writes.
"""

from strato.controllers.sharding.controller import ShardingController

__all__ = ["ShardingController"]
