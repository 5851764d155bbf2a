"""Queues in trees: how capacity orders and limits them, and when hierarchical drf calls a queue saturated."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from strato.scheduler.cache.world import World
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

TREE: dict[str, Any] = {"name": "capacity", "enableHierarchy": True}


def leaf(name: str, parent: str, held: int = 0, deserved: str = "4", **spec: Any) -> list[dict[str, Any]]:
    """A queue with a job that holds some cpus and waits for one."""
    objects = [worlds.queue(name, parent=parent, deserved={"cpu": deserved, "memory": "100Gi"}, **spec)]
    objects.append(worlds.group(name, 0, queue=name, phase="Running"))
    objects += [worlds.pod(f"{name}-{i}", name, phase="Running", nodeName="n") for i in range(held)]
    return [*objects, worlds.pod(f"{name}-next", name)]


def tree(*objects: dict[str, Any], gpu: str = "") -> World:
    """A world whose inner queues are p and q, below the root."""
    more = {"nvidia.com/gpu": gpu} if gpu else {}
    inner = [worlds.queue("root"), worlds.queue("p", parent="root"), worlds.queue("q", parent="root")]
    for queue in inner[1:]:
        queue["spec"]["deserved"] = {"cpu": "8", "memory": "100Gi"}
    return worlds.world(worlds.node("n", cpu="32", memory="64Gi", **more), *inner, *objects)


ORDERS = [
    pytest.param(
        [*leaf("z", "root"), *leaf("a", "p")],
        ["a", "z"],
        id="a queue below another and one beside that rank the same: by name",
    ),
    pytest.param(
        [*leaf("z", "p"), *leaf("a", "q", held=1), *leaf("b", "p", held=1)],
        ["a", "z", "b"],
        id="equal parents decide nothing, and what is below them is not compared",
    ),
    pytest.param(
        [*leaf("x", "p", held=1), *leaf("y", "p", held=3), *leaf("w", "q", held=2)],
        ["w", "x", "y"],
        id="the parents decide before the queues do",
    ),
    pytest.param(
        [*leaf("x", "p", held=1), *leaf("y", "p", held=3, priority=5)],
        ["y", "x"],
        id="priority comes before everything",
    ),
]


@pytest.mark.parametrize(("objects", "expected"), ORDERS)
def test_order_of_queues_in_a_tree(objects: list[dict[str, Any]], expected: list[str]) -> None:
    ssn = asking.session(tree(*objects), TREE)
    queues = {name: ssn.world.queues[name] for name in expected}

    def before(left: str, right: str) -> bool:
        return bool(ssn.queue_key(queues[left]) < ssn.queue_key(queues[right]))

    for left, right in pairwise(expected):
        assert before(left, right), (left, right)
        assert not before(right, left), (left, right)


GPU = "nvidia.com/gpu"
LIMITS = [
    pytest.param({}, "8", 4, id="a root without limits gives what the cluster has"),
    pytest.param({}, "", 0, id="what no node has nobody may hold"),
    pytest.param({"cpu": "16", "memory": "1Ti"}, "8", 0, id="a root with limits gives what they name"),
    pytest.param({"cpu": "16", "memory": "1Ti", GPU: "3"}, "8", 3, id="and no more than they say"),
]


@pytest.mark.parametrize(("capability", "on_nodes", "expected"), LIMITS)
def test_limits_of_the_root(capability: dict[str, str], on_nodes: str, expected: int) -> None:
    world = tree(*leaf("a", "p"), gpu=on_nodes)
    worlds.feed(world, worlds.queue("root", capability=capability))
    worlds.feed(world, worlds.pod("wants", "a", resources={GPU: "1"}))
    ssn = asking.session(world, TREE)
    assert ssn.allocatable(world.queues["a"], asking.task(ssn, "wants"), 4) == expected


def annotated(path: str) -> dict[str, Any]:
    made = worlds.queue(path.replace("/", "-"))
    made["metadata"]["annotations"] = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": "1/1/1"}
    return made


def test_a_queue_that_holds_nothing_is_hungry_though_what_it_wants_has_run_out() -> None:
    """Volcano calls a job saturated by the resources it holds, and one that holds none by none."""
    objects: list[dict[str, Any]] = [worlds.node("n", cpu="2", memory="8Gi")]
    for path in ("root/full", "root/late", "root/spare"):
        name = path.replace("/", "-")
        objects += [annotated(path), worlds.group(name, 0, queue=name, phase="Running")]
    objects += [worlds.pod(f"f{i}", "root-full", cpu="1", phase="Running", nodeName="n") for i in range(2)]
    objects += [worlds.pod("wait", "root-late", cpu="1", memory="")]
    objects += [worlds.pod("easy", "root-spare", cpu="", memory="1Gi")]
    ssn = asking.session(worlds.world(*objects), {"name": "drf", "enableHierarchy": True})
    keys = {name: ssn.queue_key(ssn.world.queues[name]) for name in ("root-late", "root-spare")}
    assert keys["root-late"][:-1] == keys["root-spare"][:-1]
    assert keys["root-late"] < ssn.queue_key(ssn.world.queues["root-full"])


def test_a_tree_may_be_deeper_than_calls_may_nest() -> None:
    chain = [worlds.queue("root"), *(worlds.queue(f"q{i}", parent=f"q{i - 1}" if i else "root") for i in range(1500))]
    chain[2]["spec"]["capability"] = {"cpu": "1"}
    job = [worlds.group("g", 0, queue="q1499"), worlds.pod("a", "g"), worlds.pod("b", "g")]
    plan = worlds.cycle(worlds.world(worlds.node("n"), *chain, *job), asking.config("gang", TREE))
    assert len(plan.binds) == 1, "the second queue from the top has room for one"
    deep = annotated("root/" + "/".join(f"l{i}" for i in range(1500)))
    deep["metadata"]["name"] = "deep"
    job = [worlds.group("g", 0, queue="deep"), worlds.pod("a", "g")]
    drf = {"name": "drf", "enableHierarchy": True}
    assert len(worlds.cycle(worlds.world(worlds.node("n"), deep, *job), asking.config("gang", drf)).binds) == 1
