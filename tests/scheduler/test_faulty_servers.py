"""What the scheduler is to do on API servers that take one call at a time, refuse, throttle, hang or lose answers."""

from __future__ import annotations

import pytest

from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.testing.faults import WORLDS
from tests.scheduler import worlds
from tests.scheduler.binding.test_binder import everything_is_told, solo
from tests.scheduler.faulty import Setting, leading, play
from tests.scheduler.test_service import create

PATIENCE = 600.0
"""Virtual seconds; a server that is half-dead holds each request for one of them in twenty."""

on_all = pytest.mark.parametrize("world", WORLDS)
in_batches = pytest.mark.parametrize("at_once", [1, 64])


@on_all
@in_batches
def test_gangs_are_admitted_bound_and_told(world: str, at_once: int) -> None:
    async def story(s: Setting) -> None:
        await create(s.admin, *(worlds.node(f"n{n}", cpu="8") for n in range(4)))
        for number in range(5):
            group = worlds.group(f"g{number}", 4, phase="Pending")
            await create(s.admin, group, *(worlds.pod(f"p{number}-{n}", f"g{number}") for n in range(4)))

        async def all_right() -> bool:
            groups = (await s.admin.list(PodGroup, "ns")).items
            queue = await s.admin.get(Queue, "default")
            running = {group.status.phase for group in groups} == {"Running"}
            return running and all((await s.nodes()).values()) and queue.status.allocated.get("cpu") == "20"

        await s.until(all_right, PATIENCE)

    play(story, faults=WORLDS[world], at_once=at_once)


@on_all
@in_batches
def test_what_does_not_fit_is_told_and_placed_later(world: str, at_once: int) -> None:
    async def story(s: Setting) -> None:
        await create(s.admin, worlds.node("n", cpu="2"), worlds.group("g", 3), solo("running", cpu="1"))
        await create(s.admin, *(worlds.pod(f"w{n}", "g") for n in range(3)), solo("big", cpu="8"))

        async def told() -> bool:
            try:
                await everything_is_told(s, events=False)
            except AssertionError:
                return False
            return True

        await s.until(told, PATIENCE)
        await create(s.admin, worlds.node("more", cpu="16"))

        async def bound() -> bool:
            return all((await s.nodes()).values())

        await s.until(bound, PATIENCE)

    play(story, faults=WORLDS[world], at_once=at_once)


@on_all
def test_two_schedulers_that_both_lead_for_a_while_bind_no_pod_twice(world: str) -> None:
    async def story(s: Setting) -> None:
        places: dict[str, set[str]] = {}
        second = type(s.cluster)(
            s.cluster._handler, s.cluster._user, s.clock, s.cluster._random, faults=s.cluster.faults
        )
        start = (await s.admin.list(Pod)).resource_version
        async with leading((s.clock, s.admin, second)):
            await create(s.admin, *(worlds.node(f"n{n}", cpu="4") for n in range(6)))
            for number in range(6):
                group = worlds.group(f"g{number}", 3, phase="Pending")
                await create(s.admin, group, *(worlds.pod(f"p{number}-{n}", f"g{number}") for n in range(3)))

            async def bound() -> bool:
                return all((await s.nodes()).values())

            await s.until(bound, PATIENCE)
        async for events in s.admin.watch(Pod, "ns", resource_version=start, timeout_seconds=1):
            for event in events:
                if event.object.spec.node_name:
                    places.setdefault(event.object.metadata.uid, set()).add(event.object.spec.node_name)
        assert len(places) == 18
        assert {len(nodes) for nodes in places.values()} == {1}

    play(story, faults=WORLDS[world])
