"""The kernels of the action `flow`, loaded before a cycle needs them.

On a machine that has never used them they are compiled, which takes a minute of a core: longer than a leader's lease
lasts. So the scheduler has them loaded on a thread of its own when they are first needed (`Scheduler(load_flow=…)`).
"""

from __future__ import annotations


def load() -> None:
    """Load the kernels, or compile them. Imports what it needs only now."""
    import numpy as np

    from strato.flow.network import Network
    from strato.flow.solver import Kernel, Solver
    from strato.scheduler.cache.nodes import NodeTable
    from strato.scheduler.cache.resources import Dimensions
    from strato.scheduler.flow.kernels import take_share, trim
    from strato.scheduler.kernels import Want

    for kernel in (Kernel.PATHS, Kernel.SCALING):
        network = Network.from_arcs([3, 0, -3], [0, 0, 1], [1, 2, 2], [1, 9, 0], [3, 3, 2])
        solver = Solver((kernel,))
        for _ in range(2):  # from scratch, and warm
            solver.solve(network)
    table = NodeTable(Dimensions())
    one, row = np.ones(1, np.int64), np.zeros(1, np.int64)
    request, scored, out = table.dims.zeros(), np.zeros(2, np.int64), np.empty(1, np.int32)
    take_share(row, one, 0, 0, Want(request, scored), table.columns, out)
    trim(row, row, one, row, request[None, :].copy(), table.idle[:1].copy())
