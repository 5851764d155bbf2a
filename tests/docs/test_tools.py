"""Programs of tools/ name folders and files that exist: they run seldom, and renames pass them by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*(ROOT / "tools").glob("*.py"), ROOT / "Makefile", ROOT / ".ci" / "run"])
_NAMED = re.compile(r"(?<![\w/.~-])(?:tests|src/strato|benchmarks)/[\w/.-]*[\w]")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_what_a_program_names_exists(program: Path) -> None:
    named = set(_NAMED.findall(program.read_text()))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
