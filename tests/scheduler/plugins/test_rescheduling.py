"""rescheduling: which pods leave busy nodes for idle ones, against the specification word by word."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.scheduler.cache.usage import NodeUsage
from strato.scheduler.cache.world import World
from strato.scheduler.plugins.rescheduling import Rescheduling
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
GIB = 1 << 30
CPUS, MEMORY = 10, 10
"""What each node has, in cpus and GiB."""
QOS = ("BestEffort", "Burstable", "Guaranteed")


class Cluster:
    """Random nodes with measured loads and random pods."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.low = {"cpu": rng.choice((30, 50)), "memory": rng.choice((30, 60))}
        self.target = {"cpu": rng.choice((50, 70)), "memory": rng.choice((60, 80))}
        names = [f"n{i}" for i in range(rng.randint(2, 5))]
        self.used = {name: (float(rng.randrange(0, 100, 5)), float(rng.randrange(0, 100, 5))) for name in names}
        self.unmeasured = {name for name in names if rng.random() < 0.1}
        self.cordoned = {name for name in names if rng.random() < 0.15}
        self.pods: dict[str, tuple[str, int | None, str, float, float]] = {}
        self.objects = [
            worlds.node(name, cpu=str(CPUS), memory=f"{MEMORY}Gi", unschedulable=name in self.cordoned)
            for name in names
        ]
        self.objects += [worlds.queue(), worlds.group("g", 0, phase="Running")]
        for number in range(rng.randint(1, 12)):
            self._pod(rng, f"p{number:02}", rng.choice(names))
        self.offered = sorted(name for name in self.pods if rng.random() < 0.9)

    def _pod(self, rng: random.Random, name: str, node: str) -> None:
        qos, own = rng.choice(QOS), rng.choice((None, 0, 1, 5))
        cpu, memory = (rng.randint(1, 3), rng.randint(1, 3)) if qos != "BestEffort" else (0, 0)
        more: Json = {} if own is None else {"priority": own}
        made = worlds.pod(
            name, "g", str(cpu) if cpu else "", f"{memory}Gi" if memory else "", phase="Running", nodeName=node, **more
        )
        if qos == "Guaranteed":
            resources = made["spec"]["containers"][0]["resources"]
            resources["limits"] = dict(resources["requests"])
        self.objects.append(made)
        self.pods[name] = (node, own, qos, cpu * 1000.0, memory * float(GIB))

    def world(self) -> World:
        world = worlds.world(*self.objects)
        usages = {}
        for name, (cpu, memory) in self.used.items():
            period = "5m" if name in self.unmeasured else "10m"
            usages[name] = NodeUsage({period: cpu}, {period: memory}, asking.NOW)
        world.usages.take(usages)
        return world

    def victims(self) -> list[str]:
        """Word by word (spec volcano-plugins 23)."""
        low_at, aim = tuple(self.low.values()), tuple(self.target.values())
        low, high = [], []
        for name, used in self.used.items():
            if name in self.unmeasured:
                continue
            if name not in self.cordoned and all(u < limit for u, limit in zip(used, low_at, strict=True)):
                low.append(name)
            elif any(u > limit for u, limit in zip(used, aim, strict=True)):
                high.append(name)
        if not low or not high:
            return []
        whole = (CPUS * 1000.0, MEMORY * float(GIB))
        budget = [sum((aim[d] - self.used[name][d]) / 100 * whole[d] for name in low) for d in (0, 1)]
        gone = []
        for name in sorted(high, key=lambda name: -sum(self.used[name])):
            holds = [self.used[name][d] / 100 * whole[d] for d in (0, 1)]
            mine = [
                (own is not None, own or 0, QOS.index(qos), pod)
                for pod, (at, own, qos, _, _) in self.pods.items()
                if at == name
            ]
            for _, _, _, pod in sorted(mine):
                if all(holds[d] < aim[d] / 100 * whole[d] for d in (0, 1)) or 0 in budget:
                    break
                if pod in self.offered:
                    gone.append(pod)
                    asked = self.pods[pod][3:]
                    budget = [budget[d] - asked[d] for d in (0, 1)]
                    holds = [holds[d] - asked[d] for d in (0, 1)]
        return gone


def opened(world: World, now: float, strategies: list[Json]) -> Rescheduling:
    arguments = {"interval": "1m", "metricsPeriod": "10m", "strategies": strategies}
    ssn = asking.session(world, {"name": "rescheduling", "arguments": arguments}, now=now)
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Rescheduling)]
    return plugin


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_same_pods_move_as_in_the_specification(seed: int) -> None:
    slow = Cluster(seed)
    world = slow.world()
    params = {"thresholds": slow.low, "targetThresholds": slow.target}
    strategies = [{"name": "lowNodeUtilization", "params": params}]
    opened(world, asking.NOW, strategies)
    plugin = opened(world, asking.NOW + 60, strategies)
    offered = [world.tasks[f"ns/{name}"] for name in slow.offered]
    assert asking.keys(plugin.victim_tasks(offered)) == slow.victims()


def test_once_an_interval() -> None:
    slow = next(cluster for cluster in map(Cluster, range(1000)) if cluster.victims())
    world, due = slow.world(), []
    strategies = [{"name": "lowNodeUtilization", "params": {"thresholds": slow.low, "targetThresholds": slow.target}}]
    for seconds in (0, 59, 60, 61, 119, 120):
        plugin = opened(world, asking.NOW + seconds, strategies)
        due.append(bool(plugin.victim_tasks(list(world.tasks.values()))))
    assert due == [False, False, True, False, False, True]


@pytest.mark.parametrize("metrics", [{}, {"cpu": 90.0}, {"memory": 90.0}], ids=["nothing", "cpu alone", "memory alone"])
def test_a_node_of_which_not_all_is_known_neither_gives_nor_takes(metrics: dict[str, float]) -> None:
    pod = worlds.pod("p", "g", phase="Running", nodeName="busy")
    world = worlds.world(worlds.node("busy"), worlds.node("idle"), worlds.queue(), worlds.group("g", 0), pod)
    known = [{"10m": metrics[name]} if name in metrics else {"5m": 90.0} for name in ("cpu", "memory")]
    idle = NodeUsage({"10m": 1.0}, {"10m": 1.0}, asking.NOW)
    world.usages.take({"busy": NodeUsage(*known, asking.NOW), "idle": idle, "gone": idle})
    params = {"thresholds": {"cpu": 50, "memory": 50}, "targetThresholds": {"cpu": 60, "memory": 60}}
    strategies = [{"name": "lowNodeUtilization", "params": params}]
    opened(world, asking.NOW, strategies)
    assert opened(world, asking.NOW + 60, strategies).victim_tasks(list(world.tasks.values())) == []


BAD: list[Any] = [
    pytest.param("all", [""], id="no list"),
    pytest.param(["lowNodeUtilization"], ["[0].name"], id="a word"),
    pytest.param([{"name": "lowNodeUtilization", "parms": {}}], ["[0].parms"], id="a misspelt key"),
    pytest.param([{"name": "lowNodeUtilization", "params": {"targetThreshold": {}}}], ["[0].params.targetThreshold"],
                 id="a misspelt parameter"),
]  # fmt: skip


@pytest.mark.parametrize(("strategies", "where"), BAD)
def test_bad_strategies_are_named(strategies: Any, where: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        asking.config({"name": "rescheduling", "arguments": {"strategies": strategies}})
    assert [p.where.partition("strategies")[2] for p in caught.value.problems] == where


def test_params_may_be_left_out() -> None:
    asking.config({"name": "rescheduling", "arguments": {"strategies": [{"name": "lowNodeUtilization"}]}})
