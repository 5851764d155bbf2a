"""DIMACS minimum-cost-flow files: read and write problems.

Lines: ``c`` comment, ``p min NODES ARCS``, ``n ID SUPPLY``, ``a SRC DST LOW CAP COST``; in solutions
``s OBJECTIVE`` and ``f SRC DST FLOW``. Nodes count from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from strato.errors import InvalidInput, Problem
from strato.mincost.arrays import Int64s
from strato.mincost.network import Network, check_network

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

    def check(self) -> None:
        """Refuse what is no solvable network, without building one.

        Raises:
            NetworkError: As `to_network`.
        """
        check_network(self.supply, self.tail, self.head, self.cost, self.capacity, self.lower)

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
