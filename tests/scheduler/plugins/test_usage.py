"""usage and rescheduling: measured load, expected load, and moving pods off busy nodes."""

from __future__ import annotations

from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.scheduler.cache.usage import NodeUsage
from strato.scheduler.cache.world import World
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

NOW = asking.NOW


def measured(world: World, **percents: tuple[float, float]) -> World:
    usages = {n: NodeUsage({"10m": cpu}, {"10m": memory}, NOW) for n, (cpu, memory) in percents.items()}
    world.usages.take(usages)
    return world


def small(*more: dict[str, Any]) -> World:
    nodes = [worlds.node(name, cpu="10", memory="10Gi") for name in ("idle", "busy", "dark")]
    return measured(worlds.world(*nodes, *more, worlds.pod("p")), idle=(30, 50), busy=(60, 50))


SCORES = [
    pytest.param({}, {"idle": 300.0, "busy": 225.0, "dark": 0.0}, id="equal weights"),
    pytest.param({"cpu.weight": 3}, {"idle": 325.0, "busy": 212.5, "dark": 0.0}, id="cpu counts three times"),
    pytest.param({"usage.weight": 1, "memory.weight": 0}, {"idle": 70.0, "busy": 40.0, "dark": 0.0}, id="cpu only"),
    pytest.param(
        {"cpu.weight": -7}, {"idle": 300.0, "busy": 225.0, "dark": 0.0}, id="a negative weight is the default"
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), SCORES)
def test_scores(arguments: dict[str, Any], expected: dict[str, float]) -> None:
    ssn = asking.session(small(), {"name": "usage", "arguments": arguments})
    assert asking.scores(ssn, "p") == pytest.approx(expected)


def test_old_metrics_count_nothing() -> None:
    ssn = asking.session(small(), {"name": "usage", "arguments": {"thresholds": {"cpu": 1}}}, now=NOW + 301)
    assert set(asking.scores(ssn, "p").values()) == {0.0}
    assert asking.refusals(ssn, "p") == {}


CPU, MEMORY = (
    "the CPU load of the node exceeds the upper limit.",
    "the memory load of the node exceeds the upper limit.",
)
LIMITS = [
    pytest.param({}, {}, id="below both"),
    pytest.param({"cpu": 59}, {"busy": (CPU, False)}, id="cpu"),
    pytest.param({"cpu": 60}, {}, id="exactly at the limit"),
    pytest.param({"mem": 49, "cpu": 59}, {"busy": (CPU, False), "idle": (MEMORY, False)}, id="cpu is named first"),
    pytest.param({"cpu": 101}, {}, id="out of range is the default"),
]


@pytest.mark.parametrize(("thresholds", "refused"), LIMITS)
def test_thresholds(thresholds: dict[str, int], refused: dict[str, Any]) -> None:
    ssn = asking.session(small(), {"name": "usage", "arguments": {"thresholds": thresholds}})
    assert asking.refusals(ssn, "p") == refused


def recent(name: str, seconds: float, cpu: str = "2", limit: str = "", **more: Any) -> dict[str, Any]:
    made = worlds.pod(name, cpu=cpu, memory=more.pop("memory", ""), phase="Running", nodeName="idle")
    made["status"]["startTime"] = f"2023-11-14T22:{13 - int(seconds // 60):02}:{20 - int(seconds % 60):02}Z"
    if limit:
        made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": limit}
    return made


EXPECTED = [  # arguments, pods, expected free part of idle's cpu
    pytest.param({}, [recent("r", 10)], 0.7 - 0.14, id="a recent pod uses seven tenths of its request"),
    pytest.param({}, [recent("r", 60)], 0.7, id="an older one is in the metrics"),
    pytest.param({"burst_ratio": 0.5}, [recent("r", 10, limit="4")], 0.7 - 0.24, id="and half of its burst"),
    pytest.param({}, [recent("r", 10, cpu="")], 0.7 - 0.025, id="a best-effort pod 250m"),
    pytest.param({"be_cpu": "1"}, [recent("r", 10, cpu="")], 0.7 - 0.1, id="or what is configured"),
    pytest.param({"risk_threshold": 0.3}, [recent("r", 10)], 0.7 - 0.168, id="more on a loaded node"),
    pytest.param(
        {"risk_threshold": 0.0, "risk_factor": 9.0}, [recent("r", 10)], 0.7 - 0.2, id="but never more than its request"
    ),
    pytest.param(
        {"risk_threshold": 0.45}, [recent("a", 10), recent("b", 10)], 0.7 - 0.14 - 0.168, id="one pod loads the next"
    ),
]


