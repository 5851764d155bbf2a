"""Answers of single extension points, from Volcano's own plugin tests as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import questions, runner

CASES = runner.paths("score")


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_score_case(path: Path) -> None:
    case = runner.load(path)
    assert runner.missing_parts(case) + questions.missing_questions(case) == []
    assert questions.ask(case) == []
