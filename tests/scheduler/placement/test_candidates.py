"""Which classes' verdicts and scores are kept: as many as the memory allows, those that were used last."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.placement.candidates import CandidateCache
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]


def opened(nodes: int, classes: int = 4) -> Session:
    """Open a session with nodes and a pod of each class, ``p0`` with the smallest request."""
    pods = [worlds.pod(f"p{number}", cpu=f"{number + 1}") for number in range(classes)]
    made = worlds.world(*(worlds.node(f"n{number}") for number in range(nodes)), *pods)
    return asking.session(made, "predicates", "nodeorder")


def room_for(classes: int, nodes: int) -> int:
    """Return how many bytes so many classes take, and their entries in the cache."""
    ssn = opened(nodes)
    one = CandidateCache(ssn.world.nodes, 0).of(ssn, asking.task(ssn, "p0"))
    return classes * (one.nbytes + 200)


@pytest.mark.parametrize(
    ("uses", "kept"),
    [
        pytest.param([0, 1], {0, 1}, id="there is room for two"),
        pytest.param([0, 1, 2], {1, 2}, id="the first goes"),
        pytest.param([0, 1, 0, 2], {0, 2}, id="unless it was used since"),
        pytest.param([0, 1, 0, 2, 0, 3], {0, 3}, id="as often as it is"),
        pytest.param([0, 0, 1, 2], {1, 2}, id="before the others is not since"),
    ],
)
def test_the_classes_that_were_used_last_are_kept(uses: list[int], kept: set[int]) -> None:
    ssn = opened(nodes=3)
    cache = CandidateCache(ssn.world.nodes, 0, max_bytes=room_for(2, nodes=3))
    found = {number: cache.of(ssn, asking.task(ssn, f"p{number}")) for number in uses}
    held = set(map(id, cache._classes.values()))
    assert {number for number, one in found.items() if id(one) in held} == kept
    for number in kept:
        assert cache.of(ssn, asking.task(ssn, f"p{number}")) is found[number]


def test_a_class_counts_with_the_rows_it_has_now() -> None:
    ssn = opened(nodes=1)
    cache = CandidateCache(ssn.world.nodes, 0, max_bytes=room_for(1, nodes=200))
    task = asking.task(ssn, "p0")
    small = cache.of(ssn, task)
    before = cache._classes.bytes
    worlds.feed(ssn.world, *(worlds.node(f"more{number}") for number in range(199)))
    assert cache.of(ssn, task) is small
    assert (len(cache._classes), small.size) == (1, 200)
    assert cache._classes.bytes > before + 199
    cache.forget()
    assert cache._classes.bytes == 0
    assert cache.of(ssn, task) is not small


def test_what_is_not_kept_is_answered_all_the_same() -> None:
    ssn = opened(nodes=3)
    small, large = (CandidateCache(ssn.world.nodes, 0, max_bytes=size) for size in (1, 1 << 20))
    for number in range(4):
        task = asking.task(ssn, f"p{number}")
        assert small.of(ssn, task).mask.tolist() == large.of(ssn, task).mask.tolist()
    assert len(small._classes) == 0
