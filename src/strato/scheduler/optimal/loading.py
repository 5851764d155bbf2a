"""Loads the kernels of the action `flow` before a cycle needs them.

On a machine that has never used them they are compiled, which takes a minute of CPU time: longer than a leader's lease
lasts. So the scheduler loads them in a thread when a job first needs them (`Scheduler(load_flow=…)`).
"""

from __future__ import annotations


def load() -> None:
    """Load the kernels, or compile them; imports Numba and these modules only now."""
    import numpy as np

    from strato.mincost.network import Network
    from strato.mincost.solver import Kernel, Solver
    from strato.scheduler.model.resources import Dimensions
    from strato.scheduler.optimal.kernels import trim

    for kernel in (Kernel.PATHS, Kernel.SCALING):
        network = Network.from_arcs([3, 0, -3], [0, 0, 1], [1, 2, 2], [1, 9, 0], [3, 3, 2])
        solver = Solver((kernel,))
        for _ in range(2):  # from scratch, and warm
            solver.solve(network)
    row, vector = np.zeros(1, np.int64), np.zeros((1, Dimensions().width), np.int64)
    trim(row, row, np.ones(1, np.int64), row, vector, vector.copy())
