"""Every kernel and the race: proven optimal, equal to an independent solver, warm equal to cold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.graph.python import min_cost_flow

from strato.mincost import certificate, solver
from strato.mincost.network import Network, NetworkError
from strato.mincost.solver import Kernel, Solver, SolveStatus
from strato.mincost.synthetic import Shape, quincy_network

ALL = [
    (Kernel.PATHS,),
    (Kernel.SIMPLEX,),
    (Kernel.SCALING,),
    (Kernel.PATHS, Kernel.SCALING),
    (Kernel.PATHS, Kernel.SIMPLEX, Kernel.SCALING),
    None,
]
ALL_IDS = ["paths", "simplex", "scaling", "a race of two", "a race of three", "chosen by shape"]


def oracle(network: Network) -> int | None:
    """OR-tools' optimum, None when infeasible."""
    g = network.arrays
    solver = min_cost_flow.SimpleMinCostFlow()
    used = network.slots_in_use()
    solver.add_arcs_with_capacity_and_unit_cost(g.tail[used], g.head[used], g.capacity[used], g.cost[used])
    solver.set_nodes_supplies(np.arange(network.node_count), g.supply)
    if solver.solve() != solver.OPTIMAL:
        return None
    return int(solver.optimal_cost()) + network.base_cost


@st.composite
def networks(draw: st.DrawFn, lowest_cost: int = -5) -> Network:
    nodes = draw(st.integers(2, 9))
    node = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(node, node, st.integers(lowest_cost, 20), st.integers(0, 6)), max_size=30))
    supply = draw(st.lists(st.integers(-4, 4), min_size=nodes - 1, max_size=nodes - 1))
    columns = np.array(arcs, np.int64).reshape(-1, 4).T
    return Network.from_arcs([*supply, -sum(supply)], *columns)


@pytest.mark.parametrize("kernels", ALL, ids=ALL_IDS)
@settings(max_examples=150, deadline=None)
@given(network=networks())
def test_solve_matches_the_oracle_and_proves_it(kernels: tuple[Kernel, ...] | None, network: Network) -> None:
    expected = oracle(network)
    solution = Solver(kernels).solve(network)
    assert (solution.outcome is SolveStatus.OPTIMAL) == (expected is not None)
    if expected is not None:
        assert solution.objective == expected
        found = certificate.certify(network)
        assert found.ok, found.faults
        assert not certificate.has_negative_cycle(network)


@pytest.mark.parametrize("kernels", ALL[:4], ids=ALL_IDS[:4])
@settings(max_examples=60, deadline=None)
@given(network=networks(), data=st.data())
def test_warm_equals_cold_after_random_changes(
    kernels: tuple[Kernel, ...], network: Network, data: st.DataObject
) -> None:
    solver = Solver(kernels)
    solver.solve(network)
    node = st.integers(0, network.node_count - 1)
    for _ in range(3):
        tail = data.draw(node)
        arcs = data.draw(st.lists(st.tuples(node, st.integers(-5, 20), st.integers(0, 6)), max_size=5))
        heads, costs, capacities = np.array(arcs, np.int64).reshape(-1, 3).T
        network.set_rows([tail], [0, len(arcs)], heads, costs, capacities)
        a, b, amount = data.draw(node), data.draw(node), data.draw(st.integers(0, 3))
        supply = network.arrays.supply
        supply[a] += amount
        supply[b] -= amount
        expected = oracle(network)
        solution = solver.solve(network)
        assert (solution.outcome is SolveStatus.OPTIMAL) == (expected is not None)
        if expected is not None:
            assert solution.objective == expected
            assert certificate.certify(network).ok


@pytest.mark.parametrize("fill", [0.5, 0.9, 1.0, 1.03], ids=["half full", "90 %", "just full", "oversubscribed"])
@pytest.mark.parametrize("kernels", ALL[:3], ids=ALL_IDS[:3])
def test_scheduling_network_has_one_optimum(kernels: tuple[Kernel, ...], fill: float) -> None:
    synthetic = quincy_network(Shape(machines=80, tasks=900, fill=fill, running=0.5))
    expected = oracle(synthetic.network)
    assert Solver(kernels, check=True).solve(synthetic.network).objective == expected
    sent = synthetic.network.arrays
    starts = sent.row_start[: len(synthetic.tasks)]
    assert all(sent.flow[s : s + n].sum() == 1 for s, n in zip(starts, sent.row_length, strict=False))


