"""What of the machine has been given to which pod, and what those get that want more while they run.

Named after the part of a kubelet that does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from strato.api.core import Pod
from strato.node.podstatus import RESIZE_PENDING
from strato.node.resizes import Pending, verdict
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.podworker import PodWorker


class AllocationManager:
    """See the module.

    Args:
        machine: What there is to give.
        workers: Of the node's pods, by uid.
    """

    def __init__(self, machine: Machine, workers: Mapping[str, PodWorker]) -> None:
        self._machine = machine
        self._workers = workers

    def admit(self, pod: Pod) -> Pending | None:
        """Return why a pod cannot have what it wants, None when it can: then it is to take that at once."""
        others = [
            worker.allocated_spec
            for uid, worker in self._workers.items()
            if uid != pod.metadata.uid and not worker.ended.is_set()
        ]
        pending = verdict(pod.spec, others, self._machine.allocatable)
        if pending is None:
            asyncio.get_running_loop().call_soon(self.retry)  # it may take less than it had
        return pending

    def retry(self) -> None:
        """Try again what is pending, by priority, then age: somebody has left, or takes less."""
        waiting = [worker for worker in self._workers.values() if worker.record.pending_resize is not None]
        for worker in sorted(waiting, key=_order):
            worker.resize()


def _order(worker: PodWorker) -> tuple[int, str]:
    _, since = worker.record.conditions.get(RESIZE_PENDING, ("", ""))
    return -(worker.pod.spec.priority or 0), since