@pytest.mark.parametrize(("estimator", "pods", "free"), EXPECTED)
def test_what_recent_pods_will_use(estimator: dict[str, Any], pods: list[dict[str, Any]], free: float) -> None:
    arguments = {"estimator": estimator, "memory.weight": 1, "usage.weight": 1}
    ssn = asking.session(small(*pods), {"name": "usage", "arguments": {**arguments}})
    best_effort_memory = 200 / 10240 if not pods[0]["spec"]["containers"][0]["resources"]["requests"] else 0.0
    assert asking.scores(ssn, "p")["idle"] == pytest.approx(50 * free + 50 * (0.5 - best_effort_memory))


def test_a_placed_pod_is_expected_at_once_and_not_after_it_was_removed() -> None:
    ssn = asking.session(small(), {"name": "usage", "arguments": {"memory.weight": 0, "usage.weight": 1}})
    assert asking.scores(ssn, "p")["idle"] == 70.0
    asking.place(ssn, "p", "idle")
    assert asking.scores(ssn, "p")["idle"] == pytest.approx(63.0)
    ssn.fire_removed((asking.task(ssn, "p"),))
    assert asking.scores(ssn, "p")["idle"] == pytest.approx(70.0)


def test_the_shadow_kept_between_sessions_equals_one_from_scratch() -> None:
    world, placer = small(recent("r", 10)), Placer(small().nodes)
    plugin = {"name": "usage", "arguments": {"estimator": {"risk_threshold": 0.3}}}
    placer = Placer(world.nodes)
    first = asking.session(world, plugin, placer=placer)
    asking.scores(first, "p")
    worlds.feed(world, recent("s", 5), worlds.pod("q", cpu="1", phase="Running", nodeName="busy"))
    world.remove_pod("ns/r")
    kept = asking.scores(asking.session(world, plugin, placer=placer), "p")
    world.plugin_state.clear()
    assert asking.scores(asking.session(world, plugin), "p") == kept


MANY = {"thresholds": {"cpu": 40, "memory": 60}, "targetThresholds": {"cpu": 55, "memory": 75}}
PERIOD = {"interval": "1m", "metricsPeriod": "10m"}


def crowded() -> World:
    pods = [worlds.pod(f"r{i}", "g", phase="Running", nodeName="busy", priority=i) for i in range(4)]
    pods.append(worlds.pod("old", "g", phase="Running", nodeName="busy"))
    world = small(worlds.queue(), worlds.group("g", 0), *pods)
    return measured(world, busy=(75, 50), idle=(30, 50))


MOVES = [
    pytest.param({**PERIOD, "strategies": [{"name": "lowNodeUtilization", "params": MANY}]}, ["old", "r0", "r1"],
                 id="until no target is reached, pods without priority first"),
    pytest.param({"interval": "1m", "strategies": [{"name": "lowNodeUtilization", "params": MANY}]}, [],
                 id="without averages of the period nothing moves"),
    pytest.param({**PERIOD}, [], id="by default every node is idle"),
    pytest.param(
        {**PERIOD, "strategies": [{"name": "lowNodeUtilization",
                                   "params": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}}]},
        [], id="nowhere to go"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "moved"), MOVES)
def test_rescheduling(arguments: dict[str, Any], moved: list[str]) -> None:
    world = crowded()
    config = asking.config({"name": "rescheduling", "arguments": arguments}, actions="shuffle")
    assert worlds.cycle(world, config, now=NOW).evictions == []
    assert worlds.cycle(world, config, now=NOW + 59).evictions == []
    assert [e.task.name for e in worlds.cycle(world, config, now=NOW + 60).evictions] == moved


def test_bad_strategies_are_listed() -> None:
    bad = {"strategies": [{"name": "other"}, {"name": "lowNodeUtilization", "params": {"thresholds": {"gpu": 1}}}]}
    with pytest.raises(InvalidInput) as caught:
        asking.config({"name": "rescheduling", "arguments": {**bad, "interval": "often"}})
    assert [p.where.partition("arguments.")[2] for p in caught.value.problems] == [
        "strategies[0].name",
        "strategies[1].params.thresholds.gpu",
        "interval",
    ]
