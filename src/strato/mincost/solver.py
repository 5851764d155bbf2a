"""The solver a caller uses: chooses kernels, races two of them on two threads, and proves the answer.

The choice of kernels follows measurements: local searches (`paths`) win if there are few changes since the last
optimum, or room for all tasks; cost scaling wins on demand above capacity and on dense class × machine networks;
network simplex is reliable in between. Unless the choice is clear, two start, each on its own copy of flow and
potentials, and the first optimum stops the other.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from strato.errors import Problem
from strato.mincost import _layout, certificate
from strato.mincost._layout import link_all
from strato.mincost.arrays import Arrays, Int64s
from strato.mincost.kernels import INFEASIBLE, OPTIMAL, STOPPED, paths, scaling, simplex
from strato.mincost.kernels.labels import Scratch, new_scratch
from strato.mincost.network import Network, NetworkError

StopFlag = npt.NDArray[np.uint8]


class Kernel(enum.Enum):
    """The ways to solve a network."""

    PATHS = "paths"
    SIMPLEX = "simplex"
    SCALING = "scaling"


class SolveStatus(enum.Enum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solve found; flow and potentials are in the network when `outcome` is optimal."""

    outcome: SolveStatus
    objective: int
    winner: Kernel
    unserved: int = 0
    """A node whose supply or demand cannot be met, when infeasible."""


SIMPLEX_BLOCK = 150
"""Arcs priced per pivot; 60–300 are within 20 % of each other, √arcs is 2–5 times slower."""
DENSE_ARCS_PER_NODE = 20
SMALL = 2000
"""Nodes and arcs up to which a second thread costs more than it saves."""
MAX_SEARCH_ARCS = 10_000
"""Most arcs of a search from one end: nine in ten of an oversubscribed round need fewer, the others 100,000s."""
FEW_UNITS = 2000
"""Supply up to which local searches run alone: 1,000 waiting tasks take them 2 ms, a second thread as much again."""
FEW_CHANGES_RATIO = 0.02
"""Unserved supply, as a share of the nodes, up to which local searches run alone."""


