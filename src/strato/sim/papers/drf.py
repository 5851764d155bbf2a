"""DRF (NSDI'11), table 1: two users on 9 CPUs and 18 GB, one with tasks of 1 CPU and 4 GB, one of 3 CPUs and 1 GB."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from strato.node.shapes import NodeShape
from strato.sim.papers.arrivals import ArrivingPod, FillingCluster, config_of
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions

_CPUS, _GIGABYTES = 9, 18
_TASKS: Final = {"B": (3, 1), "A": (1, 4)}
"""User → CPUs and GB of each of its tasks; at equal shares the first user is served first, as in the paper."""
_STEPS: Final = (
    ("B", Fraction(0), Fraction(1, 3)),
    ("A", Fraction(2, 9), Fraction(1, 3)),
    ("A", Fraction(4, 9), Fraction(1, 3)),
    ("B", Fraction(4, 9), Fraction(2, 3)),
    ("A", Fraction(2, 3), Fraction(2, 3)),
)
"""The user served in each step of the table, and the dominant shares of A and B after it."""
_MANY: Final = 20
"""Number of tasks of each user; more than fit."""


def reproduce(work: ReproductionOptions) -> Reproduction:
    """Compare the order in which the plugin ``drf`` places tasks with the paper's table."""
    served = shared_out()
    cells = [_cell("tasks", user, served.count(user), count) for user, count in (("A", 3), ("B", 2))]
    held = {"A": 0, "B": 0}
    for number, (user, share_a, share_b) in enumerate(_STEPS, start=1):
        mine = served[number - 1] if number <= len(served) else "-"
        held[mine] = held.get(mine, 0) + 1
        for name, share in (("A", share_a), ("B", share_b)):
            ours = dominant_share(name, held[name])
            cells.append(_cell(f"share after step {number} ({user} served)", name, float(ours), float(share)))
    cpus = sum(_TASKS[user][0] for user in served)
    gigabytes = sum(_TASKS[user][1] for user in served)
    cells += [_cell("used", "CPUs", cpus, 9), _cell("used", "GB", gigabytes, 14)]
    return Reproduction(
        name="drf",
        title="Dominant resource fairness: the worked example (NSDI'11, table 1)",
        source="A. Ghodsi et al., Dominant Resource Fairness, NSDI 2011",
        unit="tasks, shares of the cluster, or amounts",
        cells=tuple(cells),
        details={"served": served},
    )


def shared_out() -> list[str]:
    """Return the users in the order in which their tasks were placed."""
    shape = NodeShape(1, {"cpu": str(_CPUS), "memory": f"{_GIGABYTES}G", "pods": "100"}, name="node")
    cluster = FillingCluster([shape], config_of([{"name": "drf"}, {"name": "gang"}, {"name": "predicates"}]), 0)
    groups = {
        user: [ArrivingPod({"cpu": str(cpus), "memory": f"{gigabytes}G"}, {})] * _MANY
        for user, (cpus, gigabytes) in _TASKS.items()
    }
    return cluster.share_out(groups)


def dominant_share(user: str, tasks: int) -> Fraction:
    """Return the larger of a user's shares of CPU and memory."""
    cpus, gigabytes = _TASKS[user]
    return max(Fraction(tasks * cpus, _CPUS), Fraction(tasks * gigabytes, _GIGABYTES))


def _cell(row: str, column: str, ours: float, reference: float) -> Cell:
    return Cell(row=row, column=column, ours=ours, reference=reference, tolerance=0.0)
