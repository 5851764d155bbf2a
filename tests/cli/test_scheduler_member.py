"""The scheduler as a part of a process that has others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from strato.cli.recordoptions import RecordOptions
from strato.cli.run.scheduling import SchedulerFlags, scheduler_member
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.metrics import Registry
from strato.sim.recording.log import open_log
from strato.testing.harness import Harness


def _flags(directory: Path) -> SchedulerFlags:
    return SchedulerFlags(
        config=None,
        period_seconds=1.0,
        default_queue="default",
        shard_mode="none",
        shard_name="",
        agents=False,
        node_labels=frozenset(),
        shadow=None,
        predict_starts=False,
        record=RecordOptions(file=str(directory / "log")),
    )


def test_no_other_part_draws_from_the_schedulers_generator(tmp_path: Path) -> None:
    """Leases and informers draw when an answer is late: a replay could not know, and would choose other nodes."""
    clock, shared = SystemClock(), Random(7)
    cluster = Harness(clock=clock).cluster
    informers = Informers(cluster, clock, shared)
    member = scheduler_member(cluster, informers, clock, shared, Registry(), _flags(tmp_path), ("me",))

    async def begin() -> None:
        work = asyncio.ensure_future(member.work())
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait({work})

    asyncio.run(begin())
    recorded = open_log(tmp_path / "log").first().rng
    assert recorded is not None
    own = Random()
    own.setstate(recorded)
    own.getrandbits(16)  # the seed of the first placer, drawn since
    assert own.getstate() != shared.getstate()
