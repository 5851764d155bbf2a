"""EASY backfilling: who may pass a blocked gang, and that the gang starts when it was foreseen."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.clock import format_time
from strato.scheduler.cache.runtimes import EXPECTED
from strato.scheduler.dryrun.run import settle
from tests.scheduler import worlds

Json = dict[str, Any]
NOW = 1_700_000_000.0

EASY = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: easy}, {name: predicates}]
"""
PLAIN = EASY.replace("{name: easy}, ", "")
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}


def lasting(seconds: float | None) -> Json:
    return {"annotations": {EXPECTED: str(seconds)}} if seconds is not None else {}


def running(name: str, on: str, cpu: int, ends_in: float | None) -> Json:
    obj = worlds.pod(name, cpu=str(cpu), memory="", phase="Running", nodeName=on, **lasting(ends_in))
    obj["status"]["startTime"] = format_time(NOW)
    return obj


def job(name: str, size: int, cpu: int, seconds: float | None = None, **more: Any) -> list[Json]:
    pods = [worlds.pod(f"{name}-{i}", name, cpu=str(cpu), memory="", **lasting(seconds)) for i in range(size)]
    return [worlds.group(name, size, **more), *pods]


@dataclass(frozen=True)
class Case:
    id: str
    small: list[Json]
    starts: bool
    holder_ends_in: float | None = 100.0


CASES = [
    Case("a job that ends before the blocked one can start passes", job("small", 1, 1, 60), True),
    Case("a job that would delay the blocked one waits", job("small", 1, 1, 200), False),
    Case("a job of unknown length waits", job("small", 1, 1), False),
    Case("nothing is kept when the room cannot be foreseen", job("small", 1, 1), True, holder_ends_in=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_who_passes_a_blocked_gang(case: Case) -> None:
    """One node of 4 cpus: 2 are held, the gang wants all 4, a small job wants 1."""
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="4"), running("held", "n", 2, case.holder_ends_in)]
    world = worlds.world(*objects, *job("large", 2, 2, priorityClassName="high"), *case.small)
    plan = worlds.cycle(world, EASY, now=NOW)
    assert ("ns/small-0" in worlds.binds(plan)) == case.starts
    if not case.starts:
        message = next(verdict.message for verdict in plan.pods if verdict.task.key == "ns/small-0")
        assert "1 node(s) kept for ns/large" in message


def test_pods_that_wait_for_a_gate_need_no_room_yet() -> None:
    """A gang of 2 + 2 cpus of which room is kept for; its third pod could never be placed beside them."""
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="4"), running("held", "n", 2, 100)]
    large = job("large", 2, 2, priorityClassName="high")
    gated = worlds.pod("aside", "large", cpu="4", memory="", schedulingGates=[{"name": "x"}])
    world = worlds.world(*objects, *large, gated, *job("small", 1, 1))
    assert worlds.binds(worlds.cycle(world, EASY, now=NOW)) == {}


def test_without_the_plugin_the_small_job_delays_the_large_one() -> None:
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="4"), running("held", "n", 2, 100)]
    world = worlds.world(*objects, *job("large", 2, 2, priorityClassName="high"), *job("small", 1, 1, 200))
    assert "ns/small-0" in worlds.binds(worlds.cycle(world, PLAIN, now=NOW))


def test_long_job_passes_in_room_that_is_spare_even_then() -> None:
    nodes = [worlds.node("n", cpu="4"), worlds.node("m", cpu="1")]
    objects = [HIGH, worlds.queue(), *nodes, running("held", "n", 2, 100)]
    world = worlds.world(*objects, *job("large", 2, 2, priorityClassName="high"), *job("a", 1, 1), *job("b", 1, 1))
    assert worlds.binds(worlds.cycle(world, EASY, now=NOW)) in ({"ns/a-0": "m"}, {"ns/b-0": "m"})


def test_what_ends_together_is_spare_together() -> None:
    """Two pods end at the same moment; the gang of 3 needs the room of one, a long job may have that of the other."""
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="5"), running("a", "n", 2, 100), running("b", "n", 2, 100)]
    world = worlds.world(*objects, *job("large", 1, 3, priorityClassName="high"), *job("small", 1, 1))
    assert worlds.binds(worlds.cycle(world, EASY, now=NOW)) == {"ns/small-0": "n"}


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_room_is_kept_where_nothing_is_idle_now(names: str) -> None:
    """One node is idle, one will be; the blocked gang wants one of each kind and leaves as much idle as it can."""
    full, idle = names
    nodes = [worlds.node("a", cpu="4"), worlds.node("b", cpu="4")]
    objects = [HIGH, worlds.queue(), *nodes, running("x", full, 2, 100), running("y", full, 2, 100)]
    objects += [running("z", idle, 2, 900)]
    large = job("large", 4, 1, priorityClassName="high")
    world = worlds.world(*objects, *large, *job("small", 1, 1), *job("other", 1, 1))
    placed = worlds.binds(worlds.cycle(world, EASY, now=NOW))
    assert placed == {"ns/small-0": idle, "ns/other-0": idle}


