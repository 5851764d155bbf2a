"""Resources that queues share, by group of nodes: ``strato queue list --totals``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strato.api.core import Node, Pod
from strato.api.quantity import resource_text
from strato.client.cluster import Cluster

HEADERS = ("Pool", "Resource", "Total")


async def totals(cluster: Cluster, scheduler_names: Sequence[str]) -> list[list[Any]]:
    """Return a row for every resource of every group of nodes, and of all of them.

    Args:
        cluster: The cluster whose nodes and pods are read.
        scheduler_names: Requests of pods of other schedulers are subtracted from what the queues share.
    """
    from strato.scheduler.cache.world import World

    world = World(scheduler_names)
    for node in (await cluster.list(Node)).items:
        world.set_node(node)
    for pod in (await cluster.list(Pod, field_selector="spec.nodeName!=")).items:
        if not pod.is_finished:
            world.set_pod(pod)
    pools = {"all": world.totals.total}
    if set(world.totals.pools) - {""}:
        pools |= {group or "<none>": amounts for group, amounts in world.totals.pools.items()}
    return [
        [pool, resource, resource_text(resource, amount)]
        for pool, vector in pools.items()
        for resource, amount in world.dims.to_wire(vector.tolist()).items()
    ]
