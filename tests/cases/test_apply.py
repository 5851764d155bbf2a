"""Server-side apply and field management of structured-merge-diff and apimachinery as data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.register_assert_rewrite("tests.cases.applied", "tests.cases.appliedhttp")
from tests.cases import applied  # noqa: E402 (its asserts are shown in full)

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "apply"
FILES = sorted(_FOLDER.glob("*.json"))
TABLES = ("builtin-types", "reset-fields")


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        document = msgspec.json.decode(path.read_bytes())
        known = document.get("schemas") or {}
        cases = document.get("cases", ())
        found += [pytest.param(path.stem, known, case, id=f"{path.stem}/{case['id']}") for case in cases]
    return found


CASES = _cases()


@pytest.mark.skipif(not FILES, reason="no cases; set STRATO_CASES to the folder that holds apply/")
def test_cases_are_there() -> None:
    assert CASES


@pytest.mark.parametrize(("area", "schemas", "case"), CASES)
def test_apply_case(area: str, schemas: dict[str, Any], case: dict[str, Any]) -> None:
    applied.run(area, schemas, case)


@pytest.mark.parametrize("name", [path.stem for path in FILES if path.stem in TABLES])
def test_apply_table(name: str) -> None:
    applied.check_table(name, msgspec.json.decode((_FOLDER / f"{name}.json").read_bytes()))
