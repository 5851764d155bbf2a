from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.results.shares import drf_shares, jain, queue_shares
from tests.sim.results.build import Ran, columns, job, nodes


def test_drf_shares_are_those_of_the_paper() -> None:
    """NSDI 2011, section 4.1: 9 CPUs, 18 GB; tasks of <1 CPU, 4 GB> and <3 CPU, 1 GB>: three and two of them."""
    demand = np.array([[100.0, 400.0], [300.0, 100.0]])
    shares = drf_shares(demand, np.ones(2), np.array([9.0, 18.0]))
    assert shares.tolist() == pytest.approx([2 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("weights", "demand", "expected"),
    [
        pytest.param([1, 1], [[10, 0], [10, 0]], [0.5, 0.5], id="equal rights, equal parts"),
        pytest.param([3, 1], [[10, 0], [10, 0]], [0.75, 0.25], id="by weight"),
        pytest.param([1, 1], [[2, 0], [10, 0]], [0.2, 0.8], id="what one does not want goes to the other"),
        pytest.param([1, 1], [[0, 0], [10, 0]], [0.0, 1.0], id="who wants nothing has nothing"),
        pytest.param([1, 1], [[10, 0], [0, 10]], [1.0, 1.0], id="different resources do not compete"),
    ],
)
def test_drf_shares_follow_weights_and_demand(
    weights: list[float], demand: list[list[float]], expected: list[float]
) -> None:
    found = drf_shares(np.array(demand, float), np.array(weights, float), np.array([10.0, 10.0]))
    assert found.tolist() == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.floats(0, 30), st.floats(0, 30), st.integers(1, 5)), min_size=1, max_size=8),
)
def test_drf_never_gives_more_than_there_is_or_is_wanted(queues: list[tuple[float, float, int]]) -> None:
    demand = np.array([one[:2] for one in queues])
    total = np.array([10.0, 20.0])
    shares = drf_shares(demand, np.array([float(one[2]) for one in queues]), total)
    most = (demand / total).max(axis=1)
    assert (shares <= most + 1e-6).all()
    held = (demand.T / np.maximum(most, 1e-12) * shares).T
    assert (held.sum(axis=0) <= total + 1e-5).all()
    left = total - held.sum(axis=0)
    unmet = shares < most - 1e-6
    for row in np.flatnonzero(unmet):
        assert (left[demand[row] > 0] < 1e-4).any(), "who wants more lacks a resource that has ended"


def test_shares_are_held_and_deserved_over_time() -> None:
    jobs = [job("a", cpu="3", queue="a"), job("b", cpu="1", queue="b"), job("c", cpu="4", queue="b")]
    run = columns(jobs, [Ran(0, 0, 10), Ran(1, 0, 10), Ran(2, 10, 20)], nodes(1))
    queues = [
        {"kind": "Queue", "metadata": {"name": "a"}, "spec": {"weight": 3}},
        {"kind": "Queue", "metadata": {"name": "b"}, "spec": {"weight": 1}},
    ]
    found = queue_shares(run, queues, samples=2)
    assert found.held.tolist() == pytest.approx(np.array([[0.75, 0.25], [0, 1]]))
    assert found.deserved[:, 0].tolist() == pytest.approx([0.75, 0.0])
    assert found.drf.tolist() == pytest.approx(np.array([[0.75, 0.25], [0, 1]]))
    assert found.distance().tolist() == [0.0, 0.0]
    assert found.fairness() == 1.0


def test_a_queue_that_holds_less_than_its_share_is_named_by_its_distance() -> None:
    jobs = [job("a", cpu="4", queue="a"), job("b", cpu="4", queue="b")]
    run = columns(jobs, [Ran(0, 0, 10), Ran(1, 10, 20)], nodes(1))
    found = queue_shares(run, samples=2)
    assert found.deserved[0].tolist() == pytest.approx([0.5, 0.5])
    assert found.distance().tolist() == pytest.approx([0.25, 0.25])
    assert found.shortfall().tolist() == pytest.approx([0.0, 0.25])


@pytest.mark.parametrize(
    ("values", "expected"), [([2, 2], 1.0), ([3, 1], 0.8), ([1, 0, 0, 0], 0.25), ([], 1.0), ([0], 1.0)]
)
def test_jains_index(values: list[float], expected: float) -> None:
    assert jain(values) == pytest.approx(expected)