class Solver:
    """Solves networks, starting from the flow and potentials they have.

    Args:
        check: Prove every answer with the certificate (one more pass over the arcs).
    """

    def __init__(self, kernels: tuple[Kernel, ...] | None = None, *, check: bool = False) -> None:
        self._kernels = kernels
        self._check = check
        self._stops: list[StopFlag] = []
        self._scratch: tuple[Scratch, Scratch] | None = None

    def stop(self) -> None:
        """Make a solve in progress on another thread end with `SolveStatus.STOPPED`."""
        for flag in self._stops:
            flag[0] = 1

    def solve(self, network: Network) -> Solution:
        """Make the network's flow optimal; leave flow and potentials as they were if that fails.

        Raises:
            NetworkError: Supplies do not sum to zero.
            InvariantError: With `check`, an answer without proof.
        """
        g = network.arrays
        if network.node_count == 0:
            return Solution(SolveStatus.OPTIMAL, network.base_cost, Kernel.PATHS)
        total = int(g.supply.sum())
        if total:
            raise NetworkError([Problem("supplies", f"sum to {total}, must sum to 0")])
        root = int(np.argmin(g.supply))
        kernels = self._kernels or choose(network)
        runs = [self._prepare(network, g, kernel, root) for kernel in kernels]
        self._stops = [run.stop for run in runs]
        outcome, index = _race([run.start for run in runs], self._stops)
        kernel, run = kernels[index], runs[index]
        if outcome == OPTIMAL:
            cost = int(self._scratch[0].size[4]) if self._scratch is not None and kernel is Kernel.PATHS else None
            if run.arrays is not g:
                g.flow[:], g.potential[:] = run.arrays.flow, run.arrays.potential
            network.lists_valid = kernel is Kernel.PATHS and run.arrays is g
            if self._check:
                certificate.require_optimal(network)
            objective = network.objective if cost is None else network.base_cost + cost
            return Solution(SolveStatus.OPTIMAL, objective, kernel)
        if run.arrays is g:
            network.lists_valid = False
        unserved = int(np.flatnonzero(run.excess)[0]) if outcome == INFEASIBLE and run.excess.any() else -1
        return Solution(SolveStatus.INFEASIBLE if outcome == INFEASIBLE else SolveStatus.STOPPED, 0, kernel, unserved)

    def _prepare(self, network: Network, g: Arrays, kernel: Kernel, root: int) -> _Run:
        stop = np.zeros(1, np.uint8)
        excess = np.empty(len(g.supply), np.int64)
        if kernel is Kernel.PATHS:
            if self._scratch is None or len(self._scratch[0].stamp) < network.node_count:
                room = network.node_count * 5 // 4 + 16
                self._scratch = new_scratch(room), new_scratch(room)
            scratch = self._scratch
            return _Run(g, stop, excess, lambda: self._run_paths(network, g, root, stop, scratch, excess))
        mine = g._replace(flow=g.flow.copy(), potential=g.potential.copy())
        cold = not mine.flow.any()
        if kernel is Kernel.SIMPLEX:
            tree = simplex.new_tree(len(g.supply), len(g.tail))

            def run_simplex() -> int:
                if cold:
                    simplex.crash(mine, root)
                return int(simplex.solve(mine, root, stop, tree, excess, SIMPLEX_BLOCK))

            return _Run(mine, stop, excess, run_simplex)
        alpha = 24 if _is_dense(network) else 8
        return _Run(mine, stop, excess, lambda: int(scaling.solve(mine, root, stop, excess, alpha, not cold)))

    @staticmethod
    def _run_paths(
        network: Network, g: Arrays, root: int, stop: StopFlag, scratch: tuple[Scratch, Scratch], excess: Int64s
    ) -> int:
        if not network.lists_valid:
            link_all(g, network.node_count)
        before = g.flow.copy(), g.potential.copy()
        if not before[0].any() and not before[1].any():
            paths.price_scarcity(g, root)
        outcome = int(paths.solve(g, root, stop, *scratch, excess, MAX_SEARCH_ARCS))
        if outcome != OPTIMAL:
            g.flow[:], g.potential[:] = before
        return outcome


@dataclass(slots=True)
class _Run:
    """One kernel ready to start on its own arrays."""

    arrays: Arrays
    stop: StopFlag
    excess: Int64s
    start: Callable[[], int]


def choose(network: Network) -> tuple[Kernel, ...]:
    """Pick the kernels to race for a network with its present flow. O(nodes + arcs)."""
    g = network.arrays
    root = int(np.argmin(g.supply))
    supply = int(g.supply[g.supply > 0].sum())
    carried = int(_layout.inflow(g, root)) if network.lists_valid else int(g.flow[g.head == root].sum())
    if carried and abs(supply - carried) <= max(64, FEW_CHANGES_RATIO * len(g.supply)):
        return (Kernel.PATHS,)
    few = supply <= max(FEW_UNITS, 0.01 * len(g.tail)) and not _is_dense(network)
    if few or len(g.supply) + len(g.tail) <= SMALL:
        return (Kernel.PATHS,)
    return (Kernel.PATHS, Kernel.SCALING)


def _is_dense(network: Network) -> bool:
    return int(network.arrays.row_length.sum()) > DENSE_ARCS_PER_NODE * network.node_count


def _race(starts: list[Callable[[], int]], stops: list[StopFlag]) -> tuple[int, int]:
    """Run all, the first on this thread; return the outcome and index of the first to finish."""
    outcomes: list[tuple[int, int]] = []
    failures: list[BaseException] = []
    finished = threading.Lock()

    def run(index: int) -> None:
        try:
            outcome = starts[index]()
        except BaseException as failure:
            failures.append(failure)
            outcome = STOPPED
        with finished:
            outcomes.append((outcome, index))
            if outcome != STOPPED:
                for other, flag in enumerate(stops):
                    if other != index:
                        flag[0] = 1

    others = [threading.Thread(target=run, args=(i,), name=f"flow-{i}") for i in range(1, len(starts))]
    for thread in others:
        thread.start()
    run(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]
    decided = [found for found in outcomes if found[0] != STOPPED]
    return decided[0] if decided else outcomes[0]
