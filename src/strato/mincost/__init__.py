"""Scheduling as minimum-cost flow: the best placement of all tasks together, re-solved after each change.

Belongs here: the network, its solvers, the graph manager, cost models, and the service and replay around
them. Does not: anything of Kubernetes; tasks and machines are plain data (`world`). Bottom up:

- `network`, `certificate`, `dimacs`, `merge`: problems, proofs, files, smaller equal problems
- `kernels`, `solver`: three compiled algorithms over one array layout, and the race between them
- `world`, `models`, `stats`: tasks and machines, the policies that price their placements, and measurements
- `graph`, `decide`, `gangs`: turn events into network edits, and flows into decisions
- `service`, `simulate`, `synthetic`: Firmament's gRPC protocol, trace replay, seeded instances
"""

from strato.mincost.graph import Delta, DeltaType, FlowScheduler, RoundDecision
from strato.mincost.network import Network, NetworkError
from strato.mincost.solver import Kernel, Solution, Solver, SolveStatus
from strato.mincost.world import FlowWorld, Machine, Task, Vector

__all__ = [
    "Delta",
    "DeltaType",
    "FlowScheduler",
    "FlowWorld",
    "Kernel",
    "Machine",
    "Network",
    "NetworkError",
    "RoundDecision",
    "Solution",
    "SolveStatus",
    "Solver",
    "Task",
    "Vector",
]
