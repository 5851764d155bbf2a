"""Mesos: tables of the allocator's, sorters' and resources' tests, and of the scheduler's endpoints."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import mesosrules

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "mesos"
FILES = sorted(_FOLDER.glob("*.json"))
_FRONT_DOOR = {"scheduler-http", "pymesos-call", "pymesos-session"}
"""Kinds that `tests.cases.mesoshttp` asks."""


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        table = msgspec.json.decode(path.read_bytes())
        name = path.stem.replace("_", "-")
        cases = table.get("cases", [table])  # a recorded session is one case
        found += [pytest.param(case.get("kind", name), case, id=case.get("id", name)) for case in cases]
    return found


@pytest.mark.skipif(not FILES, reason="no cases; set STRATO_CASES to the folder that holds mesos/")
def test_cases_are_there() -> None:
    assert _cases()


@pytest.mark.parametrize(("kind", "case"), _cases())
def test_mesos_case(kind: str, case: dict[str, Any]) -> None:
    checks = dict(mesosrules.CHECKS)
    if kind in _FRONT_DOOR and importlib.util.find_spec("tests.cases.mesoshttp") is not None:
        checks.update(importlib.import_module("tests.cases.mesoshttp").CHECKS)
    if kind not in checks:
        pytest.skip(f"cases of kind {kind} are not asked yet")
    assert checks[kind](case) == []
