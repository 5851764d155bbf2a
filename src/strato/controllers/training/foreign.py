"""Kubeflow's own operator: two controllers of one job would undo each other's work, so ours stands aside."""

from __future__ import annotations

import logging
from typing import Final

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError

_log = logging.getLogger(__name__)

SELECTOR: Final = "control-plane=kubeflow-training-operator"
"""Label of the operator's Deployment in Kubeflow's manifests."""
LOOK_SECONDS: Final = 60.0


async def running_operator(cluster: Cluster) -> str:
    """Return the Deployment of Kubeflow's training operator that has pods; empty when there is none."""
    try:
        page = await cluster.list(catalog.DEPLOYMENT, label_selector=SELECTOR)
    except ApiError as error:
        _log.warning("cannot look for Kubeflow's training operator, which must not run beside ours: %s", error)
        return ""
    for item in page.items:
        if (item.get("spec") or {}).get("replicas", 1):
            return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return ""


async def wait_for_no_operator(cluster: Cluster, clock: Clock, name: str) -> None:
    """Return when Kubeflow's operator does not run; reports it once while it does."""
    reported = ""
    while found := await running_operator(cluster):
        if found != reported:
            _log.warning("Kubeflow's training operator runs as %s: %s stands aside until it goes", found, name)
            reported = found
        await clock.sleep(LOOK_SECONDS)
    if reported:
        _log.info("Kubeflow's training operator is gone: %s begins", name)
