"""Merged and unmerged problems have one optimum, and a merged flow expands to a feasible one of that cost."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.mincost.arrays import Int64s
from strato.mincost.dimacs import Instance
from strato.mincost.merge import merge
from strato.mincost.solvefile import solve_merged
from strato.mincost.solver import Solver, SolveStatus


@st.composite
def clusters(draw: st.DrawFn) -> Instance:
    """Tasks of few kinds, machines with PUs as leaves, one aggregator to wait in."""
    tasks, machines, pus = draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kinds = draw(
        st.lists(st.lists(st.integers(1, 9), min_size=machines + 1, max_size=machines + 1), min_size=1, max_size=2)
    )
    wait = tasks + machines
    sink = wait + 1 + machines * pus
    arcs = [(wait, sink, 0, tasks, 0)]
    for t in range(tasks):
        prices, extra = draw(st.sampled_from(kinds)), draw(st.integers(0, 3))
        arcs += [(t, tasks + i, 0, 1, price + extra) for i, price in enumerate(prices)]
    for i in range(machines):
        for p in range(pus):
            leaf = wait + 1 + i * pus + p
            arcs += [(tasks + i, leaf, 0, 1, draw(st.integers(0, 1))), (leaf, sink, 0, 1, 0)]
    supply = np.zeros(sink + 1, np.int64)
    supply[:tasks], supply[sink] = 1, -tasks
    tail, head, lower, capacity, cost = np.array(arcs, np.int64).T
    return Instance(supply, tail, head, lower, capacity, cost)


def balance(instance: Instance, flow: Int64s) -> Int64s:
    rest = instance.supply.copy()
    np.subtract.at(rest, instance.tail, flow)
    np.add.at(rest, instance.head, flow)
    return rest


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_merged_problem_has_the_same_optimum_and_expands_to_it(instance: Instance) -> None:
    plain = Solver().solve(instance.to_network())
    reduced = merge(instance)
    network = reduced.instance.to_network()
    solution = Solver().solve(network)
    assert solution.outcome is SolveStatus.OPTIMAL
    assert solution.objective + reduced.offset == plain.objective
    flow = reduced.expand(network.arc_flow())
    assert not balance(instance, flow).any()
    assert ((flow >= 0) & (flow <= instance.capacity)).all()
    assert int(flow @ instance.cost) == plain.objective
    assert len(reduced.instance.supply) < len(instance.supply)


@st.composite
def anything(draw: st.DrawFn) -> Instance:
    """Small problems of any shape: parallel arcs, arcs in a row, lower bounds; not all can be met."""
    nodes = draw(st.integers(2, 6))
    node = st.integers(0, nodes - 1)
    arc = st.tuples(node, node, st.integers(0, 1), st.integers(1, 4), st.integers(0, 6))
    arcs = [a for a in draw(st.lists(arc, min_size=1, max_size=14)) if a[0] != a[1]] or [(0, 1, 0, 3, 1)]
    supply = np.zeros(nodes, np.int64)
    for source, amount in draw(st.lists(st.tuples(node, st.integers(0, 2)), max_size=4)):
        supply[source] += amount
    supply[nodes - 1] -= supply.sum()
    tail, head, lower, capacity, cost = np.array(arcs, np.int64).T
    return Instance(supply, tail, head, lower, capacity, cost)


@settings(max_examples=300, deadline=None)
@given(anything())
def test_any_problem_is_solved_merged_as_it_is_unmerged(instance: Instance) -> None:
    plain = Solver().solve(instance.to_network())
    merged = solve_merged(instance, Solver(check=True))
    assert (merged is not None) == (plain.outcome is SolveStatus.OPTIMAL)
    if merged is not None:
        _, objective, flow = merged
        assert objective == plain.objective == int(flow @ instance.cost)
        assert not balance(instance, flow).any()
        assert ((flow >= instance.lower) & (flow <= instance.capacity)).all()
