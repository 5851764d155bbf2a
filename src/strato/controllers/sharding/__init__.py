"""Sharding: divide the nodes among schedulers, one NodeShard each. Off unless switched on.

`settings` reads which policies each scheduler has, `policies` and `assign` decide, `usage` keeps the requested shares
of nodes, `controller` reads and writes.
"""

from strato.controllers.sharding.controller import ShardingController

__all__ = ["ShardingController"]
