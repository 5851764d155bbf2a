"""The machine's clock is set while the cluster works: by an hour, forwards and back. Only what is dated shows it."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api.core import Node, Pod
from strato.clock import VirtualClock, run_virtual
from strato.controllers.manager import EMBEDDED
from strato.scheduler.config import DEFAULT_TEXT
from strato.testing.harness import Harness
from strato.testing.manifests import pod, priority_class, vcjob

HOUR = 3600.0


class SetClock(VirtualClock):
    """A virtual clock that somebody sets: what `now` says jumps, what `monotonic` says does not."""

    offset = 0.0

    def now(self) -> float:
        return super().now() + self.offset


def play(story: Any, **options: Any) -> None:
    clock = SetClock()

    async def main() -> None:
        async with Harness(
            None, clock=clock, nodes="3x4cpu,8Gi", controllers=EMBEDDED, max_lease_rate=100.0, **options
        ) as harness:
            await story(harness, clock)

    run_virtual(clock, main())


JUMPS = [
    pytest.param((HOUR,), id="forwards"),
    pytest.param((-HOUR,), id="back"),
    pytest.param((HOUR, -HOUR, -HOUR, HOUR), id="there and back"),
]


@pytest.mark.parametrize("jumps", JUMPS)
def test_work_goes_on_as_if_nothing_had_happened(jumps: tuple[float, ...]) -> None:
    async def story(h: Harness, clock: SetClock) -> None:
        await h.apply(pod("steady", cpu="1", run_seconds=86400))
        await h.eventually(lambda: h.pod("steady").is_ready)
        uid = h.pod("steady").metadata.uid
        seen: list[str] = []
        h.informer(Node).add_handler(
            lambda change: seen.append(change.new.status.condition("Ready").status) if change.new else None
        )
        for number, jump in enumerate(jumps):
            before = f"before-{number}"
            await h.apply(vcjob(before).task("worker", 2, cpu="1", run_seconds=30))
            await h.eventually(lambda name=before: h.job(name).status.state.phase == "Running")
            clock.offset += jump
            started = clock.monotonic()
            await h.apply(vcjob(f"after-{number}").task("worker", 3, cpu="1", run_seconds=5))
            for name in (f"after-{number}", before):
                await h.eventually(lambda name=name: h.job(name).status.state.phase == "Completed", timeout_seconds=120)
            assert clock.monotonic() - started < 60
            await h.clock.sleep(120)
        assert set(seen) <= {"True"}
        assert h.pod("steady").metadata.uid == uid
        assert h.pod("steady").is_ready

    play(story)


@pytest.mark.parametrize("jumps", JUMPS)
def test_room_is_still_made_by_evictions(jumps: tuple[float, ...]) -> None:
    """What was refused or is under way is not spared for an hour."""

    async def story(h: Harness, clock: SetClock) -> None:
        await h.apply(priority_class("high", 1000), priority_class("low", 1))
        for number, jump in enumerate(jumps):
            low, high = f"low-{number}", f"high-{number}"
            await h.apply(vcjob(low, min_available=1, priority_class="low").task("w", 12, cpu="1", run_seconds=86400))
            await h.eventually(lambda: sum(p.status.phase == "Running" for p in h.pods()) == 12)
            clock.offset += jump
            await h.apply(vcjob(high, priority_class="high").task("w", 2, cpu="1", run_seconds=86400))
            await h.eventually(lambda name=high: h.job(name).status.running == 2, timeout_seconds=60)
            for name in (low, high):
                await h.delete(type(h.job(name)), name)
            await h.eventually(lambda: not h.pods(), timeout_seconds=120)

    config = DEFAULT_TEXT.replace("allocate,", "allocate, preempt,")
    assert "preempt" in config
    play(story, scheduler_config=config)


def test_pods_whose_deadline_the_jump_passes_end_as_with_kubernetes() -> None:
    """A deadline is an instant on the clock; a jump over it ends the pod, and one back does not bring it to life."""

    async def story(h: Harness, clock: SetClock) -> None:
        body = pod("p", cpu="1", run_seconds=86400)
        body["spec"]["activeDeadlineSeconds"] = 120
        await h.apply(body)
        await h.eventually(lambda: h.pod("p").is_ready)
        clock.offset -= HOUR
        await h.eventually(lambda: h.pod("p").status.phase == "Failed", timeout_seconds=150)
        assert h.get(Pod, "p").status.reason == "DeadlineExceeded"

    play(story)
