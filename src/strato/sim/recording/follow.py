"""`Follower`: records a log from outside, by watching a cluster whose scheduler writes none.

The API shows pods on nodes, but no cycles. So each batch of pods that is observed to be bound or evicted is recorded as
one cycle, before the changes of these pods themselves: a replay then decides that cycle on the state just before.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from strato.api import catalog
from strato.api.core import Pod
from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.scheduler.binding.startup import absent_kinds
from strato.scheduler.cache import kinds
from strato.scheduler.cache.journal import Beginning
from strato.sim.recording import entries as e
from strato.sim.recording.recorder import LogRecorder

_EVICTED_BY = "PreemptionByScheduler"


class Follower:
    """Records the changes and decisions of a cluster, as the module says.

    Args:
        recorder: Writes the log; its origin is `strato.sim.recording.entries.CLUSTER`.
        names: Values of ``spec.schedulerName``; the decisions on pods with these are recorded.
        config: Text of the scheduler's configuration; empty is the built-in one.

    Attributes:
        changes: Number of changes recorded.
        decisions: Number of binds and evictions observed.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        recorder: LogRecorder,
        names: Collection[str],
        config: str,
    ) -> None:
        self._cluster = cluster
        self._informers = informers
        self._clock = clock
        self._recorder = recorder
        self._names = frozenset(names)
        self._config = config
        self.changes = 0
        self.decisions = 0

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Record until cancelled; ``ready`` is called once all existing objects have been recorded.

        Raises:
            ApiError: The server refuses to list a kind. Without this check informers would retry for ever.
        """
        absent = await absent_kinds(self._cluster, among_all=True)
        followed = [known for known in kinds.KINDS if known.kind not in absent]
        for known in followed:
            await self._cluster.list(known.kind, limit=1)
        self._recorder.begin(
            Beginning(
                names=sorted(self._names),
                default_queue="default",
                shard_mode="none",
                shard_name="volcano",
                agent_shard="",
                flow_loaded=True,
                config=self._config,
                base=Path(),
                rng=(),
            )
        )
        for known in followed:
            informer = self._informers.informer(known.kind.view)
            informer.add_batch_handler(functools.partial(self._on_changes, known))
        await self._informers.wait_synced()
        ready()
        await asyncio.get_running_loop().create_future()

    def _on_changes(self, known: kinds.WorldKind, changes: Sequence[Change[Any]]) -> None:
        if known.kind is catalog.POD:
            self._note_decisions([change for change in changes if self._is_decision(change)])
        for change in changes:
            self._write(known.kind, change)

    def _write(self, kind: Kind, change: Change[Any]) -> None:
        self.changes += 1
        if change.new is None:
            self._recorder.drop(kind, change.key.namespace, change.key.name)
        else:
            self._recorder.take(kind, change.new)

    def _is_decision(self, change: Change[Pod]) -> bool:
        """Whether a change shows that a scheduler of `names` has bound or evicted the pod."""
        old, new = change
        if old is None or new is None or new.spec.scheduler_name not in self._names:
            return False
        return _is_bound(old, new) or _is_evicted(old, new)

    def _note_decisions(self, changes: Sequence[Change[Pod]]) -> None:
        if not changes:
            return
        binds: list[tuple[str, str]] = []
        evictions: list[e.Evicted] = []
        uids: dict[str, str] = {}
        for old, new in changes:
            assert old is not None
            assert new is not None
            key = str(new.key)
            if _is_bound(old, new):
                binds.append((key, new.spec.node_name))
            if _is_evicted(old, new):
                evictions.append(e.Evicted(key))
                uids[key] = new.metadata.uid
        self.decisions += len(binds) + len(evictions)
        self._recorder.decided(self._clock.now(), binds, evictions, uids, [], [], [])


def _is_bound(old: Pod, new: Pod) -> bool:
    return bool(new.spec.node_name) and not old.spec.node_name


def _is_evicted(old: Pod, new: Pod) -> bool:
    return _is_victim(new) and not _is_victim(old)


def _is_victim(pod: Pod) -> bool:
    """Whether a pod's condition says that a scheduler evicts it."""
    found = pod.status.condition("DisruptionTarget")
    return found is not None and found.status == "True" and found.reason == _EVICTED_BY
