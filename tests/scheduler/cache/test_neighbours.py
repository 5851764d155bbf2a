"""Counts of matching pods per node stay what a count from scratch gives, whatever comes, goes or changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.selectors import Selector, from_labels
from strato.scheduler.cache import neighbours
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import JOURNAL_SIZE
from tests.scheduler import worlds

Json = dict[str, Any]
SELECTORS = [from_labels({"a": value}) for value in "xyz"] + [from_labels({"a": "x", "b": "y"}), Selector()]


def pod(rng: random.Random, name: str, nodes: int) -> Json:
    labels = {key: rng.choice("xyz") for key in "ab" if rng.random() < 0.8}
    more: Json = {"phase": "Running", "nodeName": f"n{rng.randrange(nodes)}"} if rng.random() < 0.8 else {}
    return worlds.pod(name, labels=labels, **more)


def plainly(world: World, selector: Selector) -> list[int]:
    out = [0] * world.nodes.size
    for task in world.tasks.values():
        if task.row >= 0 and selector.matches(task.pod.metadata.labels):
            out[task.row] += 1
    return out


def counted(world: World, selector: Selector) -> list[int]:
    def matches(task: Task) -> bool:
        return selector.matches(task.pod.metadata.labels)

    found: list[int] = world.neighbours.counts(str(selector), matches, selector.one_of).tolist()
    return found


@pytest.mark.parametrize("few", [0, 16], ids=["by label always", "by label where it saves"])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_counts_follow_pods_and_nodes(few: int, seed: int) -> None:
    rng, nodes = random.Random(seed), 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_FEW_ROWS", few)
        world = worlds.world(*(worlds.node(f"n{i}") for i in range(nodes)))
        for turn in range(30):
            for _ in range(rng.choice((0, 1, 1, 5))):
                what, name = rng.random(), f"p{rng.randrange(12)}"
                if what < 0.2:
                    world.remove_pod(f"ns/{name}")
                elif what < 0.3 and nodes < 30:
                    worlds.feed(world, *(worlds.node(f"n{i}") for i in range(nodes, nodes + 7)))
                    nodes += 7
                else:
                    worlds.feed(world, pod(rng, name, nodes))
            for selector in rng.sample(SELECTORS, rng.randint(0, len(SELECTORS))):
                assert counted(world, selector) == plainly(world, selector), (turn, str(selector))


def test_what_the_journal_has_forgotten_is_counted_anew() -> None:
    world = worlds.world(worlds.node("n0"), worlds.node("n1"))
    selector = from_labels({"a": "x"})
    assert counted(world, selector) == [0, 0]
    for turn in range(JOURNAL_SIZE):
        worlds.feed(world, worlds.pod(f"p{turn % 3}", labels={"a": "xy"[turn % 2]}, phase="Running", nodeName="n0"))
        world.remove_pod(f"ns/p{(turn + 1) % 3}")
    worlds.feed(world, worlds.pod("last", labels={"a": "x"}, phase="Running", nodeName="n1"))
    assert counted(world, selector) == plainly(world, selector)


def test_a_class_is_counted_by_a_label_of_its_pods() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "q"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [worlds.node(f"n{i}") for i in range(40)]
    for at, labels in enumerate(({"a": "x", "b": "y"}, {"a": "x"}, {}, {"b": "y"})):
        for twin in range(3):
            where: Json = {"phase": "Running", "nodeName": f"n{10 * twin + at}"}
            objects.append(worlds.pod(f"p{at}-{twin}", labels=labels, affinity=affinity, **where))
    world = worlds.world(*objects)
    asker = worlds.pod("asker", labels={"a": "q"})
    worlds.feed(world, asker)
    rules = list(world.affinity.about(world.tasks["ns/asker"], world.namespaces))
    assert len(rules) == 4
    for rule in rules:
        found = world.neighbours.members(rule.cls, rule.labels)
        expected = [0] * 40
        for task in world.tasks.values():
            if task.cls is rule.cls and task.row >= 0:
                expected[task.row] += 1
        assert found.tolist() == expected
        assert sum(expected) == 3
