"""Sums over sorted instants against integrals and look-ups done the slow way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.results.overtime import edges_of, free_by_node, mean_of_steps, samples, samples_by_row
from tests.sim.results.build import Ran, columns, job, nodes

SPANS = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 50), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=30
)


@given(SPANS, st.integers(1, 20))
def test_means_are_those_of_the_integral(spans: list[tuple[float, float, int, int]], steps: int) -> None:
    begin = np.array([one[0] for one in spans])
    end = begin + np.array([one[1] for one in spans])
    amount = np.array([float(one[2]) for one in spans])
    edges = edges_of(120.0, steps)
    found = mean_of_steps(begin, end, amount, edges)
    for step in range(steps):
        inside = np.clip(np.minimum(end, edges[step + 1]) - np.maximum(begin, edges[step]), 0, None)
        assert found[step] == pytest.approx(float((inside * amount).sum()) / (120.0 / steps), abs=1e-6)


@given(SPANS)
def test_samples_are_what_holds_then(spans: list[tuple[float, float, int, int]]) -> None:
    begin = np.array([one[0] for one in spans])
    end = begin + np.array([one[1] for one in spans])
    amount, row = np.array([float(one[2]) for one in spans]), np.array([one[3] for one in spans], np.int64)
    instants = np.linspace(0.0, 150.0, 31)
    by_row = samples_by_row(row, 4, begin, end, amount, instants)
    for number, at in enumerate(instants):
        holds = (begin <= at) & (at < end)
        assert by_row[number].sum() == pytest.approx(amount[holds].sum())
        for one in range(4):
            assert by_row[number, one] == pytest.approx(amount[holds & (row == one)].sum())
    assert samples(begin, end, amount, instants) == pytest.approx(by_row.sum(axis=1))


def test_steps_of_no_length_are_empty() -> None:
    nothing = np.zeros(1)
    assert mean_of_steps(nothing, nothing, np.ones(1), edges_of(0.0, 3)).tolist() == [0.0, 0.0, 0.0]


def test_a_node_has_left_what_its_pods_do_not_request() -> None:
    run = columns([job("a", cpu="3"), job("b", cpu="1")], [Ran(0, 0, 10), Ran(1, 5, 10, node=1)], nodes(2))
    free = free_by_node(run, "cpu", np.array([0.0, 5.0, 10.0]))
    assert free.tolist() == [[1000, 4000], [1000, 3000], [4000, 4000]]
