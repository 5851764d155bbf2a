"""Faults of nodes while a load runs: a failure is written on the node at its time, as whoever runs hollow nodes reads
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError
from strato.node.hollow.failures import FAILURE
from strato.sim.load.experiment import Fault


async def apply_faults(cluster: Cluster, clock: Clock, random: Random, faults: Sequence[Fault], log: list[str]) -> None:
    """Write each failure on its nodes when its time has come.

    Args:
        cluster: Whose nodes.
        clock: Its time begins now.
        random: Chooses nodes where they are not named.
        faults: In any order.
        log: Takes a line for each, also for what the cluster refused.
    """
    began = clock.monotonic()
    for fault in sorted(faults, key=lambda one: one.at_seconds):
        wait = fault.at_seconds - (clock.monotonic() - began)
        if wait > 0:
            await clock.sleep(wait)
        names = fault.names or await _chosen(cluster, random, fault.count)
        for name in names:
            body = {"metadata": {"annotations": {FAILURE: fault.failure}}}
            try:
                await cluster.patch(catalog.NODE, name, "", body)
            except ApiError as error:
                log.append(f"{fault.at_seconds:g}s: {name}: {fault.failure}: {error}")
            else:
                log.append(f"{fault.at_seconds:g}s: {name}: {fault.failure}")


async def _chosen(cluster: Cluster, random: Random, count: int) -> Sequence[str]:
    names = sorted(node["metadata"]["name"] for node in (await cluster.list(catalog.NODE)).items)
    return random.sample(names, min(count, len(names)))


async def heal(cluster: Cluster, faults: Sequence[Fault]) -> None:
    """Take the failures back from the nodes that have any of these."""
    written = {fault.failure for fault in faults}
    for node in (await cluster.list(catalog.NODE)).items:
        if (node["metadata"].get("annotations") or {}).get(FAILURE) in written:
            body = {"metadata": {"annotations": {FAILURE: None}}}
            await asyncio.shield(cluster.patch(catalog.NODE, node["metadata"]["name"], "", body))
