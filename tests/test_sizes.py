"""How large files and constructors may be: what is larger holds more than one idea."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
ROOT = Path(__file__).parents[1] / "src/strato"
MOST_LINES = 450
LONGER = {"scheduler/model/jobs.py": 500}
"""A job, its parts and its tasks are types that name one another, and plugin authors read their attributes there."""
MOST_PARAMETERS = 8


def test_no_file_is_longer_than_one_idea() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: count for path, count in lines.items() if count > LONGER.get(path, MOST_LINES)} == {}
    assert all(lines[path] > MOST_LINES for path in LONGER), "a file that is short again needs no exception"


def test_no_constructor_takes_more_than_eight_parameters() -> None:
    found = {
        f"{path}: {node.name}": count
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for made in node.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if (count := len(made.args.posonlyargs + made.args.args + made.args.kwonlyargs) - 1) > MOST_PARAMETERS
    }
    assert found == {}
