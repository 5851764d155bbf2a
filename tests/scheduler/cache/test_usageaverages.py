"""Fairness with memory: who had less lately comes first, and it fades."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.scheduler.cache.usageaverages import UsageAverages, boost
from tests.scheduler import worlds

Json = dict[str, Any]
HOUR = 3600.0


def config(share: str, argument: str = "usageHalfLifeSeconds: 3600") -> str:
    return f"""
actions: "allocate"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: {share}, arguments: {{{argument}}}}}]
"""


def test_average_follows_what_is_held() -> None:
    memory = UsageAverages()
    memory.advance(0.0, HOUR, {"a": np.array([100])})
    memory.advance(HOUR, HOUR, {"a": np.array([0])})
    assert memory.of("a", 1)[0] == pytest.approx(50)
    memory.advance(2 * HOUR, HOUR, {})
    assert memory.of("a", 1)[0] == pytest.approx(25)
    memory.advance(20 * HOUR, HOUR, {})
    assert memory.of("a", 1)[0] == 0.0


@given(cuts=st.lists(st.floats(1.0, 5000.0), min_size=1, max_size=8))
def test_average_does_not_depend_on_how_often_it_is_looked_at(cuts: list[float]) -> None:
    often, seldom = UsageAverages(), UsageAverages()
    for memory in (often, seldom):
        memory.advance(0.0, HOUR, {"a": np.array([1000])})
    now = 0.0
    for cut in cuts:
        now += cut
        often.advance(now, HOUR, {"a": np.array([1000])})
    seldom.advance(now, HOUR, {"a": np.array([1000])})
    assert often.of("a", 1)[0] == pytest.approx(seldom.of("a", 1)[0])


@pytest.mark.parametrize(
    ("past", "entitled", "want"),
    [
        pytest.param(0.5, 0.5, 1.0, id="who got what was due weighs the same"),
        pytest.param(0.0, 0.5, 2.0, id="who got nothing weighs twice"),
        pytest.param(1.0, 0.5, 0.5, id="who got twice as much weighs half"),
        pytest.param(1.0, 0.1, 0.125, id="nobody is forgotten"),
    ],
)
def test_boost(past: float, entitled: float, want: float) -> None:
    assert boost(past, entitled) == want


def busy(name: str, count: int, queue: str, namespace: str = "ns", **more: Any) -> list[Json]:
    pods = [worlds.pod(f"{name}-{i}", name, namespace=namespace, memory="", **more) for i in range(count)]
    return [worlds.group(name, 0, namespace=namespace, queue=queue), *pods]


def after_a_days_use(share: str, argument: str = "usageHalfLifeSeconds: 3600") -> dict[str, int]:
    """One queue holds the cluster for a day; then it is empty and both want all of it. Return who gets how much."""
    held = [o for i in range(8) for o in [worlds.pod(f"old-{i}", "old", memory="", phase="Running", nodeName="n")]]
    queues = [worlds.queue(name, deserved={"cpu": "6"}) for name in ("a", "b")]
    world = worlds.world(*queues, worlds.node("n", cpu="8"), worlds.group("old", 0, queue="a"), *held)
    chosen = config(share, argument)
    worlds.cycle(world, chosen, now=0.0)
    worlds.cycle(world, chosen, now=24 * HOUR)
    for i in range(8):
        world.remove_pod(f"ns/old-{i}")
    worlds.feed(world, *busy("ja", 8, "a"), *busy("jb", 8, "b"))
    worlds.cycle(world, chosen, now=24 * HOUR + 1)
    jobs = {name: world.jobs[f"ns/{name}"] for name in ("ja", "jb")}
    return {name: int(job.used[0]) // 1000 for name, job in jobs.items()}


@pytest.mark.parametrize(
    ("share", "argument", "want"),
    [
        pytest.param("proportion", "usageHalfLifeSeconds: 0", {"ja": 4, "jb": 4}, id="proportion forgets"),
        pytest.param("proportion", "usageHalfLifeSeconds: 3600", {"ja": 1, "jb": 6}, id="proportion remembers"),
        pytest.param("capacity", "usageHalfLifeSeconds: 0", {"ja": 4, "jb": 4}, id="capacity forgets"),
        pytest.param("capacity", "usageHalfLifeSeconds: 3600", {"ja": 2, "jb": 6}, id="capacity remembers"),
    ],
)
def test_queue_that_had_the_cluster_yesterday_yields_today(share: str, argument: str, want: dict[str, int]) -> None:
    assert after_a_days_use(share, argument) == want


@pytest.mark.parametrize(
    ("argument", "want"),
    [
        pytest.param("usageHalfLifeSeconds: 0", "a-new/first", id="without memory the first comes first"),
        pytest.param("usageHalfLifeSeconds: 3600", "b-new/second", id="with memory the namespace that had less"),
    ],
)
def test_drf_remembers_namespaces(argument: str, want: str) -> None:
    chosen = config("drf", argument)
    held = worlds.pod("old", "old", namespace="a-new", phase="Running", nodeName="n")
    objects = [worlds.queue(), worlds.node("n", cpu="1"), worlds.group("old", 0, namespace="a-new"), held]
    world = worlds.world(*objects)
    worlds.cycle(world, chosen, now=0.0)
    worlds.cycle(world, chosen, now=5 * HOUR)
    world.remove_pod("a-new/old")
    worlds.feed(world, *busy("first", 1, "default", "a-new"), *busy("second", 1, "default", "b-new"))
    plan = worlds.cycle(world, chosen, now=5 * HOUR + 1)
    assert [bind.task.job.key for bind in plan.binds if bind.task.job is not None] == [want]
