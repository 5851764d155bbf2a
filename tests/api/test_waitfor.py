"""Conditions of ``kubectl wait --for``, read and judged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.waitfor import parse_expectation

READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}], "phase": "Bound", "n": 3, "on": True}}
LABELLED = {"metadata": {"labels": {"app.kubernetes.io/name": "db"}}, "items": [{"x": "first"}]}


@pytest.mark.parametrize(
    ("text", "obj", "verdict"),
    [
        pytest.param("create", None, "does not exist", id="nothing there"),
        pytest.param("create", {}, "", id="there"),
        pytest.param("delete", {}, "is still there", id="to be gone"),
        pytest.param("delete", None, "", id="gone"),
        pytest.param("condition=Ready", READY, "has Ready=False", id="another status"),
        pytest.param("condition=ready=false", READY, "", id="the case does not count"),
        pytest.param("condition=Bound", READY, "has no condition 'Bound'", id="no such condition"),
        pytest.param("condition=Ready", None, "does not exist", id="a condition of nothing"),
        pytest.param(
            "condition=Ready", {"status": {"conditions": [None, 3]}}, "has no condition 'Ready'", id="rubbish"
        ),
        pytest.param("jsonpath={.status.phase}=Bound", READY, "", id="a value"),
        pytest.param("jsonpath={.status.phase}='Bound'", READY, "", id="a value in quotes"),
        pytest.param("jsonpath={.status.phase}=Lost", READY, "has 'Bound' there", id="another value"),
        pytest.param("jsonpath={.status.n}=3", READY, "", id="a number"),
        pytest.param("jsonpath={.status.on}=true", READY, "", id="a truth value"),
        pytest.param("jsonpath={.status.phase}", READY, "", id="any value"),
        pytest.param("jsonpath={.status.none}", READY, "has no such value yet", id="no value"),
        pytest.param("jsonpath={.status}=x", READY, "has more than one value there", id="an object"),
        pytest.param("jsonpath={.metadata.labels['app.kubernetes.io/name']}=db", LABELLED, "", id="a quoted member"),
        pytest.param("jsonpath={.items[0].x}=first", LABELLED, "", id="an element"),
        pytest.param("jsonpath={.items[7].x}=first", LABELLED, "has no such value yet", id="no such element"),
    ],
)
def test_verdict(text: str, obj: dict[str, Any] | None, verdict: str) -> None:
    assert parse_expectation(text).verdict(obj) == verdict


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is none of create, delete"),
        ("Ready", "is none of create, delete"),
        ("condition=", "is none of"),
        ("jsonpath={.a", "is none of"),
        ("jsonpath={}", "the path is empty"),
        ("jsonpath={.a}b", "goes on after the path"),
        ("jsonpath={.a[*]}", "no path of members"),
        ("jsonpath={" + ".a" * 600 + "}", "longer than 1024"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_expectation(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "status"]), JSON), st.sampled_from([".a", ".a.b", ".a[0]", ".status.a"])
)
def test_whatever_an_object_holds_gets_a_verdict(obj: dict[str, Any], path: str) -> None:
    assert isinstance(parse_expectation(f"jsonpath={{{path}}}=x").verdict(obj), str)
    assert isinstance(parse_expectation("condition=a").verdict(obj), str)
