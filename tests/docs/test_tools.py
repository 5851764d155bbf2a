"""Programs of tools/ name folders and files that exist: they run seldom, and renames pass them by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*(ROOT / "tools").glob("*.py"), ROOT / "Makefile", ROOT / ".ci" / "run"])
_NAMED = re.compile(r"(?<![\w/.~-])(?:tests|src/strato|benchmarks)/[\w/.*-]*[\w*]")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_what_a_program_names_exists(program: Path) -> None:
    named = set(_NAMED.findall(program.read_text()))
    assert sorted(name for name in named if not any(ROOT.glob(name))) == []


def test_what_is_judged_to_be_no_fault_can_be_read() -> None:
    judged = yaml.safe_load((ROOT / "tools" / "equivalent.yaml").read_text())
    assert judged
    for one in judged:
        assert one.keys() - {"nth"} == {"file", "function", "was", "now", "why"}
        assert (ROOT / "src" / "strato" / one["file"]).exists(), one
