"""Volcano's own scheduler tests as data: objects and configuration in, decisions out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import runner

CASES = runner.paths("cycle")


@pytest.mark.skipif(not CASES, reason="no cases; set STRATO_CASES to their directory")
def test_cases_are_there() -> None:
    assert len(CASES) > 0


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_cycle_case(path: Path) -> None:
    case = runner.load(path)
    assert runner.missing_parts(case) == []
    assert runner.run(case) == []
