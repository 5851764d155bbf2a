"""Keeps the Node objects of running nodes up to date: what differs in the API is reported again.

A node that was paused for longer than its lease (a laptop's lid, SIGSTOP) finds itself marked Unknown, and one whose
object somebody deleted finds itself gone. The watch says so, and the node registers or reports its status anew. So it
does when its cpu is to be amplified otherwise (`strato.api.amplification`).
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
"""Between two reports of one node: somebody who keeps writing something else must not make this a busy loop."""
_LIFECYCLE_TAINTS: Final = frozenset({"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"})


class NodeSync:
    """Reports nodes again whose object is gone or says something else than they do.

    Args:
        informer: Of Nodes; started and stopped by the caller.
        facts: What the nodes say of themselves, by name; `resume` says that it has changed.
        uids: Name → uid of the Node object; kept up to date.
        restored: Called with a node's name when it counts as ready again: its pods' statuses, which the node lifecycle
            controller changed meanwhile, are to be written again.
        is_stopped: Says which nodes have stopped and report nothing.
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
        for name in self._facts:  # one that was deleted before the first list has no event
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
            self._restored(name)  # the controller has finished with its pods

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
                return None  # its deletion is the next event
        if node is None or _status(node, "Ready") != "True":
            self._restored(name)
        return None

    def _differs(self, node: Node) -> bool:
        """Return whether the API has another status of a condition than the node reports, or other amounts."""
        facts = self._facts[node.metadata.name]
        return any(_status(node, kind) != status for kind, status in condition_statuses(facts).items()) or (
            _offers_differ(facts, node)
        )


def _offers_differ(facts: NodeFacts, node: Node) -> bool:
    """Return whether what is amplified in the API is not what the node is to offer; most nodes have no ratios."""
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
