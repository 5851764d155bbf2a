"""Injects node failures while a load runs: writes the annotation from which hollow nodes simulate a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError
from strato.node.hollow.failures import FAILURE
from strato.sim.load.experiment import NodeFault


async def apply_faults(
    cluster: Cluster, clock: Clock, random: Random, faults: Sequence[NodeFault], log: list[str]
) -> None:
    """Annotate the nodes of each fault at its time, counted from this call.

    Args:
        cluster: The cluster whose nodes fail.
        clock: The clock of the faults' times.
        random: Chooses the nodes of faults without names.
        faults: The faults, in any order.
        log: Gets a line for each node, with the error if the cluster refused the patch.
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


async def heal(cluster: Cluster, faults: Sequence[NodeFault]) -> None:
    """Remove the annotation from all nodes that have a failure of these faults."""
    written = {fault.failure for fault in faults}
    for node in (await cluster.list(catalog.NODE)).items:
        if (node["metadata"].get("annotations") or {}).get(FAILURE) in written:
            body = {"metadata": {"annotations": {FAILURE: None}}}
            await asyncio.shield(cluster.patch(catalog.NODE, node["metadata"]["name"], "", body))