@pytest.mark.parametrize(
    ("most", "passes"), [pytest.param(8, False, id="each queue"), pytest.param(1, True, id="one, if so limited")]
)
def test_room_is_kept_for_the_first_blocked_job_of_each_queue(most: int, passes: bool) -> None:
    """Two queues, each with a gang that waits for its own node; a long job of a third fits beside neither."""
    nodes = [worlds.node(name, cpu="4", labels={"for": name}) for name in ("a", "b")]
    objects = [HIGH, *nodes, *[running(f"held-{n}", n, 2, 100) for n in ("a", "b")]]
    objects += [worlds.queue(name) for name in ("qa", "qb", "qc")]
    for name in ("a", "b"):
        gang = job(f"large-{name}", 2, 2, priorityClassName="high", queue=f"q{name}")
        for pod in gang[1:]:
            pod["spec"]["nodeSelector"] = {"for": name}
        objects += gang
    objects += job("small", 1, 1, 200, queue="qc")
    config = EASY.replace("{name: easy}", f"{{name: easy, arguments: {{easy.maxReservations: {most}}}}}")
    plan = worlds.cycle(worlds.world(*objects), config, now=NOW)
    assert worlds.binds(plan) == ({"ns/small-0": "b"} if passes else {})


def test_a_later_room_is_not_taken_from_an_earlier_one() -> None:
    """One node of 4: the gang of the first queue wants all, that of the second 2, foreseeable only beside the first."""
    objects = [worlds.node("n", cpu="4"), running("held", "n", 2, 100), worlds.queue("qa"), worlds.queue("qb")]
    objects += [
        *job("first", 2, 2, queue="qa"),
        *job("second", 3, 1, 50, queue="qb"),
        *job("third", 1, 2, 50, queue="qb"),
    ]
    assert worlds.binds(worlds.cycle(worlds.world(*objects), EASY, now=NOW)) == {"ns/third-0": "n"}


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        pytest.param({"activeDeadlineSeconds": 60}, True, id="a deadline is an estimate"),
        pytest.param({"activeDeadlineSeconds": 600}, False, id="a long deadline is one too"),
        pytest.param({"activeDeadlineSeconds": 600, **lasting(60)}, True, id="the pod's own word counts first"),
        pytest.param(lasting("soon"), False, id="what is no number counts for nothing"),  # type: ignore[arg-type]  # values of a table
    ],
)
def test_estimates(more: Json, starts: bool) -> None:
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="4"), running("held", "n", 2, 100)]
    small = [worlds.group("small", 1), worlds.pod("small-0", "small", memory="", **more)]
    world = worlds.world(*objects, *job("large", 2, 2, priorityClassName="high"), *small)
    assert ("ns/small-0" in worlds.binds(worlds.cycle(world, EASY, now=NOW))) == starts


def test_pods_of_one_kind_are_expected_to_run_as_long_as_they_did() -> None:
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="4"), running("held", "n", 2, 100)]
    world = worlds.world(*objects, worlds.pod("old", memory="", phase="Running", nodeName="n"))
    worlds.cycle(world, EASY, now=NOW)  # the plugin is there: runs are noted from now on
    ended = worlds.pod("old", memory="", phase="Succeeded", nodeName="n")
    state = {"terminated": {"finishedAt": format_time(NOW + 50)}}
    ended["status"] |= {"startTime": format_time(NOW), "containerStatuses": [{"name": "main", "state": state}]}
    worlds.feed(world, ended)
    worlds.feed(world, *job("large", 2, 2, priorityClassName="high"), *job("small", 1, 1))
    assert "ns/small-0" in worlds.binds(worlds.cycle(world, EASY, now=NOW))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_blocked_gang_starts_no_later_than_it_would_alone(seed: int) -> None:
    """Against a world without the small jobs, when every pod runs exactly as long as it said."""
    rng = random.Random(seed)
    nodes = [worlds.node(f"n{i}", cpu=str(rng.randint(2, 4))) for i in range(rng.randint(1, 3))]
    held = [
        running(
            f"h{i}",
            n["metadata"]["name"],
            rng.randint(1, int(n["status"]["allocatable"]["cpu"])),
            rng.randint(1, 9) * 10.0,
        )
        for i, n in enumerate(nodes)
    ]
    large = job("large", rng.randint(1, 3), rng.randint(1, 2), 50.0, priorityClassName="high")
    small = [o for i in range(4) for o in job(f"s{i}", 1, 1, rng.randint(1, 12) * 10.0)]
    alone = start_of_large([HIGH, worlds.queue(), *nodes, *held, *large])
    among = start_of_large([HIGH, worlds.queue(), *nodes, *held, *large, *small])
    assert among == alone


def start_of_large(objects: list[Json]) -> float | None:
    """Play the world: pods end when they said they would. Return when the large job starts; None when it never does."""
    world = worlds.world(*objects)
    ends = {t.key: float(t.pod.metadata.annotation(EXPECTED)) for t in world.tasks.values() if t.row >= 0}
    for step in range(40):
        for key in [key for key, end in ends.items() if end <= step * 10.0]:
            world.remove_pod(key)
            del ends[key]
        plan = worlds.cycle(world, EASY, now=NOW + step * 10.0)
        settle(plan, world)
        for bind in plan.binds:
            task = bind.task
            ends[task.key] = step * 10.0 + float(task.pod.metadata.annotation(EXPECTED))
            worlds.feed(world, _running(task, bind.node, NOW + step * 10.0))
        if any(bind.task.name.startswith("large") for bind in plan.binds):
            return step * 10.0
    return None


def _running(task: Any, node: str, at: float) -> Json:
    cpu = str(int(task.cls.request[0]) // 1000)
    seconds = float(task.pod.metadata.annotation(EXPECTED))
    obj = worlds.pod(task.name, task.job.name, cpu=cpu, memory="", phase="Running", nodeName=node, **lasting(seconds))
    obj["status"]["startTime"] = format_time(at)
    return obj
