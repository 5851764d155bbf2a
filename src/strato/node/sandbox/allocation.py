"""Allocates the machine's resources to pods: admits new pods, and resizes of running ones.

`AllocationManager` is named after the kubelet's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from strato.api.core import Node, Pod
from strato.api.meta import Key
from strato.node.podstatus import RESIZE_PENDING, phase_of
from strato.node.predicates import NodeCommitments, PodRejection, amounts_of, claim_of, refusal
from strato.node.resizes import Pending, verdict
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.podworker import OVER, PodWorker

_SHARED: Final = frozenset({"pods", "cpu", "memory", "ephemeral-storage"})
"""The resources that are checked here; GPUs have a pool of their own."""


class AllocationManager:
    """See the module.

    Args:
        machine: The machine, with its allocatable amounts.
        workers: Workers of the node's pods, by uid.
        pod_of: Returns a pod from the API by its key.
        node_of: Returns the node from the API; None where it is not known.
    """

    def __init__(
        self,
        machine: Machine,
        workers: Mapping[str, PodWorker],
        pod_of: Callable[[Key], Pod | None],
        node_of: Callable[[], Node | None],
    ) -> None:
        self._machine = machine
        self._workers = workers
        self._pod_of = pod_of
        self._node_of = node_of

    def admit(self, pod: Pod) -> PodRejection | None:
        """Return why a new pod cannot start beside the others, None when it can.

        The scheduler has checked the pods that it has bound; this check is for pods whose users set ``nodeName``.
        """
        room = NodeCommitments(claim_of(other.allocated_spec) for other in self._admitted(pod.metadata.uid))
        claim = claim_of(pod.spec)
        shared = claim._replace(amounts=tuple(one for one in claim.amounts if one[0] in _SHARED))
        return refusal(pod.spec, shared, room, amounts_of(self._machine.allocatable), self._node_of())

    def _admitted(self, but: str) -> Iterator[PodWorker]:
        """Yield the admitted pods except one that still exist in the API; pods deleted by force hold nothing."""
        for uid, worker in self._workers.items():
            if uid == but or not worker.is_admitted or phase_of(worker.record) in OVER:
                continue
            known = self._pod_of(worker.pod.key)
            if known is not None and known.metadata.uid == uid:
                yield worker

    def admit_resize(self, pod: Pod) -> Pending | None:
        """Return why a pod cannot be resized, None when it can; then the caller must allocate the resources at once."""
        others = [
            worker.allocated_spec
            for uid, worker in self._workers.items()
            if uid != pod.metadata.uid and not worker.ended.is_set()
        ]
        pending = verdict(pod.spec, others, self._machine.allocatable)
        if pending is None:
            asyncio.get_running_loop().call_soon(self.retry)  # a smaller pod may make room for pending resizes
        return pending

    def retry(self) -> None:
        """Retry pending resizes, by priority, then age; called when a pod has left or takes less."""
        waiting = [worker for worker in self._workers.values() if worker.record.pending_resize is not None]
        for worker in sorted(waiting, key=_order):
            worker.resize()


def _order(worker: PodWorker) -> tuple[int, str]:
    _, since = worker.record.conditions.get(RESIZE_PENDING, ("", ""))
    return -(worker.pod.spec.priority or 0), since
