"""drf with enableHierarchy: the specification's tree, and its rescaling, in worked numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from strato.scheduler.cycle import decide
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

HDRF: dict[str, Any] = {"name": "drf", "enableHierarchy": True}


def queue(path: str, weights: str) -> dict[str, Any]:
    made = worlds.queue(path.replace("/", "-"))
    made["metadata"]["annotations"] = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return made


def pods(group: str, count: int, cpu: str, memory: str, **more: Any) -> list[dict[str, Any]]:
    return [worlds.pod(f"{group}-{i}", group, cpu=cpu, memory=memory, **more) for i in range(count)]


def held(world: Any, *groups: str) -> list[int]:
    return [world.jobs[f"ns/{g}"].allocated_count for g in groups]


# queue path, weights, pods as (count, cpu, memory); cluster; placed per queue
SHARING = [
    pytest.param(
        [("root/sci", "100/50", (10, "1", "1G")), ("root/eng/dev", "100/50/50", (10, "1", "0")),
         ("root/eng/prod", "100/50/50", (10, "0", "1G"))],
        ("10", "10G"),
        [5, 5, 5],
        id="siblings that use different resources do not hold each other back",
    ),
    pytest.param(
        [("root/a", "1/3", (20, "1", "1G")), ("root/b", "1/1", (20, "1", "1G"))],
        ("12", "100G"),
        [9, 3],
        id="weights share three to one",
    ),
    pytest.param(
        [("root/a", "1/x", (20, "1", "1G")), ("root/b", "1/0.5", (20, "1", "1G"))],
        ("12", "100G"),
        [6, 6],
        id="weights below one and unreadable ones are one",
    ),
    pytest.param(
        [("root/a", "1/1", (2, "1", "1G")), ("root/b/x", "1/1/1", (20, "1", "1G")),
         ("root/b/y", "1/1/1", (20, "1", "1G"))],
        ("12", "100G"),
        [2, 5, 5],
        id="what a satisfied queue leaves goes to the others",
    ),
    pytest.param(
        [("root/a", "1/1", (30, "1", "1G")), ("root/b/x", "1/1/1", (30, "1", "1G")),
         ("root/b/y", "1/1/1", (30, "1", "1G"))],
        ("16", "100G"),
        [8, 4, 4],
        id="a level counts once however many queues are below",
    ),
    pytest.param(
        [("root/1", "100/25", (30, "1", "0")), ("root/2", "100/25", (30, "1", "0")),
         ("root/3/31", "100/25/50", (30, "1", "0")), ("root/3/32", "100/25/50", (30, "0", "1G")),
         ("root/4", "100/25", (30, "0", "1G"))],
        ("30", "30G"),
        [10, 10, 10, 15, 15],
        id="a child that is blocked does not block its siblings",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("queues", "cluster", "placed"), SHARING)
def test_sharing(queues: list[Any], cluster: tuple[str, str], placed: list[int]) -> None:
    objects: list[dict[str, Any]] = [worlds.node("n", cpu=cluster[0], memory=cluster[1])]
    groups = [path.replace("/", "-") for path, _, _ in queues]
    for (path, weights, (count, cpu, memory)), name in zip(queues, groups, strict=True):
        objects += [queue(path, weights), worlds.group(name, 0, queue=name), *pods(name, count, cpu, memory)]
    world = worlds.world(*objects)
    worlds.cycle(world, asking.config(HDRF))
    assert held(world, *groups) == placed


RECLAIM = [
    pytest.param(6, 2, True, id="a queue far ahead gives"),
    pytest.param(5, 4, False, id="equal after the move does not give"),
    pytest.param(4, 4, False, id="an equal queue keeps what it has"),
]


@pytest.mark.parametrize(("theirs", "mine", "gives"), RECLAIM)
def test_reclaiming(theirs: int, mine: int, gives: bool) -> None:
    objects: list[dict[str, Any]] = [worlds.node("n", cpu="10", memory="100Gi")]
    for name, count in (("root-rich", theirs), ("root-poor", mine)):
        objects += [queue(name.replace("-", "/"), "1/1"), worlds.group(name, 0, queue=name, phase="Running")]
        objects += pods(name, count, "1", "1Gi", phase="Running", nodeName="n")
        objects += [worlds.pod(f"{name}-more", name), worlds.pod(f"{name}-most", name)]
    ssn = asking.session(worlds.world(*objects), HDRF)
    before = [ssn.queue_key(q) for q in ssn.world.queues.values()]
    victims = ssn.reclaimable(asking.task(ssn, "root-poor-more"), [asking.task(ssn, "root-rich-0")])
    assert bool(victims) is gives
    assert [ssn.queue_key(q) for q in ssn.world.queues.values()] == before


def test_a_queue_with_a_hungry_job_keeps_its_pods_in_a_full_cluster() -> None:
    """A job that holds nothing is not saturated, so its part of the tree goes before one that has all it may get."""
    objects: list[dict[str, Any]] = [worlds.node("n", cpu="10", memory="10Gi")]
    objects += [queue("root/sci", "1/1"), worlds.group("want", 1, queue="root-sci"), *pods("want", 1, "1", "1Gi")]
    for path, count in (("root/eng/dev", 4), ("root/eng/prod", 6)):
        name = path.replace("/", "-")
        objects += [queue(path, "1/1/1"), worlds.group(name, 0, queue=name, phase="Running")]
        objects += pods(name, count, "1", "1Gi", phase="Running", nodeName="n")
    asker, candidate = "want-0", "root-eng-prod-0"
    ssn = asking.session(worlds.world(*objects), HDRF)
    assert ssn.reclaimable(asking.task(ssn, asker), [asking.task(ssn, candidate)])
    waiting = (worlds.group("more", 1, queue="root-eng-dev"), *pods("more", 1, "1", "1Gi"))
    ssn = asking.session(worlds.world(*objects, *waiting), HDRF)
    assert not ssn.reclaimable(asking.task(ssn, asker), [asking.task(ssn, candidate)])


def test_shares_of_a_session_equal_shares_from_scratch() -> None:
    """Incremental: what events did to the tree is what a new session computes."""
    objects: list[dict[str, Any]] = [worlds.node("n", cpu="9", memory="20G")]
    for path, weights in (("root/a/x", "1/2/3"), ("root/a/y", "1/2/1"), ("root/b", "1/1")):
        name = path.replace("/", "-")
        objects += [queue(path, weights), worlds.group(name, 0, queue=name), *pods(name, 5, "1", "1G")]
    world = worlds.world(*objects)
    placer = Placer(world.nodes)
    ssn = decide(world, asking.config(HDRF), now=0.0, rng=random.Random(0), uid="a", placer=placer)
    again = asking.session(world, HDRF)
    assert sum(held(world, "root-a-x", "root-a-y", "root-b")) == 9
    for q in world.queues.values():
        left, right = ssn.queue_key(q)[0].levels, again.queue_key(q)[0].levels
        assert [s for s, _ in left] == [s for s, _ in right]
        assert [v for _, v in left] == pytest.approx([v for _, v in right])
