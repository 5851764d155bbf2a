"""Files of users are read strictly: whatever they hold, all that is wrong is named, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strato.errors import InvalidInput, Problem, UsageError
from strato.sim.documents import Document
from strato.sim.load.experiment import MEASURES, read_test
from strato.sim.traces.formats.mapping import read_mapping
from strato.sim.traces.input import InputFile

_KEYS = st.sampled_from(
    [
        "kind",
        "nodes",
        "load",
        "trace",
        "rate",
        "faults",
        "at",
        "failure",
        "names",
        "expectations",
        "min",
        "max",
        "files",
    ]
    + ["columns", "submit", "run_time", "column", "unit", "value", "start", "filters", "in", "header", *MEASURES[:3]]
)
_LEAVES = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text(max_size=8) | _KEYS
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6), max_leaves=20
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(_KEYS, _VALUES, max_size=8), st.sampled_from(["LoadTest", "TraceMapping"]))
def test_any_document_is_read_or_refused_with_places(tmp_path: Path, document: dict[str, object], kind: str) -> None:
    path = tmp_path / "document.yaml"
    path.write_bytes(msgspec.json.encode({**document, "kind": kind}))
    problems: tuple[Problem, ...] = ()
    try:
        read_test(path) if kind == "LoadTest" else read_mapping(InputFile(path))
    except InvalidInput as error:
        problems = error.problems
    assert all(problem.where.startswith(str(path)) for problem in problems)


def test_values_are_checked_and_all_problems_come_at_once() -> None:
    document = Document("the file", "f.yaml")
    assert document.mapping("", {"a": 1, "colour": 2}, ("a", "colours")) == {"a": 1}
    assert document.items("list", None) == []
    assert document.texts("names", ["a", 2]) == ("a", "2")
    assert document.whole("count", 2.5) == 2
    assert document.number("share", float("inf")) == 0.0
    assert document.text("name", 5) == ""

    def refuse() -> None:
        raise UsageError("no good")

    assert document.tried("rate", refuse) is None
    with pytest.raises(InvalidInput) as raised:
        document.raise_any()
    assert [problem.where for problem in raised.value.problems] == [
        "f.yaml: colour",
        "f.yaml: count",
        "f.yaml: share",
        "f.yaml: name",
        "f.yaml: rate",
    ]
    assert "did you mean 'colours'" in raised.value.problems[0].message
