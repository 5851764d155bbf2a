"""Kubeflow's training operator: its tests as data, and situations that were run through its code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.register_assert_rewrite("tests.cases.training", "tests.cases.trainingrules")
from tests.cases import training, trainingrules  # noqa: E402 (their asserts are shown in full)

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "training"
FILES = sorted(_FOLDER.glob("*.json"))

NOT_SERVED = ("MPIJob/v1", "MPIJob/v2beta1")
"""Kinds that are not run yet, and have no definition."""


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        for case in msgspec.json.decode(path.read_bytes()).get("cases", ()):
            marks = [pytest.mark.skip(reason="the kind is not served")] if case["kind"] in NOT_SERVED else []
            found.append(pytest.param(path.stem, case, id=case["id"], marks=marks))
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
    else:
        outcome = training.run(case)
        training.check_asserted(case, outcome)
        if "actual" in case["expect"]:
            training.check_actual(case, outcome)
