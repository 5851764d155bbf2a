"""Kubeflow's training operator: its tests as data, and situations that were run through its code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.register_assert_rewrite("tests.cases.training", "tests.cases.trainingrules", "tests.cases.mpi")
from tests.cases import mpi, training, trainingrules  # noqa: E402 (their asserts are shown in full)

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "training"
FILES = sorted(_FOLDER.glob("*.json"))


def _cases() -> list[Any]:
    found: list[Any] = []
    for path in FILES:
        cases = msgspec.json.decode(path.read_bytes()).get("cases", ())
        found += [pytest.param(path.stem, case, id=case["id"]) for case in cases]
    return found


@pytest.mark.skipif(not FILES, reason="no cases; set STRATO_CASES to the folder that holds training/")
def test_cases_are_there() -> None:
    assert _cases()


@pytest.mark.parametrize(("table", "case"), _cases())
def test_training_case(table: str, case: dict[str, Any]) -> None:
    kind = case["kind"]
    if kind == "function":
        trainingrules.check_rule(table, case)
    elif kind == "defaults":
        trainingrules.check_defaults(case)
    elif kind.endswith("/admission"):
        trainingrules.check_admission(case)
    elif kind.startswith("MPIJob/"):
        mpi.check(table, case)
    else:
        outcome = training.run(case)
        training.check_asserted(case, outcome)
        if "actual" in case["expect"]:
            training.check_actual(case, outcome)
