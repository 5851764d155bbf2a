"""Run jobs for engines that wait in threads; one event loop in a separate thread serves all of these."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from strato.api import catalog, quantity
from strato.api.core import Node, Pod
from strato.api.volcano.batch import Job
from strato.client import kubeconfig
from strato.client.cluster import Cluster
from strato.client.http import OVERLOAD_RETRIES, HttpCluster
from strato.clock import Clock, SystemClock
from strato.errors import Forbidden, NotFound, Unavailable
from strato.interop.workflows.taskjob import TASK, AttemptOutcome, outcome, waiting_reason

T = TypeVar("T")

POLL_SECONDS: Final = 1.0
"""Interval of reading a job's state."""

_MOST_OUTAGE_POLLS: Final = 300
"""Consecutive reads without an answer of the API after which a task fails."""


class JobRunner:
    """Creates jobs and waits until they have ended.

    Args:
        connect: Opens the client; called once, in the loop's thread.
        clock: Clock of that loop.
    """

    def __init__(self, connect: Callable[[], Cluster], clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="strato-jobs", daemon=True)
        self._thread.start()
        self._cluster = self._wait(_called(connect))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, body: dict[str, Any], on_waiting: Callable[[str], None]) -> Future[AttemptOutcome]:
        """Create a job; the future gets its outcome, ``on_waiting`` the reasons why its pod has not started."""
        return asyncio.run_coroutine_threadsafe(run_job(self._cluster, self._clock, body, on_waiting), self._loop)

    def delete(self, name: str, namespace: str) -> None:
        """Delete a job and its pods, if they exist."""
        self._wait(_delete(self._cluster, name, namespace))

    def close(self) -> None:
        """End the loop and its thread; cancel tasks that are left."""
        self._wait(self._cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def largest_node(self) -> tuple[int, int]:
        """Return the largest cpus and bytes of memory among the nodes; zeros if the user may not read nodes."""
        return self._wait(_largest_node(self._cluster))


def connect_by_kubeconfig(path: str, context: str) -> Cluster:
    """Open a client by the usual order: a named file, ``KUBECONFIG``, ``~/.kube/config``, the pod's service account.

    Raises:
        InvalidInput: The files are invalid.
        UsageError: None of these exists.
    """
    usual = Path("~/.kube/config").expanduser()
    named = path or os.environ.get("KUBECONFIG", "")
    files = [Path(part) for part in named.split(os.pathsep) if part] or ([usual] if usual.exists() else [])
    config = kubeconfig.load(files, context=context or None)
    return HttpCluster(config, SystemClock(), overload_retries=OVERLOAD_RETRIES)


async def run_job(
    cluster: Cluster, clock: Clock, body: dict[str, Any], on_waiting: Callable[[str], None]
) -> AttemptOutcome:
    """Create a job and return its outcome; outages of the API are waited for.

    Raises:
        ApiError: The API refused the job, or has not answered for minutes.
    """
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    await cluster.create(catalog.VCJOB, body, namespace)
    unanswered, reported = 0, ""
    while True:
        await clock.sleep(POLL_SECONDS)
        try:
            job = await cluster.get(Job, name, namespace)
            pod = await _pod_of(cluster, name, namespace)
        except NotFound:
            return AttemptOutcome(exit_code=None, message=f"job {name} was deleted")
        except Unavailable:
            unanswered += 1
            if unanswered >= _MOST_OUTAGE_POLLS:
                raise
            continue
        unanswered = 0
        ended = outcome(job, pod)
        if ended is not None:
            return ended
        reason = waiting_reason(pod)
        if reason and reason != reported:
            on_waiting(reason)
            reported = reason


async def _pod_of(cluster: Cluster, job: str, namespace: str) -> Pod | None:
    try:
        return await cluster.get(Pod, f"{job}-{TASK}-0", namespace)
    except NotFound:
        return None


async def _delete(cluster: Cluster, name: str, namespace: str) -> None:
    with suppress(NotFound):
        await cluster.delete(Job, name, namespace, propagation="Background")


async def _largest_node(cluster: Cluster) -> tuple[int, int]:
    try:
        nodes = (await cluster.list(Node)).items
    except Forbidden:
        return 0, 0
    room = [node.status.allocatable for node in nodes]
    cpus = max((quantity.milli(one.get("cpu", 0)) // 1000 for one in room), default=0)
    return cpus, max((quantity.value(one.get("memory", 0)) for one in room), default=0)


async def _called(connect: Callable[[], Cluster]) -> Cluster:
    return connect()
