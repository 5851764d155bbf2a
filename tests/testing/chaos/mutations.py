"""Faults put into the software, one at a time, that a run of chaos is to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.client.informer import Informer
from strato.controllers.kube.garbage import GarbageCollector
from strato.node.hollow.pods import HollowPods
from strato.scheduler.binding.binder import Binder
from strato.scheduler.cache.world import World
from strato.server.journal.file import JournalFile
from strato.server.rest import binding
from strato.server.store import Store
from strato.sim.recording.recorder import LogRecorder

Mutation = Callable[[pytest.MonkeyPatch], None]


def answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """The store answers writers before the disk has what they wrote."""

    async def wait_durable(self: Store) -> None:
        return None

    patch.setattr(Store, "wait_durable", wait_durable)


def journal_forgets_its_last_row(patch: pytest.MonkeyPatch) -> None:
    """The journal is read without its newest commit."""
    read = JournalFile._read_log

    def read_log(self: JournalFile) -> Any:
        newest = read(self)
        if newest:
            last = max(row[2] for row in newest.values())
            newest = {key: row for key, row in newest.items() if row[2] < last}
            self.last_revision = max([row[2] for row in newest.values()], default=1)
        return newest

    patch.setattr(JournalFile, "_read_log", read_log)


def server_binds_again(patch: pytest.MonkeyPatch) -> None:
    """The server binds a pod that is bound already."""

    def with_node(name: str, spec: bytes, node: str) -> bytes:
        return msgspec.json.encode({**msgspec.json.decode(spec), "nodeName": node})

    patch.setattr(binding, "_with_node", with_node)


def binder_takes_failures_for_success(patch: pytest.MonkeyPatch) -> None:
    """The binder takes a bind for carried out whatever was answered."""

    async def look_up(self: Binder, failed: Sequence[Any]) -> None:
        for one in failed:
            self._done(one.bind, self._clock.monotonic())

    patch.setattr(Binder, "_look_up", look_up)


def informer_forgets_what_a_list_brings(patch: pytest.MonkeyPatch) -> None:
    """A new list after 410 brings nothing that was not known."""
    taken_over = Informer._taken_over

    def drop(self: Informer[Any], fresh: dict[Any, Any]) -> Any:
        return taken_over(self, {key: item for key, item in fresh.items() if key in self._objects})

    patch.setattr(Informer, "_taken_over", drop)


def recorder_leaves_out_who_is_held_back(patch: pytest.MonkeyPatch) -> None:
    """The log does not say that a pod whose bind failed is left out for a while."""
    patch.setattr(LogRecorder, "hold", lambda self, key: None)


def garbage_of_others_stays(patch: pytest.MonkeyPatch) -> None:
    """What belongs to an object that is gone is not collected."""

    async def process(self: GarbageCollector, *_: Any) -> None:
        return None

    patch.setattr(GarbageCollector, "_process_dependent", process)


def nodes_forget_their_pods(patch: pytest.MonkeyPatch) -> None:
    """A node that starts anew does not go on with the pods it ran."""
    patch.setattr(HollowPods, "_resume", lambda *_: None)


def restarted_scheduler_sees_no_pods(patch: pytest.MonkeyPatch) -> None:
    """Pods that were bound by somebody else do not count on their node."""
    set_pod = World.set_pod

    def set_unbound(self: World, pod: Pod) -> Any:
        if str(pod.key) not in self.tasks and pod.spec.node_name:
            return None
        return set_pod(self, pod)

    patch.setattr(World, "set_pod", set_unbound)