@pytest.mark.parametrize("patience", [0, 5, 60], ids=["at once", "after 5 arcs", "after 60 arcs"])
@settings(max_examples=100, deadline=None)
@given(network=networks(), data=st.data())
def test_searches_from_both_ends_find_the_optimum_cold_and_warm(
    patience: int, network: Network, data: st.DataObject
) -> None:
    node = st.integers(0, network.node_count - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "MAX_SEARCH_ARCS", patience)
        for _ in range(3):
            expected = oracle(network)
            found = Solver((Kernel.PATHS,)).solve(network)
            assert (found.outcome is SolveStatus.OPTIMAL) == (expected is not None)
            if expected is not None:
                assert found.objective == expected
                assert certificate.certify(network).ok
            supply = network.arrays.supply
            supply[data.draw(node)] += 1
            supply[data.draw(node)] -= 1


@pytest.mark.parametrize("fill", [0.97, 1.03, 1.3], ids=["nearly full", "oversubscribed", "far oversubscribed"])
def test_searches_from_both_ends_deal_with_a_crowded_cluster(fill: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_SEARCH_ARCS", 20)
    network = quincy_network(Shape(machines=80, tasks=900, fill=fill, running=0.5)).network
    expected = oracle(network)
    assert Solver((Kernel.PATHS,), check=True).solve(network).objective == expected


def like_others(network: Network, tasks: np.ndarray, rng: np.random.Generator) -> None:
    """Let tasks leave, and as many come with the arcs of others."""
    g = network.arrays
    like = rng.choice(tasks, len(tasks) // 10, replace=False)
    rows = [slice(int(g.row_start[t]), int(g.row_start[t] + g.row_length[t])) for t in like]
    heads, costs = [np.concatenate([column[r] for r in rows]) for column in (g.head, g.cost)]
    offsets = np.concatenate([[0], np.cumsum(g.row_length[like])])
    network.remove_nodes(rng.choice(tasks, len(like), replace=False))
    network.set_rows(network.add_nodes(len(like), supply=1), offsets, heads, costs, np.ones_like(heads))


def test_edits_keep_every_arc_in_the_list_of_its_head() -> None:
    synthetic, rng = quincy_network(Shape(machines=80, tasks=900)), np.random.default_rng(1)
    network, tasks = synthetic.network, np.arange(900)
    Solver((Kernel.PATHS,)).solve(network)
    for _ in range(3):
        like_others(network, tasks, rng)
        g, used = network.arrays, network.slots_in_use()
        listed = []
        for node in range(network.node_count):
            before, arc = -1, int(g.first_in[node])
            while arc >= 0:
                assert g.head[arc] == node
                assert g.prev_in[arc] == before
                listed.append(arc)
                before, arc = arc, int(g.next_in[arc])
            assert g.last_in[node] == before
        assert sorted(listed) == sorted(used.tolist())


@pytest.mark.parametrize("patience", [0, 20, 10_000], ids=["all are hard", "many are hard", "few are hard"])
@pytest.mark.parametrize("fill", [0.97, 1.0, 1.03, 1.3], ids=["97 %", "just full", "oversubscribed", "far over"])
def test_rounds_of_a_crowded_cluster_stay_optimal(fill: float, patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_SEARCH_ARCS", patience)
    synthetic, rng = quincy_network(Shape(machines=80, tasks=900, fill=fill)), np.random.default_rng(1)
    network, warm = synthetic.network, Solver((Kernel.PATHS,), check=True)
    warm.solve(network)
    for _ in range(4):
        like_others(network, np.arange(900), rng)
        assert warm.solve(network).objective == oracle(network)


def test_lower_bounds_are_part_of_flow_and_objective() -> None:
    network = Network.from_arcs([2, 0, -2], [0, 0, 1], [1, 2, 2], [5, 1, 5], [2, 2, 2], [1, 0, 0])
    solution = Solver(check=True).solve(network)
    assert solution.objective == 11
    assert network.arc_flow().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, -2], [0], [1], [1], [1]), "sum to -1"),
        (([1, -1], [0], [2], [1], [1]), "arc 0 (0 → 2): unknown node"),
        (([1, -1], [0], [1], [1], [-1]), "capacity -1 is below"),
        (([1, -1], [0], [1], [1 << 62], [1]), "overflows"),
        (([1 << 60, -(1 << 60)], [0], [1], [1], [1]), "above 2^53"),
    ],
    ids=["unbalanced supply", "unknown node", "negative capacity", "overflowing cost", "huge supply"],
)
def test_bad_networks_are_refused_by_name(columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Network.from_arcs(*columns)
    assert message in str(caught.value)


def test_infeasible_solve_leaves_the_network_unharmed() -> None:
    network = Network.from_arcs([1, -1], [0], [1], [3], [1])
    solver = Solver()
    assert solver.solve(network).objective == 3
    network.set_supply([0, 1], [2, -2])
    assert solver.solve(network).outcome is SolveStatus.INFEASIBLE
    network.set_supply([0, 1], [1, -1])
    assert solver.solve(network).objective == 3
