"""YAML of users: values as Kubernetes reads them, and nothing that recurses or multiplies."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api import yamltext
from strato.api.yamltext import MAX_DEPTH, InvalidYaml, load, load_document

SCALARS = [
    ("yes", True),
    ("On", True),
    ("y", True),
    ("n", False),
    ("off", False),
    ("~", None),
    ("Null", None),
    ("1_000", 1000),
    ("0x1F", 31),
    ("0b101", 5),
    ("0777", 511),
    ("0o17", 15),
    ("089", 89.0),
    ("1:30:00", "1:30:00"),
    ("1:30.5", "1:30.5"),
    ("2001-12-14", "2001-12-14"),
    ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("18446744073709551615", (1 << 64) - 1),
    ("18446744073709551616", 18446744073709551616.0),
    ("1e999", "1e999"),
    ("9" * 5000, "9" * 5000),
    ("'5'", "5"),
    ("!!str 5", "5"),
    ("!!float 5", 5.0),
    ("!!binary aGk=", "hi"),
    ("<<", "<<"),
    ("-", None),
]


@pytest.mark.parametrize(("text", "want"), SCALARS[:-1], ids=[text[:20] for text, _ in SCALARS[:-1]])
def test_scalars_are_what_kubernetes_makes_of_them(text: str, want: Any) -> None:
    found = load(text)
    assert found == want
    assert type(found) is type(want)


def test_keys_are_text_and_merges_do_not_override() -> None:
    assert load("1: a\ntrue: b\n1.5: c") == {"1": "a", "true": "b", "1.5": "c"}
    assert load("a: &a {p: 1, q: 1}\nb: {q: 2, <<: *a, r: 3}")["b"] == {"q": 2, "r": 3, "p": 1}
    assert load("a: &a {p: 1}\nb: {<<: [*a, {p: 2, q: 2}]}")["b"] == {"p": 1, "q": 2}


def test_an_alias_is_a_copy() -> None:
    found = load("a: &a [1]\nb: *a")
    found["a"].append(2)
    assert found["b"] == [1]


def test_keys_that_stand_twice_are_told_and_the_last_counts() -> None:
    document = load_document("a: 1\nb: {c: 1,\n c: 2}\na: 3")
    assert document.value == {"a": 3, "b": {"c": 2}}
    assert document.duplicates == ['line 3: key "c" already set in map', 'line 4: key "a" already set in map']


def _bomb(item: str, last: str) -> str:
    lines = ["a0: &a0 " + item]
    lines += [f"a{n}: &a{n} " + last % ",".join([f"*a{n - 1}"] * 10) for n in range(1, 40)]
    return "\n".join(lines)


HOSTILE = {
    "lists in lists": "[" * 50_000,
    "maps in maps": "{a: " * 50_000,
    "a list of a list": "- " * 50_000,
    "keys that are keys": "? " * 50_000,
    "aliases": _bomb("[x]", "[%s]"),
    "merge keys": _bomb("{a: 1, b: 2}", "{<<: [%s]}"),
    "deep aliases": "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 500)),
    "an alias of itself": "&a [*a]",
    "no document alone": "--- a\n--- b",
    "python": "!!python/object/apply:os.system [ls]",
    "a set": "!!set {a}",
    "no number": "!!int abc",
    "infinity": ".inf",
    "no number at all": ".nan",
    "broken binary": "!!binary %%%",
    "a list as key": "? [a]\n: b",
    "merging text": "<<: text\na: b",
    "a surrogate": "\ud800",
    "a control character": "\0",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_documents_are_refused(text: str) -> None:
    with pytest.raises(InvalidYaml):
        load(text, max_values=100_000)


TOO_DEEP = "exceeded max(imum nesting)? depth"
"""Our words, or those of a libyaml that has a limit too and reads a thousand brackets ahead."""


def test_work_is_bounded_before_anything_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in events: a document of 50,000 levels is left after the first that is too deep."""
    taken = 0
    take = yamltext._Composer.take

    def counting(self: yamltext._Composer, event: Any) -> None:
        nonlocal taken
        taken += 1
        take(self, event)

    monkeypatch.setattr(yamltext._Composer, "take", counting)
    with pytest.raises(InvalidYaml, match=TOO_DEEP):
        load("[" * 50_000)
    assert taken <= MAX_DEPTH + 4
    taken = 0
    with pytest.raises(InvalidYaml, match="aliasing"):
        load(_bomb("[x]", "[%s]"), max_values=10_000)
    assert taken < 200


def test_the_deepest_that_is_read() -> None:
    assert load("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    with pytest.raises(InvalidYaml):
        load("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0xD7FF, exclude_categories=("Cc", "Cs")))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    assert load(json.dumps({"a": value})) == {"a": value}


PIECES = st.sampled_from(
    ["a", ": ", "- ", "\n", " ", "[", "]", "{", "}", ", ", "&x ", "*x", "<<: ", "!!int ", "? ", "'", '"', "|\n"]
    + ["1:2", "---\n", "%TAG ", "#", "0x", "1e9", "~"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join) | st.binary(max_size=60))
def test_anything_is_read_or_refused(text: str | bytes) -> None:
    try:
        value = load(text, max_values=1000)
    except InvalidYaml:
        return
    msgspec.json.encode(value)
