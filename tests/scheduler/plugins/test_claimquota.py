"""Limits on claimed devices: what queues hold of them, claims that pods share, and what a job's minimum asks for."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.cache.world import World
from strato.scheduler.plugins.claimquota import ClaimQuota, limits_of
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
CLASSES = ("gpu", "nic")


def claim(name: str, cls: str, count: int = 1, memory: str = "") -> Json:
    exactly: Json = {"deviceClassName": cls, "count": count}
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "it", "exactly": exactly}]}},
    }  # fmt: skip


def uses(name: str, group: str, *claims: str, role: str = "", **more: Any) -> Json:
    listed = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    notes = {"volcano.sh/task-spec": role} if role else {}
    return worlds.pod(name, group, resourceClaims=listed, annotations=notes, **more)


def runs(name: str, group: str, *claims: str, **more: Any) -> Json:
    return uses(name, group, *claims, phase="Running", nodeName="n", **more)


def quota(world: World, *, consumable: bool = False, above: tuple[str, ...] = ()) -> ClaimQuota:
    lineages = {queue.name: (*above, queue.name) for queue in world.queues.values() if queue.jobs}
    return ClaimQuota(world, lineages, consumable=consumable)


def limited(*objects: Json, limits: Json | None = None) -> World:
    top = worlds.queue("top", capability={"deviceclass/gpu": "3"})
    queue = worlds.queue("q", capability={"deviceclass/gpu": "2"} if limits is None else limits)
    return worlds.world(worlds.node("n", cpu="99", memory="99Gi"), top, queue, *objects)


def group(name: str, minimum: int = 1, phase: str = "Running", **spec: Any) -> Json:
    return worlds.group(name, minimum, queue="q", phase=phase, **spec)


def allows(world: World, name: str, **more: Any) -> bool:
    return quota(world, **more).allows(world.queues["q"], world.tasks[f"ns/{name}"])


ALLOWED: list[Any] = [
    pytest.param([claim("c", "gpu", 2), uses("p", "g", "c")], True, id="just the limit"),
    pytest.param([claim("c", "gpu", 3), uses("p", "g", "c")], False, id="one more"),
    pytest.param([claim("c", "nic", 9), uses("p", "g", "c")], True, id="a class that is not limited"),
    pytest.param([claim("c", "gpu"), claim("d", "gpu"), uses("p", "g", "c", "d")], True, id="two claims"),
    pytest.param([claim("c", "gpu"), claim("d", "gpu", 2), uses("p", "g", "c", "d")], False, id="two claims add up"),
    pytest.param(
        [claim("c", "gpu", 2), claim("d", "gpu"), runs("r", "g", "c"), uses("p", "g", "d")], False, id="what runs"
    ),
    pytest.param([claim("c", "gpu", 2), runs("r", "g", "c"), uses("p", "g", "c")], True, id="shared claims count once"),
    pytest.param(
        [claim("c", "gpu"), claim("d", "gpu"), runs("r", "g", "c"), runs("s", "g", "c"), uses("p", "g", "d")], True,
        id="also when two that run share it",
    ),
    pytest.param([uses("p", "g", "gone")], True, id="a claim that is not there asks for nothing yet"),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "allowed"), ALLOWED)
def test_what_a_queue_may_hold(objects: list[Json], allowed: bool) -> None:
    assert allows(limited(group("g", 0), *objects), "p") is allowed


@pytest.mark.parametrize(("count", "enters"), [(2, True), (3, False)])
def test_a_job_whose_minimum_is_too_much_does_not_enter(count: int, enters: bool) -> None:
    job = group("g", 1, "Pending", minResources={"cpu": "1"})
    world = limited(job, claim("c", "gpu", count), uses("p", "g", "c"))
    plugin = {"name": "capacity", "arguments": {"capacity.DynamicResourceAllocationEnable": True}}
    ssn = asking.session(world, plugin)
    assert (ssn.job_enqueueable(world.jobs["ns/g"])) is enters


def test_all_queues_above_have_room_too() -> None:
    world = limited(group("g", 0), claim("c", "gpu", 2), uses("p", "g", "c"))
    assert allows(world, "p", above=("top",))
    worlds.feed(world, worlds.queue("top", capability={"deviceclass/gpu": "1"}))
    assert not allows(world, "p", above=("top",))


CAPACITY: list[Any] = [
    pytest.param({"deviceclass/gpu": "9", "memory.deviceclass/gpu": "10Gi"}, "10Gi", True, True, id="just the limit"),
    pytest.param({"deviceclass/gpu": "9", "memory.deviceclass/gpu": "10Gi"}, "11Gi", True, False, id="more"),
    pytest.param({"deviceclass/gpu": "9", "memory.deviceclass/gpu": "10Gi"}, "11Gi", False, True, id="switched off"),
    pytest.param({"deviceclass/gpu": "9"}, "1Gi", True, False, id="a dimension the limited class does not name"),
    pytest.param({"deviceclass/nic": "9"}, "1Gi", True, True, id="a class that is not limited"),
]


@pytest.mark.parametrize(("limits", "memory", "consumable", "allowed"), CAPACITY)
def test_capacity_of_devices(limits: Json, memory: str, consumable: bool, allowed: bool) -> None:
    world = limited(group("g", 0), claim("c", "gpu", 1, memory), uses("p", "g", "c"), limits=limits)
    assert allows(world, "p", consumable=consumable) is allowed


ENTERING: list[Any] = [
    pytest.param(group("g", 2, "Pending"), ["c", "d"], {}, "", id="a minimum of two"),
    pytest.param(group("g", 3, "Pending"), ["c", "d", "e"], {}, "deviceclass/gpu", id="of three"),
    pytest.param(group("g", 2, "Pending"), ["c", "d", "e"], {}, "", id="only the minimum counts"),
    pytest.param(group("g", 3, "Pending"), ["c", "c", "c"], {}, "", id="a claim that all share"),
    pytest.param(
        group("g", 3, "Pending", minTaskMember={"w": 3}), ["c"], {"role": "w"}, "deviceclass/gpu", id="by role"
    ),
    pytest.param(
        group("g", 2, "Pending", minTaskMember={"w": 2}), ["c"], {"role": "w"}, "", id="by role, in the limit"
    ),
    pytest.param(
        group("g", 3, "Pending", minTaskMember={"m": 3}), ["c"], {"role": "w"}, "", id="a role without claims"
    ),
]


@pytest.mark.parametrize(("made", "claims", "more", "lacking"), ENTERING)
def test_who_may_enter(made: Json, claims: list[str], more: Json, lacking: str) -> None:
    pods = [uses(f"p{i}", "g", name, **more) for i, name in enumerate(claims)]
    world = limited(made, *(claim(name, "gpu") for name in sorted(set(claims))), *pods)
    assert quota(world).admits(world.jobs["ns/g"]) == lacking


def test_who_was_let_in_counts_until_it_has_its_devices() -> None:
    objects = [claim(name, "gpu") for name in ("a", "b", "c")]
    waiting = [group("i", 1, "Inqueue"), uses("i0", "i", "a"), group("j", 1, "Pending"), uses("j0", "j", "b")]
    world = limited(*objects, *waiting, group("k", 1, "Pending"), uses("k0", "k", "c"))
    mine = quota(world)
    jobs = {name: world.jobs[f"ns/{name}"] for name in "ijk"}
    assert mine.admits(jobs["j"]) == ""
    mine.enqueued(jobs["j"])
    assert mine.admits(jobs["k"]) == "deviceclass/gpu"
    assert quota(world).admits(jobs["k"]) == "", "nobody else knows of it"


def test_only_what_names_devices_is_looked_at() -> None:
    world = limited(group("g", 0), limits={"deviceclass/gpu": "1k", "cpu": "1", "m.deviceclass/nic": "2"})
    assert limits_of(world.queues["q"]) == {"deviceclass/gpu": 1000, "m.deviceclass/nic": 2}
    assert not quota(limited(group("g", 0), limits={"cpu": "1"})).on


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_what_is_held_follows_places_given_and_taken(seed: int) -> None:
    """Whatever comes and goes, a queue holds the claims of the pods that have places, each once."""
    rng = random.Random(seed)
    sizes = {f"c{i}": (rng.choice(CLASSES), rng.randint(1, 3)) for i in range(4)}
    picks = {f"p{i}": rng.sample(sorted(sizes), rng.randint(1, 2)) for i in range(5)}
    objects = [claim(name, cls, count) for name, (cls, count) in sizes.items()]
    limits = {f"deviceclass/{cls}": str(rng.randint(1, 6)) for cls in CLASSES}
    world = limited(
        group("g", 0), *objects, *(uses(name, "g", *chosen) for name, chosen in picks.items()), limits=limits
    )
    mine, placed = quota(world), set[str]()
    for _ in range(12):
        name = rng.choice(sorted(picks))
        task = world.tasks[f"ns/{name}"]
        if name in placed:
            mine.shift((task,), -1)
            placed.remove(name)
            continue
        would = {one for pod in {*placed, name} for one in picks[pod]}
        amounts: Counter[str] = Counter()
        for one in would:
            amounts[sizes[one][0]] += sizes[one][1]
        asked = {sizes[one][0] for one in picks[name]}
        fits = all(amounts[cls] <= int(limits[f"deviceclass/{cls}"]) for cls in asked)
        assert mine.allows(world.queues["q"], task) == fits
        if fits:
            mine.shift((task,), 1)
            placed.add(name)
