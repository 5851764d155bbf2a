"""DIMACS minimum-cost-flow files: read problems, write problems and solutions.

Lines: ``c`` comment, ``p min NODES ARCS``, ``n ID SUPPLY``, ``a SRC DST LOW CAP COST``; in solutions
``s OBJECTIVE`` and ``f SRC DST FLOW``. Nodes count from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strato.errors import InvalidInput, Problem
from strato.flow.network import Int64s, Network, NetworkError
from strato.flow.solver import Outcome, Solution, Solver

_MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem as written: arcs in file order, nodes from 0."""

    supply: Int64s
    tail: Int64s
    head: Int64s
    lower: Int64s
    capacity: Int64s
    cost: Int64s

    def to_network(self) -> Network:
        """Build the network.

        Raises:
            NetworkError: The numbers make no solvable network.
        """
        return Network.from_arcs(self.supply, self.tail, self.head, self.cost, self.capacity, self.lower)


def parse(lines: Iterable[str], name: str = "input") -> Instance:
    """Read a problem.

    Raises:
        InvalidInput: Lines that cannot be read, each with its number (the first ten).
    """
    problems: list[Problem] = []
    supply: Int64s | None = None
    arcs: list[tuple[int, ...]] = []
    announced = 0
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0] == "c":
            continue
        try:
            if words[0] == "p":
                announced, supply = int(words[3]), _problem_line(words, supply)
            elif supply is None:
                raise ValueError("comes before the line 'p min NODES ARCS'")
            elif words[0] == "n":
                node, amount = _integers(words, 2)
                supply[_node(node, supply)] = amount
            elif words[0] == "a":
                tail, head, low, cap, cost = _integers(words, 5)
                arcs.append((_node(tail, supply), _node(head, supply), low, cap, cost))
            else:
                raise ValueError(f"unknown line type {words[0]!r}; expected c, p, n or a")
        except (ValueError, IndexError, OverflowError) as err:
            problems.append(Problem(f"{name}: line {number}", f"{err} (in {line.strip()!r})"))
            if len(problems) == _MOST_PROBLEMS:
                break
    if supply is None:
        problems.append(Problem(name, "has no line 'p min NODES ARCS'"))
    elif len(arcs) != announced and not problems:
        problems.append(Problem(name, f"announces {announced} arcs and lists {len(arcs)}"))
    if problems or supply is None:
        raise InvalidInput(name, problems)
    columns = np.array(arcs, np.int64).reshape(-1, 5).T.copy()
    return Instance(supply, columns[0], columns[1], columns[2], columns[3], columns[4])


def _problem_line(words: list[str], supply: Int64s | None) -> Int64s:
    if supply is not None:
        raise ValueError("a second problem line")
    if len(words) != 4 or words[1] != "min":
        raise ValueError("the problem line must read 'p min NODES ARCS'")
    nodes = int(words[2])
    if not 0 <= nodes < 1 << 31:
        raise ValueError(f"{nodes} nodes; at most 2^31 − 1")
    return np.zeros(nodes, np.int64)


def _integers(words: list[str], count: int) -> list[int]:
    if len(words) != count + 1:
        raise ValueError(f"{len(words) - 1} numbers where {count} belong")
    numbers = [int(word) for word in words[1:]]
    for value in numbers:
        if abs(value) >= 1 << 62:
            raise ValueError(f"{value} does not fit 63 bits")
    return numbers


def _node(number: int, supply: Int64s) -> int:
    if not 1 <= number <= len(supply):
        raise ValueError(f"unknown node {number}; nodes are 1 to {len(supply)}")
    return number - 1


def format_problem(instance: Instance) -> Iterator[str]:
    """Write a problem as lines."""
    yield f"p min {len(instance.supply)} {len(instance.tail)}\n"
    for node in np.flatnonzero(instance.supply).tolist():
        yield f"n {node + 1} {instance.supply[node]}\n"
    columns = (instance.tail + 1, instance.head + 1, instance.lower, instance.capacity, instance.cost)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield "a {} {} {} {} {}\n".format(*row)


def format_solution(instance: Instance, solution: Solution, network: Network) -> Iterator[str]:
    """Write a solution as lines: the winner, the objective, and the arcs with flow."""
    yield f"c solved by {solution.winner.value}\n"
    yield f"s {solution.objective}\n"
    flow = network.arc_flow()
    used = np.flatnonzero(flow)
    for arc in used.tolist():
        yield f"f {instance.tail[arc] + 1} {instance.head[arc] + 1} {flow[arc]}\n"


def solve_file(path: Path, solver: Solver | None = None) -> Iterator[str]:
    """Read a problem, solve it and write its solution as lines (``strato flow solve FILE``).

    Raises:
        InvalidInput: The file cannot be read as a problem, or nothing can satisfy it.
    """
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            instance = parse(lines, str(path))
        network = instance.to_network()
    except OSError as err:
        raise InvalidInput(str(path), [Problem("", f"cannot be read: {err.strerror}")]) from err
    except NetworkError as err:
        raise InvalidInput(str(path), [_counted_from_one(p) for p in err.problems]) from err
    solution = (solver or Solver()).solve(network)
    if solution.outcome is not Outcome.OPTIMAL:
        node = f"; node {solution.unserved + 1} keeps supply or demand" if solution.unserved >= 0 else ""
        raise InvalidInput(str(path), [Problem("", f"is {solution.outcome.value}: no flow meets all supplies{node}")])
    yield from format_solution(instance, solution, network)


def _counted_from_one(problem: Problem) -> Problem:
    """Arcs and nodes of a file are counted from 1, arrays from 0."""
    words = problem.where.split()
    shifted = " ".join(_shift(word) for word in words)
    return Problem(shifted, problem.message)


def _shift(word: str) -> str:
    digits = word.strip("()")
    return word.replace(digits, str(int(digits) + 1)) if digits.lstrip("-").isdigit() else word
