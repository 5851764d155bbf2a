"""What a cycle takes from outside: one reading of the clock, and no file on the thread that schedules."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from strato.clock import SystemClock, VirtualClock, run_virtual
from strato.scheduler import configfile, service
from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from tests.scheduler import worlds
from tests.scheduler.reporting.test_evictionrecords import EVICTING, HIGH
from tests.scheduler.test_service import create, running


class Restless(VirtualClock):
    """Never tells the same time twice."""

    readings = 0

    def now(self) -> float:
        self.readings += 1
        return super().now() + self.readings * 1e-3


def test_all_that_one_cycle_decides_and_notes_bears_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles: list[float] = []
    decided: list[float] = []
    run_cycle = service.run_cycle

    def noted(*args: Any, now: float, **more: Any) -> Any:
        plan = run_cycle(*args, now=now, **more)
        if plan.evictions:
            cycles.append(now)
        return plan

    monkeypatch.setattr(service, "run_cycle", noted)
    clock = Restless()

    async def story() -> None:
        async with running(clock, config=parse_config(EVICTING)) as (cluster, scheduler):
            low = [worlds.node("n", cpu="1"), worlds.group("low", 0), worlds.pod("low", "low")]
            await create(cluster, *low)
            await clock.sleep(3)
            worlds.feed(scheduler.world, HIGH)
            high = worlds.group("high", 1, priorityClassName="high")
            await create(cluster, high, worlds.pod("high", "high"))
            await clock.sleep(3)
            decided.extend(record.at for record in scheduler.eviction_records.entries)

    run_virtual(clock, story())
    assert len(cycles) == 1
    assert decided == cycles


def test_a_changed_configuration_is_read_beside_the_scheduling_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "enqueue, allocate"\n')
    readers: list[threading.Thread] = []
    read_config = configfile.read_config

    def noted(path: Path) -> Config:
        readers.append(threading.current_thread())
        return read_config(path)

    async def story() -> None:
        clock: Any = SystemClock()
        async with running(clock, config=path, period_seconds=0.02) as (_, scheduler):
            monkeypatch.setattr(configfile, "read_config", noted)
            path.write_text('actions: "enqueue, allocate, backfill"\n')
            async with asyncio.timeout(120):
                while "backfill" not in scheduler.config.actions:
                    await asyncio.sleep(0.02)

    asyncio.run(story())
    assert readers
    assert threading.main_thread() not in readers
