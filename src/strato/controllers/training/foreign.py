"""Detect Kubeflow's own operators: two controllers of one job would undo each other's work, so ours does nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from strato.api import catalog, trainer
from strato.api.frameworks import MPI_OPERATOR, OPERATOR
from strato.api.meta import Object
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.clock import Clock
from strato.errors import ApiError, Forbidden

_log = logging.getLogger(__name__)

SELECTORS: Final = {
    OPERATOR: "control-plane=kubeflow-training-operator",
    MPI_OPERATOR: "app=mpi-operator",
    trainer.CONTROLLER: "app.kubernetes.io/name=trainer,app.kubernetes.io/part-of=kubeflow",
}
"""Default manager of a kind's jobs → label of that operator's Deployment in Kubeflow's manifests."""
LOOK_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0


async def running_operator(cluster: Cluster, manager: str) -> str:
    """Return the name of an operator's Deployment with replicas; empty when there is none.

    Raises:
        ApiError: The API server did not answer.
    """
    page = await cluster.list(catalog.DEPLOYMENT, label_selector=SELECTORS[manager])
    for item in page.items:
        if (item.get("spec") or {}).get("replicas", 1):
            return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return ""


class ForeignOperator:
    """Checks periodically whether an operator of Kubeflow runs.

    If the controller may not read Deployments, it assumes that the operator does not run: an administrator who has
    removed that right has to make sure of it.

    Args:
        cluster: Reads the operator's Deployment.
        clock: Times the checks.
        name: Name of our controller that must not run beside the operator, for the log.
        manager: The manager whose operator is looked for.
        recorder: Records events on jobs that are left to the operator.
    """

    def __init__(self, cluster: Cluster, clock: Clock, name: str, manager: str, recorder: EventRecorder) -> None:
        self._cluster, self._clock, self._name, self._manager = cluster, clock, name, manager
        self._recorder = recorder
        self._notified: set[str] = set()
        """Uids of jobs that have an event about the operator that runs now."""
        self._found = ""
        self._is_known = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether the operator ran at the last check."""
        return bool(self._found)

    def leave(self, job: Object | None) -> float:
        """Record once on a job that the operator runs it; returns the seconds until the job is reconciled again."""
        if job is not None and job.metadata.uid not in self._notified:
            self._notified.add(job.metadata.uid)
            text = f"{self._found} runs {self._manager}: the job is left to it; {self._name} goes on when it is gone"
            self._recorder.event(job, "Normal", "LeftToOperator", text)
        return LOOK_SECONDS

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._notified.discard(uid)

    async def run_beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` until cancelled, and check for the operator meanwhile.

        The work begins after the first check, so that it never does what a running operator does too.
        """
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.watch())
            await self._is_known.wait()
            await work()
            watching.cancel()

    async def watch(self) -> None:
        """Check for the operator until cancelled, and log when it appears or goes."""
        while True:
            try:
                found = await running_operator(self._cluster, self._manager)
            except Forbidden as error:
                text = "%s may not look for %s, which must not run beside it: %s"
                _log.warning(text, self._name, self._manager, error)
                self._note("")
                return
            except ApiError as error:
                if not self._is_known.is_set():
                    text = "%s cannot look for %s, and tries again before it begins: %s"
                    _log.warning(text, self._name, self._manager, error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            self._note(found)
            await self._clock.sleep(LOOK_SECONDS)

    def _note(self, found: str) -> None:
        if found and found != self._found:
            _log.warning("%s runs as %s: %s stands aside until it goes", self._manager, found, self._name)
        elif self._found and not found:
            _log.info("%s is gone: %s begins", self._manager, self._name)
        if found != self._found:
            self._notified.clear()
        self._found = found
        self._is_known.set()
