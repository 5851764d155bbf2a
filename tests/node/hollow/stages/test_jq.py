"""The part of jq that stages use."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.node.hollow.stages.jq import BadQuery, compile_query, execute

POD: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "5", "none": None}, "ownerReferences": [{"kind": "Job"}, {"kind": "X"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}], "n": 3},
}
CASES: list[tuple[str, list[Any] | None]] = [
    (".", [POD]),
    (".status.n", [3]),
    (".status.nothing", []),
    (".status.nothing.more", []),
    ('.metadata.annotations["a.b/c"]', ["5"]),
    ('.metadata.annotations."a.b/c"', ["5"]),
    ('.["status"].n', [3]),
    (".metadata.annotations.none", []),
    (".metadata.ownerReferences.[].kind", ["Job", "X"]),
    (".metadata.ownerReferences[].kind", ["Job", "X"]),
    (".metadata.ownerReferences[0].kind", ["Job"]),
    (".metadata.ownerReferences[5].kind", []),
    ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["True"]),
    ('.status.conditions[] | select(.type == "Ready" and .status != "True")', []),
    ('.status.conditions[] | select(.type == "X" or .status == "False") | .type', ["Other"]),
    (".status.nothing.[]", None),
    (".status.nothing[]?", []),
    (".status.n.deeper", None),
    ('.status.nothing // "d"', ["d"]),
    (".status.nothing[] // 1", [1]),
    (".status.n > 2", [True]),
    (".status.n >= 4", [False]),
    (".status.n == true", [False]),
    ('(.status | has("n")), (.metadata | length)', [True, 2]),
    (".status.conditions | map(.type) | length", [2]),
    ('.status.conditions | any(.status == "False")', [True]),
    ('.status.conditions | all(.status == "False") | not', [True]),
    ('.metadata.annotations["a.b/c"] | tonumber', [5]),
    ("first(.metadata.ownerReferences[]) | .kind", ["Job"]),
    (".metadata.ownerReferences | last | .kind", ["X"]),
    ('.metadata.ownerReferences[].kind | select(startswith("J"))', ["Job"]),
    (".status | keys", [["conditions", "n"]]),
    (".status.n | type", ["number"]),
    ("true and null", [False]),
]


@pytest.mark.parametrize(("query", "want"), CASES, ids=[query for query, _ in CASES])
def test_a_query_yields_what_jq_does(query: str, want: list[Any] | None) -> None:
    assert execute(compile_query(query), POD) == want


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", "ends where a value is expected"),
        (".a |", "ends where a value is expected"),
        (".a )", "')' is not understood"),
        ("[.a]", "'[' is not understood"),
        ("{a: 1}", "'{a: 1}' is not understood"),
        ('.a | test("x")', "test/1 is not understood here; known: all, any"),
        (".a + 1", "'+ 1' is not understood"),
        ("select(.a", "')' is expected"),
        ("(" * 100 + "." + ")" * 100, "nested too deeply"),
        ("." * 3000, "more than 2048 characters"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(query: str, problem: str) -> None:
    with pytest.raises(BadQuery) as refused:
        compile_query(query)
    assert problem in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
PIECES = st.lists(st.sampled_from([".a", ".b", "[]", "[0]", "?", " | ", "select(.a)", "==", '"x"', "(", ")", " and "]))


@given(PIECES, JSON)
def test_no_text_and_no_value_is_a_surprise(pieces: list[str], value: object) -> None:
    with contextlib.suppress(BadQuery):
        found = execute(compile_query("".join(pieces)), value)
        assert found is None or all(one is not None for one in found)
