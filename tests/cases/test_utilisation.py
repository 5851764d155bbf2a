"""The utilisation layer: tables of Koordinator's and the vertical autoscaler's tests, and worked examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import utilisation

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "utilisation"
FILES = sorted(_FOLDER.glob("*.json"))


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        table = msgspec.json.decode(path.read_bytes())
        found += [pytest.param(table["kind"], case, id=case["id"]) for case in table["cases"]]
    return found


@pytest.mark.skipif(not FILES, reason="no cases; set STRATO_CASES to the folder that holds utilisation/")
def test_cases_are_there() -> None:
    assert _cases()


@pytest.mark.parametrize(("kind", "case"), _cases())
def test_utilisation_case(kind: str, case: dict[str, Any]) -> None:
    name = f"{kind}/{case['input']['do']}" if kind == "strato" else kind
    if name not in utilisation.CHECKS:
        pytest.skip(f"cases of kind {name} are not asked yet")
    assert utilisation.check(kind, case) == []
