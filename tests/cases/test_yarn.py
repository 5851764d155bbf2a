"""YARN's two schedulers: answers of Hadoop's own classes, as data."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import yarnfair

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "yarn"
FILES = sorted(_FOLDER.glob("*.json"))

try:
    _CAPACITY: Any = importlib.import_module("tests.cases.yarncapacity")
except ModuleNotFoundError:
    _CAPACITY = None
CHECKS: dict[str, Any] = {**yarnfair.CHECKS, **getattr(_CAPACITY, "CHECKS", {})}
"""By ``fn`` of a case what compares it: returns complaints, none when all is as expected."""


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        found += [pytest.param(case, id=f"{path.stem}/{case['id']}") for case in msgspec.json.decode(path.read_bytes())]
    return found


@pytest.mark.skipif(not FILES, reason="no cases; set STRATO_CASES to the folder that holds yarn/")
def test_cases_are_there() -> None:
    assert _cases()


@pytest.mark.parametrize("case", _cases())
def test_yarn_case(case: dict[str, Any]) -> None:
    check = CHECKS.get(case["fn"])
    if check is None:
        pytest.skip(f"cases of function {case['fn']} are not asked yet")
    assert check(case) == []
