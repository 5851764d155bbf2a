"""DIMACS files: what is read, what is written, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.errors import InvalidInput
from strato.mincost.dimacs import format_problem, parse
from strato.mincost.solvefile import solve_file

PROBLEM = "c tiny\np min 3 3\nn 1 2\nn 3 -2\na 1 2 0 2 1\na 1 3 0 1 5\na 2 3 0 1 1\n"


def test_a_file_is_solved_and_its_problem_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "p.min"
    path.write_text(PROBLEM)
    assert list(solve_file(path))[1:] == ["s 7\n", "f 1 2 1\n", "f 1 3 1\n", "f 2 3 1\n"]
    instance = parse(PROBLEM.splitlines())
    again = parse(list(format_problem(instance)))
    assert (again.cost == instance.cost).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2 0 1 1\n", "line 1: comes before the line 'p min"),
        ("p min 2 1\na 1 5 0 1 1\n", "line 2: unknown node 5"),
        ("p min 2 1\na 1 2 0 x 1\n", "line 2"),
        ("p min 2 2\na 1 2 0 1 1\n", "announces 2 arcs and lists 1"),
        ("p min 2 1\nn 1 1\na 1 2 0 1 1\n", "sum to 1"),
        ("p min 2 1\na 1 2 3 1 1\n", "below the lower bound 3"),
        ("p min 2 1\nn 1 2\nn 2 -2\na 1 2 0 1 1\n", "infeasible"),
        ("", "has no line"),
    ],
    ids=[
        "arcs first",
        "unknown node",
        "no number",
        "arc missing",
        "unbalanced",
        "crossed bounds",
        "infeasible",
        "empty",
    ],
)
def test_bad_files_say_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.min"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        list(solve_file(path))
    assert message in str(caught.value)
