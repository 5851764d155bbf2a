"""Solves a DIMACS file (`strato flow solve`), after merging equal tasks and machines, of which clusters consist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from strato.errors import InvalidInput, Problem
from strato.mincost.arrays import Int64s
from strato.mincost.dimacs import Instance, parse
from strato.mincost.merge import merge
from strato.mincost.network import NetworkError
from strato.mincost.solver import Solution, Solver, SolveStatus


def solve_file(path: Path, solver: Solver | None = None) -> Iterator[str]:
    """Read a problem, solve it and write its solution as lines: the winner, the objective, the arcs with flow.

    Raises:
        InvalidInput: The file cannot be read as a problem, or the problem is infeasible.
    """
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            instance = parse(lines, str(path))
        instance.check()
    except OSError as err:
        raise InvalidInput(str(path), [Problem("", f"cannot be read: {err.strerror}")]) from err
    except NetworkError as err:
        raise InvalidInput(str(path), [_counted_from_one(p) for p in err.problems]) from err
    solver = solver or Solver()
    merged = solve_merged(instance, solver)
    if merged is not None:
        solution, objective, flow = merged
    else:
        network = instance.to_network()
        solution = solver.solve(network)
        if solution.outcome is not SolveStatus.OPTIMAL:
            node = f"; node {solution.unserved + 1} keeps supply or demand" if solution.unserved >= 0 else ""
            what = f"is {solution.outcome.value}: no flow meets all supplies{node}"
            raise InvalidInput(str(path), [Problem("", what)])
        objective, flow = solution.objective, network.arc_flow()
    yield f"c solved by {solution.winner.value}\n"
    yield f"s {objective}\n"
    for arc in np.flatnonzero(flow).tolist():
        yield f"f {instance.tail[arc] + 1} {instance.head[arc] + 1} {flow[arc]}\n"


def solve_merged(instance: Instance, solver: Solver) -> tuple[Solution, int, Int64s] | None:
    """Return the merged problem's solution, the optimum and the flow of the given problem.

    None when it is infeasible, or when sums of merged arcs exceed the range of numbers, so that the original problem
    has to be solved.
    """
    if not len(instance.tail):
        return None
    reduced = merge(instance)
    try:
        network = reduced.instance.to_network()
    except NetworkError:
        return None
    solution = solver.solve(network)
    if solution.outcome is not SolveStatus.OPTIMAL:
        return None
    return solution, solution.objective + reduced.offset, reduced.expand(network.arc_flow())


def _counted_from_one(problem: Problem) -> Problem:
    """Return a problem with numbers counted from 1, as in files, instead of from 0, as in arrays."""
    words = problem.where.split()
    shifted = " ".join(_shift(word) for word in words)
    return Problem(shifted, problem.message)


def _shift(word: str) -> str:
    digits = word.strip("()")
    return word.replace(digits, str(int(digits) + 1)) if digits.lstrip("-").isdigit() else word
