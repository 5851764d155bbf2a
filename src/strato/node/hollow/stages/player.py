"""`StagePlayer`: watches the objects of one kind, waits for the delays of their stages, and carries out the steps.

Objects are read as whole JSON, because a stage may query any field. When an object changes while it waits, its stage is
chosen anew, as in kwok.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from strato.api.kinds import Kind
from strato.api.meta import Json, Key
from strato.client.backoff import Backoff
from strato.client.cluster import Cluster, EventType, PatchType
from strato.client.events import EventRecorder
from strato.client.workqueue import WorkQueue, run_workers
from strato.clock import Clock
from strato.errors import ApiError, Conflict, Gone, NotFound
from strato.node.hollow.distributions import Draws
from strato.node.hollow.stages.functions import Surroundings, functions_of
from strato.node.hollow.stages.gotemplate import TemplateFailed
from strato.node.hollow.stages.lifecycle import delay_seconds, finalizer_patch, next_stage, patch_of
from strato.node.hollow.stages.model import Stage, StageStep

_WORKERS: Final = 16
_PAGE: Final = 500
_WATCH_SECONDS: Final = 300
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Turn:
    """The stage of an object and how far it has got."""

    value: Json
    stage: Stage
    due: float
    """When the next step is due, a monotonic instant."""
    step: int = 0
    """Index of the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScope:
    """Which objects a player handles."""

    concerns: Callable[[Json], bool]
    """Returns whether the player handles an object."""
    pauses: Callable[[Json], bool]
    """Returns whether an object is paused now, until `StagePlayer.resume`."""
    on_gone: Callable[[str], object]
    """Called with the uid of a deleted object."""


class StagePlayer:
    """Plays the stages of one kind.

    Args:
        kind: Kind of the objects.
        stages: Stages of all kinds; those of other kinds are ignored.
        around: Information about nodes for templates.
        scope: Which objects the player handles.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        *,
        kind: Kind,
        stages: Sequence[Stage],
        around: Surroundings,
        scope: StageScope,
    ) -> None:
        self._cluster, self._clock, self._kind, self._around = cluster, clock, kind, around
        self._scope = scope
        self._paused: dict[Key, Json] = {}
        self._stages: tuple[Stage, ...] = ()
        self.set_stages(stages)
        self._backoff = Backoff(random)
        self._recorder = EventRecorder(cluster, clock, "kwok")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._turns: dict[Key, _Turn] = {}
        self._known: dict[Key, tuple[str, int]] = {}
        """Key of an object → its uid, and how many stages it has come to."""

    def __len__(self) -> int:
        return len(self._known)

    def set_stages(self, stages: Sequence[Stage]) -> None:
        """Replace the stages; an object that waits for a stage of the previous ones still comes to it."""
        self._stages = tuple(stage for stage in stages if stage.kind == self._kind.name)
        self.resume()

    def resume(self) -> None:
        """Choose stages anew for all paused objects."""
        paused, self._paused = self._paused, {}
        for value in paused.values():
            self.observe(value)

    async def run(self) -> None:
        """Watch the objects and carry out their stages, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(run_workers(self._queue, self._play, _WORKERS, name=f"stages of {self._kind.plural}"))

    async def _follow(self) -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                seconds = _WATCH_SECONDS if self._cluster.remote else 0
                async for batch in self._cluster.watch(self._kind, resource_version=version, timeout_seconds=seconds):
                    for event in batch:
                        version = event.object["metadata"]["resourceVersion"]
                        if event.type is EventType.DELETED:
                            self._forget(_key(event.object))
                        elif event.type is not EventType.BOOKMARK:
                            self.observe(event.object)
            except Gone:
                version = ""
            except ApiError as error:
                _log.warning("reading for stages is interrupted: kind=%s error=%s", self._kind.name, error)
                await self._clock.sleep(self._backoff.next_delay(self._clock.monotonic()))

    async def _list(self) -> str:
        found: set[Key] = set()
        token = ""
        while True:
            limit = _PAGE if self._cluster.remote else 0
            page = await self._cluster.list(self._kind, limit=limit, continue_token=token)
            for value in page.items:
                found.add(_key(value))
                self.observe(value)
            token = page.continue_token
            if not token:
                break
        for key in self._known.keys() - found:
            self._forget(key)
        return page.resource_version

    def observe(self, value: Json) -> None:
        """Handle the present state of an object."""
        key = _key(value)
        if not self._scope.concerns(value):
            return
        waiting = self._turns.get(key)
        version = value["metadata"]["resourceVersion"]
        if waiting is not None and waiting.value["metadata"]["resourceVersion"] == version:
            return
        uid, count = value["metadata"]["uid"], 0
        if key in self._known and self._known[key][0] == uid:
            count = self._known[key][1]
        self._known[key] = uid, count
        draws = Draws(uid, "stage", count)
        stage = None if self._scope.pauses(value) else next_stage(self._stages, value, draws)
        if stage is None:
            self._turns.pop(key, None)
            self._paused[key] = value  # reconsidered when the stages change or its node runs again
            return
        self._paused.pop(key, None)
        seconds = delay_seconds(stage, value, self._clock.now(), draws)
        self._turns[key] = _Turn(value, stage, self._clock.monotonic() + seconds)
        if seconds > 0:
            self._queue.add_after(key, seconds)
        else:
            self._queue.add(key)

    def _forget(self, key: Key) -> None:
        self._turns.pop(key, None)
        self._paused.pop(key, None)
        uid, _ = self._known.pop(key, ("", 0))
        if uid:
            self._scope.on_gone(uid)

    async def _play(self, key: Key) -> float | None:
        turn = self._turns.get(key)
        if turn is None:
            return None
        wait = turn.due - self._clock.monotonic()
        if wait > 0:
            return wait
        if self._scope.pauses(turn.value):
            self._paused[key] = self._turns.pop(key).value
            return None
        uid, count = self._known.get(key, ("", 0))
        self._known[key] = uid, count + 1
        changed = None
        try:
            while turn.step < len(turn.stage.steps):
                changed = await self._take(turn.stage.steps[turn.step], turn.value, key) or changed
                turn.step += 1
        except (NotFound, Conflict):
            changed = None  # deleted, or changed by another client: the watch will show the present state
        except TemplateFailed as error:
            _log.warning("a stage cannot be played: object=%s/%s stage=%s %s", *key, turn.stage.name, error)
            self._recorder.event(turn.value, "Warning", "StageFailed", f"stage {turn.stage.name}: {error}")
        if self._turns.get(key) is turn:
            del self._turns[key]
            if turn.stage.immediate and changed is not None:
                self.observe(changed)
        return None

    async def _take(self, step: StageStep, value: Json, key: Key) -> Json | None:
        """Carry out a step; return the changed object."""
        namespace, name = key
        if step.event is not None:
            self._recorder.event(value, *step.event)
        changed = None
        if step.changes_finalizers:
            operations = finalizer_patch(step, value["metadata"].get("finalizers") or ())
            if operations:
                changed = await self._cluster.patch(self._kind, name, namespace, operations, patch_type=PatchType.JSON)
        if step.delete:
            await self._cluster.delete(
                self._kind, name, namespace, uid=value["metadata"]["uid"], grace_period_seconds=0
            )
        elif step.template is not None:
            node = name if self._kind.name == "Node" else ""
            patch = patch_of(step, value, functions_of(self._around, node))
            changed = await self._cluster.patch(
                self._kind, name, namespace, patch.body, patch_type=patch.type, subresource=patch.subresource
            )
        return changed


def _key(value: Json) -> Key:
    metadata = value["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
