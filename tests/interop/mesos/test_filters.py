"""Refusals: how long they hold, and what of them is kept."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos.filters import MOST_PER_AGENT, Moment, OfferFilter, OfferFilters, refuse_seconds
from strato.interop.mesos.resourcetext import parse
from strato.interop.mesos.specs import AgentId, FrameworkId

A, ONE = FrameworkId("a"), AgentId("one")


@pytest.mark.parametrize(
    ("filters", "seconds"),
    [
        (None, 5),
        ({}, 5),
        ({"refuse_seconds": 0}, 0),
        ({"refuse_seconds": 0.5}, 0.5),
        ({"refuse_seconds": -1}, 5),
        ({"refuse_seconds": math.nan}, 5),
        ({"refuse_seconds": "60"}, 5),
        ({"refuse_seconds": True}, 5),
        ({"refuse_seconds": 4294967295}, 365 * 24 * 3600),
        ({"refuse_seconds": math.inf}, 365 * 24 * 3600),
    ],
)
def test_seconds_of_a_call(filters: dict[str, Any] | None, seconds: float) -> None:
    assert refuse_seconds(filters) == seconds


def refusal(text: str = "cpus:1", deadline: float = 10.0, batches: int = 0) -> OfferFilter:
    return OfferFilter(parse(text), Moment(0.0, batches), deadline)


@pytest.mark.parametrize(
    ("now", "has_ended"),
    [(Moment(9.9, 9), False), (Moment(10.0, 0), False), (Moment(10.0, 1), True), (Moment(11.0, 0), False)],
)
def test_a_refusal_ends_with_its_time_and_after_a_batch(now: Moment, has_ended: bool) -> None:
    assert refusal().has_ended(now) is has_ended


def test_who_refuses_more_refuses_less() -> None:
    filters = OfferFilters()
    filters.add(A, "r", ONE, refusal("cpus:2;mem:10"))
    there = filters.on(ONE, "r")
    assert A in there.refusing(parse("cpus:1"))
    assert A not in there.refusing(parse("cpus:3"))
    assert A not in there.refusing(parse("cpus:1;disk:1"))
    filters.add(A, "r", ONE, refusal("cpus:3"))
    assert A in there.refusing(parse("cpus:3"))
    filters.clear(A, ["r"])
    assert A not in there.refusing(parse("cpus:1"))
    assert filters.on(ONE, "r").by_framework == {}


def test_superfluous_refusals_are_not_kept() -> None:
    filters = OfferFilters()
    filters.add(A, "r", ONE, refusal("cpus:1", 10))
    filters.add(A, "r", ONE, refusal("cpus:2", 20))
    filters.add(A, "r", ONE, refusal("cpus:1", 15))
    assert filters.on(ONE, "r").by_framework == {A: [refusal("cpus:2", 20)]}
    filters.add(A, "r", ONE, refusal("cpus:1", 30))
    assert len(filters) == 2


def test_refusals_of_one_agent_are_bounded() -> None:
    filters = OfferFilters()
    for number in range(1, 2 * MOST_PER_AGENT):
        filters.add(A, "r", ONE, refusal(f"ports:[{2 * number}-{2 * number}]", float(number)))
    assert len(filters) == MOST_PER_AGENT
    assert min(one.deadline for one in filters.on(ONE, "r").by_framework[A]) == MOST_PER_AGENT


def test_refusals_that_were_cleared_leave_nothing_behind() -> None:
    """A framework that declines for ever and revives every time must not make the master grow."""
    filters = OfferFilters()
    for _ in range(5000):
        filters.add(A, "r", ONE, refusal(deadline=1e9))
        filters.clear(A, ["r"])
    assert len(filters) == 0
    assert len(filters._ends) < 2000
    assert filters._agents == filters._where == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from("rs"), st.sampled_from("12"), st.integers(1, 3), st.integers(1, 6)
        ),
        max_size=20,
    ),
    st.integers(0, 8),
)
def test_what_has_ended_is_dropped_and_nothing_else(refusals: list[tuple[str, str, str, int, int]], end: int) -> None:
    filters = OfferFilters()
    plain: dict[tuple[str, str, str], list[OfferFilter]] = {}
    for framework, role, agent, cpus, deadline in refusals:
        one = refusal(f"cpus:{cpus}", float(deadline))
        filters.add(FrameworkId(framework), role, AgentId(agent), one)
        plain.setdefault((framework, role, agent), []).append(one)
    now = Moment(float(end), 1)
    filters.opened.clear()
    filters.drop_ended(now)
    for (framework, role, agent), all_ in plain.items():
        for cpus in (1, 2, 3):
            asked = parse(f"cpus:{cpus}")
            holds = any(not one.has_ended(now) and one.resources.contains(asked) for one in all_)
            assert (framework in filters.on(AgentId(agent), role).refusing(asked)) is holds
            if not holds and any(one.resources.contains(asked) for one in all_):
                assert (agent, role) in filters.opened
