"""Kubeflow's own operators: two controllers of one job would undo each other's work, so ours stands aside."""

from __future__ import annotations

import logging
from typing import Final

from strato.api import catalog
from strato.api.frameworks import MPI_OPERATOR, OPERATOR
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, Forbidden

_log = logging.getLogger(__name__)

SELECTORS: Final = {OPERATOR: "control-plane=kubeflow-training-operator", MPI_OPERATOR: "app=mpi-operator"}
"""By who manages jobs that name nobody: the label of that operator's Deployment in Kubeflow's manifests."""
LOOK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0


async def running_operator(cluster: Cluster, manager: str) -> str:
    """Return the Deployment of a manager's operator that is to have pods; empty when there is none.

    Raises:
        ApiError: The server cannot be asked.
    """
    page = await cluster.list(catalog.DEPLOYMENT, label_selector=SELECTORS[manager])
    for item in page.items:
        if (item.get("spec") or {}).get("replicas", 1):
            return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return ""


async def wait_for_no_operator(cluster: Cluster, clock: Clock, name: str, manager: str) -> None:
    """Return when a manager's operator does not run; reports it once while it does, or cannot be looked for.

    Where looking for it is forbidden we go on: whoever took the right away answers for what runs.
    """
    reported = ""
    while True:
        try:
            found = await running_operator(cluster, manager)
        except Forbidden as error:
            _log.warning("%s may not look for %s, which must not run beside it: %s", name, manager, error)
            return
        except ApiError as error:
            _log.warning("%s cannot look for %s, and tries again before it begins: %s", name, manager, error)
            await clock.sleep(RETRY_SECONDS)
            continue
        if not found:
            break
        if found != reported:
            _log.warning("%s runs as %s: %s stands aside until it goes", manager, found, name)
            reported = found
        await clock.sleep(LOOK_SECONDS)
    if reported:
        _log.info("%s is gone: %s begins", manager, name)
