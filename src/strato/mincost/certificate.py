"""Proof that a flow is optimal, without a second solver.

Checked in one pass over the arcs: bounds, conservation, and for every arc a reduced cost ≥ 0 below its
capacity and ≤ 0 above zero (complementary slackness). The last is equivalent to there being no residual
cycle of negative cost, which `negative_cycle` can also show directly, independently of potentials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strato.errors import InvariantError
from strato.mincost.network import Network


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of the check; `ok` is the proof."""

    primal: int
    """Cost of the flow."""
    dual: int
    """Dual objective: −Σ supply × potential + Σ capacity × negative reduced cost; equals `primal` if optimal."""
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Tell whether the flow is feasible and optimal."""
        return not self.faults and self.primal == self.dual


def certify(network: Network) -> Certificate:
    """Check a network's flow against its potentials. O(nodes + arcs)."""
    g = network.arrays
    faults: list[str] = []
    used = network.slots_in_use()
    tail, head, flow, capacity = g.tail[used], g.head[used], g.flow[used], g.capacity[used]
    faults.extend(
        f"arc {tail[arc]} → {head[arc]}: flow {flow[arc]} is outside 0 … {capacity[arc]}"
        for arc in np.flatnonzero((flow < 0) | (flow > capacity))[:3].tolist()
    )
    balance = g.supply.copy()
    np.subtract.at(balance, tail, flow)
    np.add.at(balance, head, flow)
    faults.extend(
        f"node {node}: {balance[node]} of its supply {g.supply[node]} is not carried away"
        for node in np.flatnonzero(balance)[:3].tolist()
    )
    reduced = g.cost[used] + g.potential[tail] - g.potential[head]
    wrong = ((reduced < 0) & (flow < capacity)) | ((reduced > 0) & (flow > 0))
    faults.extend(
        f"arc {tail[arc]} → {head[arc]}: reduced cost {reduced[arc]} at flow {flow[arc]} of {capacity[arc]}"
        for arc in np.flatnonzero(wrong)[:3].tolist()
    )
    dual = -int(g.supply @ g.potential) + int(np.minimum(reduced, 0) @ capacity)
    return Certificate(network.objective, dual + network.base_cost, tuple(faults))


def require_optimal(network: Network) -> None:
    """Stop the program when a solver's answer is not proven.

    Raises:
        InvariantError: A fault, or primal and dual objective differ.
    """
    found = certify(network)
    if not found.ok:
        raise InvariantError(
            f"the flow is not optimal (cost {found.primal}, proven bound {found.dual}): {'; '.join(found.faults)}"
        )


def has_negative_cycle(network: Network) -> bool:
    """Search the residual graph for a cycle of negative cost (Bellman-Ford, O(nodes × arcs), for tests)."""
    g = network.arrays
    used = network.slots_in_use()
    below, above = used[g.flow[used] < g.capacity[used]], used[g.flow[used] > 0]
    tail = np.concatenate([g.tail[below], g.head[above]])
    head = np.concatenate([g.head[below], g.tail[above]])
    cost = np.concatenate([g.cost[below], -g.cost[above]])
    distance = np.zeros(network.node_count, np.int64)
    for _ in range(network.node_count + 1):
        before = distance.copy()
        np.minimum.at(distance, head, before[tail] + cost)
        if np.array_equal(before, distance):
            return False
    return True
