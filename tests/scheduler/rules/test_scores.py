"""Exact scores, computed by hand from the formulas (spec volcano-plugins 13 to 15 and kube-scheduler's own)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins.asking import scores, session
from tests.scheduler.rules.deciding import NOTHING, running
from tests.scheduler.worlds import group, node, pod, queue

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
MIB = 1 << 20
_OFF = {
    f"{name}.weight": 0
    for name in (
        "leastrequested mostrequested nodeaffinity podaffinity balancedresource tainttoleration imagelocality"
        " podtopologyspread"
    ).split()
}


def order(**weights: int) -> Json:
    """Return nodeorder with nothing but some scores switched on."""
    return {"name": "nodeorder", "arguments": _OFF | {f"{name}.weight": weight for name, weight in weights.items()}}


def binpack(**given: Any) -> Json:
    return {"name": "binpack", "arguments": {f"binpack.{key}": value for key, value in given.items()}}


def strategy(**given: Any) -> Json:
    return {"name": "resource-strategy-fit", "arguments": given}


def asked(plugin: Json, *objects: Json) -> dict[str, float]:
    """Return the scores of pod ``a`` by node."""
    more = (queue(), group("g", 1), group("r", 0, phase="Running"))
    return scores(session(worlds.world(*objects, *more), plugin), "a")


def gained(before: tuple[float, ...], after: tuple[float, ...]) -> int:
    """Return Kubernetes' points for what a pod does to the balance of a node."""
    return 50 + (50 + balance(*after) - balance(*before)) // 2


def balance(*parts: float) -> int:
    """Return Kubernetes' balance of the fractions in use."""
    if len(parts) == 2:
        return int((1 - abs(parts[0] - parts[1]) / 2) * 100)
    mean = math.fsum(parts) / len(parts)
    return int((1 - math.sqrt(math.fsum((p - mean) ** 2 for p in parts) / len(parts))) * 100)


# n1 holds 1 cpu and 1Gi of 4 and 8Gi, n2 nothing of 8 and 8Gi; the pod asks for 1 cpu and 2Gi
TWO = (
    node("n1", cpu="4", memory="8Gi"),
    node("n2", cpu="8", memory="8Gi"),
    running("r1", "r"),
    pod("a", "g", cpu="1", memory="2Gi"),
)
# the same pods without requests: each counts as 100m and 200Mi where scores are about room
IDLE = (*TWO[:2], running("r1", "r", **NOTHING), pod("a", "g", **NOTHING))
CARDS = (node("n1", **{GPU: "4"}), node("n2"), running("r1", "r", resources={GPU: "2"}))

