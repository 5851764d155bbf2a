"""Pods that are bound to hollow nodes when these start, taken up node by node.

After a restart these may be a million pods. Taking them up takes ten seconds of the loop, for which the scheduler and
controllers of the same process must not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from strato.api.core import Pod
from strato.client.informer import Informer
from strato.clock import Clock
from strato.node.hollow.admission import in_order

SLICE_SECONDS: Final = 0.003
"""Time for which nodes are served in one turn of the loop."""


class Backlog:
    """The nodes that have not taken up their pods of the informer's first list.

    Args:
        informer: Has the pods as they are when their node takes them up.
        take_up: Called with all pods of a node, in the order of their admission.
    """

    def __init__(self, informer: Informer[Pod], clock: Clock, take_up: Callable[[Sequence[Pod]], None]) -> None:
        self._informer, self._clock, self._take_up = informer, clock, take_up
        self._waiting: dict[str, dict[tuple[str, str], None]] = {}
        """Node → keys of the pods that are bound to it."""
        self._filled = asyncio.Event()

    def __contains__(self, node: str) -> bool:
        return node in self._waiting

    def fill(self, pods: Iterable[Pod]) -> None:
        """Add the pods of the first list; `run` begins."""
        for pod in pods:
            if not pod.is_finished or pod.metadata.deletion_timestamp is not None:
                self.add(pod)
        self._filled.set()

    def add(self, pod: Pod) -> None:
        """Add a pod that is bound to a node."""
        meta = pod.metadata
        self._waiting.setdefault(pod.spec.node_name, {})[meta.namespace, meta.name] = None

    def drop(self, node: str) -> None:
        """Forget the pods of a node."""
        self._waiting.pop(node, None)

    def take_up(self, node: str) -> None:
        """Take up the pods of a node now, if they wait."""
        found = (self._informer.get(key) for key in self._waiting.pop(node, ()))
        pods = [pod for pod in found if pod is not None and pod.spec.node_name == node]
        if pods:
            self._take_up(in_order(pods))

    async def run(self) -> None:
        """Let one node after the other take up its pods; return when all have."""
        await self._filled.wait()
        begun = self._clock.monotonic()
        while self._waiting:
            self.take_up(next(iter(self._waiting)))
            if self._clock.monotonic() - begun > SLICE_SECONDS:
                await self._clock.sleep(0)
                begun = self._clock.monotonic()
