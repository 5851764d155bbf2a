"""Defaults and causes against what a real kube-apiserver 1.36.3 answered to the same objects (dryRun=All)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog, defaults, status, validation
from strato.errors import BadRequest

DATA = Path(__file__).parent / "data"
CASES = [
    case for name in ("kube", "volume", "security") for case in json.loads((DATA / f"{name}_answers.json").read_text())
]
KINDS = {kind.resource: kind for kind in catalog.BUILTIN}
IDS = [f"{case['kind']} {index}" for index, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_answer_is_that_of_the_real_server(case: dict[str, Any]) -> None:
    kind = KINDS[case["kind"]]
    obj = copy.deepcopy(case["object"])
    if kind.namespaced:
        obj["metadata"]["namespace"] = "default"
    if kind.has_status:
        defaults.initial_status(kind, obj)
    defaults.apply_defaults(kind, obj)
    causes = validation.validate_create(kind, obj)
    if "message" in case:
        error = status.invalid(kind, case["object"]["metadata"]["name"], causes)
        assert error.message == case["message"]
        got = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
        assert [c["field"] for c in got] == [c["field"] for c in case["causes"]]
        assert [c["message"] for c in got] == [c["message"] for c in case["causes"]]
        assert [c["reason"] for c in got] == [c["reason"] for c in case["causes"]]
    else:
        assert causes == []
        assert {key: value for key, value in obj.items() if key != "metadata"} == case["result"]


def test_defaulting_twice_changes_nothing() -> None:
    for case in CASES:
        kind = KINDS[case["kind"]]
        obj = copy.deepcopy(case["object"])
        defaults.apply_defaults(kind, obj)
        once = copy.deepcopy(obj)
        defaults.apply_defaults(kind, obj)
        assert obj == once


def test_a_controller_revision_always_has_a_number() -> None:
    """Found by `python -m tests.differential --seed 20261129`."""
    obj = {"metadata": {"name": "x"}, "data": {}}
    defaults.apply_defaults(catalog.CONTROLLERREVISION, obj)
    assert obj["revision"] == 0


@pytest.mark.parametrize("spec", [[], "x", {"containers": "x"}, {"containers": [1]}, {"containers": {"a": 1}}])
def test_wrong_types_are_bad_requests(spec: object) -> None:
    obj = {"metadata": {"name": "x", "namespace": "d"}, "spec": spec}

    def write() -> None:
        defaults.apply_defaults(catalog.POD, obj)
        validation.validate_create(catalog.POD, obj)

    with pytest.raises(BadRequest, match=r"cannot be handled as a Pod"):
        write()
