"""The log of an observer: objects, changes, and decisions as they show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.wire import User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.errors import Forbidden
from strato.sim.recording import entries as e
from strato.sim.recording.follow import Follower
from strato.sim.recording.log import open_log
from strato.sim.recording.recorder import LogRecorder
from strato.sim.recording.replay import ReplayTally, replay
from strato.sim.recording.segments import LogFiles
from strato.testing.harness import Harness, run_in_virtual_time
from tests.sim.recording.recordings import NEVER_PREEMPTING, PREEMPTING, SCENE, busy_hour


def follow(log: Path, config: str = PREEMPTING) -> dict[str, int]:
    """Watch a busy hour from outside; return how many decisions were seen and made."""
    found: dict[str, int] = {}

    async def story(h: Harness) -> None:
        recorder = LogRecorder(LogFiles(log), h.clock, origin=e.CLUSTER)
        cluster = h.cluster_as("onlooker", "system:masters")
        informers = Informers(cluster, h.clock, Random(1))
        follower = Follower(cluster, informers, h.clock, recorder, ("volcano",), config)
        ready = asyncio.Event()
        following = asyncio.ensure_future(follower.run(ready.set))
        await ready.wait()
        await busy_hour(h)
        following.cancel()
        await informers.stop()
        recorder.close()
        found.update(changes=follower.changes, decisions=follower.decisions)

    run_in_virtual_time(story, SCENE, nodes="4x4cpu,16Gi", scheduler_config=PREEMPTING)
    return found


def test_decisions_are_seen_and_compared(tmp_path: Path) -> None:
    found = follow(tmp_path / "log")
    tally = ReplayTally()
    list(replay(open_log(tmp_path / "log"), tally=tally))
    assert not tally.is_exact
    assert any("outside the scheduler" in note for note in tally.notes)
    assert tally.binds + tally.evictions == found["decisions"] > 60
    assert tally.evictions > 0
    # cycles are guessed, and still nearly every bind is decided again at the instant at which it was seen
    assert tally.same_binds + tally.elsewhere >= 0.9 * tally.binds


def test_a_policy_that_evicts_nobody_differs_by_the_evictions(tmp_path: Path) -> None:
    follow(tmp_path / "log", NEVER_PREEMPTING)
    tally = ReplayTally()
    list(replay(open_log(tmp_path / "log"), tally=tally))
    assert tally.same_evictions == 0 < tally.evictions


class OfAnothers(LocalCluster):
    """A cluster of which one may see everything but its nodes."""

    async def list(self, kind: Any, *args: Any, **options: Any) -> Any:
        if kind is catalog.NODE:
            raise Forbidden('nodes is forbidden: User "onlooker" cannot list resource "nodes"')
        return await super().list(kind, *args, **options)


def test_who_may_not_read_is_refused_at_once(tmp_path: Path) -> None:
    async def story(h: Harness) -> None:
        cluster = OfAnothers(h.world.server, User("onlooker", ("system:authenticated",)))
        recorder = LogRecorder(LogFiles(tmp_path / "log"), h.clock, origin=e.CLUSTER)
        follower = Follower(cluster, Informers(cluster, h.clock, Random(1)), h.clock, recorder, ("volcano",), "")
        with pytest.raises(Forbidden, match="nodes is forbidden"):
            await follower.run()

    run_in_virtual_time(story, scheduler=False, controllers=())