RESOURCES = [
    pytest.param(order(leastrequested=1), TWO, {"n1": (50 + 62) // 2, "n2": (87 + 75) // 2}, id="least requested"),
    pytest.param(order(leastrequested=3), TWO, {"n1": 168, "n2": 243}, id="weights multiply whole points"),
    pytest.param(order(mostrequested=1), TWO, {"n1": (50 + 37) // 2, "n2": (12 + 25) // 2}, id="most requested"),
    pytest.param(
        order(leastrequested=1), IDLE, {"n1": (95 + 95) // 2, "n2": (98 + 97) // 2}, id="empty requests have defaults"
    ),
    pytest.param(
        order(balancedresource=1),
        TWO,
        {"n1": gained((1 / 4, 1 / 8), (2 / 4, 3 / 8)), "n2": gained((0, 0), (1 / 8, 2 / 8))},
        id="balance counts by what the pod does to it",
    ),
    pytest.param(
        order(balancedresource=1),
        (
            node("n1", cpu="4", memory="4Gi"),
            node("n2", cpu="4", memory="4Gi"),
            running("r1", "r", cpu="2", memory="1Gi"),
            pod("a", "g", cpu="1", memory="2Gi"),
        ),
        {"n1": 50 + (50 + 100 - 87) // 2, "n2": 50 + (50 + 87 - 100) // 2},
        id="a node that a pod brings into balance is better than one that it brings out of balance",
    ),
    pytest.param(order(balancedresource=1), IDLE, {"n1": 0, "n2": 0}, id="a pod that requests nothing has no balance"),
    pytest.param(
        order(balancedresource=1),
        (*CARDS, pod("a", "g", cpu="1", memory="1Gi")),
        {"n1": gained((1 / 4, 1 / 8), (2 / 4, 2 / 8)), "n2": gained((0, 0), (1 / 4, 1 / 8))},
        id="GPUs that a pod does not ask for do not count towards balance",
    ),
    pytest.param(
        order(balancedresource=1),
        (CARDS[0], CARDS[2], pod("a", "g", cpu="1", memory="1Gi", resources={GPU: "1"})),
        {"n1": gained((1 / 4, 1 / 8, 2 / 4), (2 / 4, 2 / 8, 3 / 4))},
        id="GPUs that a pod asks for do",
    ),
    pytest.param(binpack(), TWO, {"n1": 100 * (2 / 4 + 3 / 8) / 2, "n2": 100 * (1 / 8 + 2 / 8) / 2}, id="binpack"),
    pytest.param(
        binpack(weight=10, cpu=5),
        TWO,
        {"n1": 1000 * (5 * 2 / 4 + 3 / 8) / 6, "n2": 1000 * (5 / 8 + 2 / 8) / 6},
        id="binpack with weights",
    ),
    pytest.param(binpack(cpu=-3, memory=-1), TWO, {"n1": 43.75, "n2": 18.75}, id="negative weights of binpack are 1"),
    pytest.param(binpack(cpu=0), TWO, {"n1": 37.5, "n2": 25.0}, id="binpack without cpu"),
    pytest.param(
        binpack(cpu=0),
        (node("n1", cpu="1"), running("r1", "r"), pod("a", "g", memory="3Gi")),
        {"n1": 50.0},
        id="what binpack gives no weight cannot overflow",
    ),
    pytest.param(
        binpack(memory=0, cpu=1),
        (node("n1", cpu="1"), running("r1", "r"), pod("a", "g", memory="3Gi")),
        {"n1": 0.0},
        id="what it gives a weight can",
    ),
    pytest.param(
        {"name": "binpack", "arguments": {"binpack.resources": f"{GPU}, cpu", f"binpack.resources.{GPU}": 2}},
        (*CARDS[:2], pod("a", "g", memory="2Gi", resources={GPU: "1"})),
        {"n1": 100 * (1 / 4 + 2 / 8 + 2 * 1 / 4) / 4, "n2": 100 * (1 / 4 + 2 / 8) / 4},
        id="a listed resource that a node lacks counts with nothing, and cpu only once",
    ),
    pytest.param(strategy(), TWO, {"n1": 1000 * (2 / 4 + 5 / 8) / 2, "n2": 1000 * (7 / 8 + 6 / 8) / 2}, id="spread"),
    pytest.param(
        strategy(
            resourceStrategyFitWeight=1, resources={"nvidia.com/*": {"type": "MostAllocated", "weight": 2}, "cpu": {}}
        ),
        (*CARDS[:2], pod("a", "g", resources={GPU: "1"})),
        {"n1": 100 * (2 * 1 / 4 + 3 / 4) / 3, "n2": 100 * (3 / 4) / 3},
        id="resource strategies by prefix",
    ),
]


@pytest.mark.parametrize(("plugin", "objects", "expected"), RESOURCES)
def test_by_resources(plugin: Json, objects: tuple[Json, ...], expected: dict[str, float]) -> None:
    assert asked(plugin, *objects) == {name: round(points, 6) for name, points in expected.items()}


def preference(weight: int, key: str, value: str) -> Json:
    return {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}


def wish(side: str, **selector: str) -> Json:
    term = {"labelSelector": {"matchLabels": selector}, "topologyKey": "kubernetes.io/hostname"}
    return {side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}}


def has_image(name: str, size: int) -> Json:
    made = node(name)
    made["status"]["images"] = [{"names": ["img:latest"], "sizeBytes": size}]
    return made


def soft(*keys: str) -> list[Json]:
    return [{"key": key, "effect": "PreferNoSchedule"} for key in keys]


def with_image() -> Json:
    made = pod("a", "g")
    made["spec"]["containers"][0]["image"] = "img"
    return made


PLACES = (node("n1", labels={"z": "a", "d": "ssd"}), node("n2", labels={"z": "a"}), node("n3"))
TAINTED = (node("n1", taints=soft("a", "b")), node("n2", taints=soft("a")), node("n3"))
THERE = tuple(running(f"r{i}", "r", at, labels={"x": "y"}) for i, at in enumerate(("n1", "n1", "n2")))
PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preference(10, "z", "a"), preference(30, "d", "ssd")]
    }
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"x": "y"}},
}
_COUNTED = [round(count * math.log(3 + 2)) for count in (2, 1, 0)]
HALF_IMAGE = 100 * (250 * MIB - 23 * MIB) // (1000 * MIB - 23 * MIB)

PREFERENCES = [
    pytest.param(
        order(nodeaffinity=2), (*PLACES, pod("a", "g", affinity=PREFERS)), (200, 50, 0), id="preferred node affinity"
    ),
    pytest.param(order(tainttoleration=3), (*TAINTED, pod("a", "g")), (0, 150, 300), id="soft taints"),
    pytest.param(
        order(tainttoleration=3),
        (*TAINTED, pod("a", "g", tolerations=[{"key": "b", "operator": "Exists"}])),
        (0, 0, 300),
        id="a toleration without effect tolerates soft taints",
    ),
    pytest.param(
        order(tainttoleration=3),
        (*TAINTED, pod("a", "g", tolerations=[{"key": "b", "operator": "Exists", "effect": "NoSchedule"}])),
        (0, 150, 300),
        id="a toleration of hard taints does not",
    ),
    pytest.param(
        order(imagelocality=1),
        (has_image("n1", 500 * MIB), node("n2"), with_image()),
        (HALF_IMAGE, 0),
        id="an image counts by the part of the nodes that have it",
    ),
    pytest.param(
        order(podaffinity=2), (*PLACES, *THERE, pod("a", "g", affinity=wish("podAffinity", x="y"))), (200, 100, 0),
        id="near pods one wants to be near to",
    ),
    pytest.param(
        order(podaffinity=2), (*PLACES, *THERE, pod("a", "g", affinity=wish("podAntiAffinity", x="y"))), (0, 100, 200),
        id="far from pods one wants to be far from",
    ),
    pytest.param(
        order(podtopologyspread=2),
        (*PLACES, *THERE, pod("a", "g", labels={"x": "y"}, topologySpreadConstraints=[SPREAD])),
        tuple(2 * (100 * (max(_COUNTED) + min(_COUNTED) - n) // max(_COUNTED)) for n in _COUNTED),
        id="soft spread",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "objects", "expected"), PREFERENCES)
def test_by_preferences(plugin: Json, objects: tuple[Json, ...], expected: tuple[float, ...]) -> None:
    assert asked(plugin, *objects) == {f"n{i}": points for i, points in enumerate(expected, 1)}
