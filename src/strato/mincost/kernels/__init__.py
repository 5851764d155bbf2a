"""Compiled solvers. Each takes a network's arrays with any flow and any potentials and makes them optimal.

All share one calling form (`Arrays`, root, stop flag) and one outcome code; none allocates Python
objects or holds the interpreter lock, so two of them can race on two threads.
"""

from __future__ import annotations

OPTIMAL = 0
"""The flow is feasible and optimal, the potentials prove it."""
INFEASIBLE = 1
"""Some supply cannot reach any demand."""
STOPPED = 2
"""The stop flag was raised; the arrays hold a state that is not a solution."""
