"""Keeps the Node objects of running nodes up to date: writes a status again when the API shows another one.

The node lifecycle controller sets a node to Unknown that was paused for longer than its lease (a laptop's lid,
SIGSTOP), and users may delete a Node object. The watch shows both, and `NodeSync` writes the status or registers the
node again. It does so too when the ratio by which the node's cpu is amplified changes (`strato.api.amplification`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Final

from strato.api.amplification import RATIO, RAW, amounts_changed
from strato.api.core import Node
from strato.api.meta import Key
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informer
from strato.client.workqueue import WorkQueue, run_workers
from strato.clock import Clock
from strato.errors import NotFound
from strato.node.registration import NodeFacts, condition_statuses, published_of, register_node, report_node

_WORKERS: Final = 8
_INTERVAL_SECONDS: Final = 5.0
"""Shortest time between two writes of one node: another client that keeps changing it must not cause a busy loop."""
_LIFECYCLE_TAINTS: Final = frozenset({"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"})


class NodeSync:
    """Registers nodes again whose object was deleted, and writes statuses again that differ from the nodes' facts.

    Args:
        informer: Informer of Nodes; the caller starts and stops it.
        facts: Facts of the nodes by name; call `resume` when they have changed.
        uids: Name → uid of the Node object; this object keeps it up to date.
        restored: Called with a node's name when the node is ready again. The caller then writes the statuses of its
            pods again, which the node lifecycle controller has changed meanwhile.
        is_stopped: Returns whether a node has stopped; nothing is written for it.
    """

    def __init__(
        self,
        cluster: Cluster,
        informer: Informer[Node],
        clock: Clock,
        facts: Mapping[str, NodeFacts],
        uids: MutableMapping[str, str],
        *,
        restored: Callable[[str], None],
        is_stopped: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._cluster = cluster
        self._informer = informer
        self._clock = clock
        self._facts = facts
        self._uids = uids
        self._restored = restored
        self._is_stopped = is_stopped
        self._reported_at: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock)

    async def run(self) -> None:
        """Work until cancelled; the nodes must be registered."""
        self._informer.add_handler(self._on_change)
        self._informer.start()
        await self._informer.wait_synced()
        for name in self._facts:  # the watch has no event for a node that was deleted before the first list
            if self._informer.get(("", name)) is None:
                self._queue.add(name)
        await run_workers(self._queue, self._reconcile, _WORKERS, name="node status")

    def resume(self, name: str) -> None:
        """Check a node that was started again, or whose conditions have changed."""
        self._queue.add(name)

    def _on_change(self, change: Change[Node]) -> None:
        name = change.key.name
        if name not in self._facts or self._is_stopped(name):
            return
        old, new = change
        if new is None or self._differs(new):
            self._queue.add(name)
        elif old is not None and _is_tainted(old) and not _is_tainted(new):
            self._restored(name)  # by now the node lifecycle controller has changed all its pods

    async def _reconcile(self, name: str) -> float | None:
        node = self._informer.get(Key("", name))
        if self._is_stopped(name) or (node is not None and not self._differs(node)):
            return None
        instant = self._clock.monotonic()
        wait = self._reported_at.get(name, -_INTERVAL_SECONDS) + _INTERVAL_SECONDS - instant
        if wait > 0:
            return wait
        self._reported_at[name] = instant
        facts, now = self._facts[name], self._clock.now()
        if node is None:
            self._uids[name] = await register_node(self._cluster, facts, now)
        else:
            try:
                await report_node(self._cluster, facts, now, node)
            except NotFound:
                return None  # deleted meanwhile; the watch event of that causes the next check
        if node is None or _status(node, "Ready") != "True":
            self._restored(name)
        return None

    def _differs(self, node: Node) -> bool:
        """Return whether conditions or amounts in the API differ from those that the node reports."""
        facts = self._facts[node.metadata.name]
        return any(_status(node, kind) != status for kind, status in condition_statuses(facts).items()) or (
            _offers_differ(facts, node)
        )


def _offers_differ(facts: NodeFacts, node: Node) -> bool:
    """Return whether amplified amounts in the API differ from those that the node offers; mostly there are none."""
    annotations = node.metadata.annotations
    if not annotations or (RATIO not in annotations and RAW not in annotations):
        return False
    offer = published_of(facts, node)
    return annotations.get(RAW) != offer.raw or amounts_changed(node.status.allocatable, offer.allocatable)


def _status(node: Node, kind: str) -> str:
    condition = node.status.condition(kind)
    return condition.status if condition is not None else ""


def _is_tainted(node: Node) -> bool:
    return any(taint.key in _LIFECYCLE_TAINTS for taint in node.spec.taints)
