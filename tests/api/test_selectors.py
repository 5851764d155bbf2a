from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.selectors import (
    EVERYTHING,
    NOTHING,
    InvalidSelector,
    Requirement,
    from_label_selector,
    parse_field_selector,
    parse_selector,
)
from strato.api.shapes import LabelSelector, LabelSelectorRequirement

MATCHES = [
    ("a=b", {"a": "b"}, True),
    ("a=b", {"a": "c"}, False),
    ("a==b,c", {"a": "b", "c": ""}, True),
    ("a!=b", {}, True),
    ("a in (x, y)", {"a": "y"}, True),
    ("a notin (x)", {"a": "x"}, False),
    ("!a", {"a": ""}, False),
    ("a>4", {"a": "5"}, True),
    ("a<4", {"a": "x"}, False),
    ("a=", {"a": ""}, True),
    ("", {"any": "thing"}, True),
]


@pytest.mark.parametrize(("text", "labels", "want"), MATCHES)
def test_selector_matches(text: str, labels: dict[str, str], want: bool) -> None:
    assert parse_selector(text).matches(labels) is want


ERRORS = [
    ("a=b=", "found '=', expected: ',' or 'end of string'"),
    ("a in ()", "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("x,", "found '', expected: identifier after ','"),
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("-a=b", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist'),
    ("a=-b-", 'unable to parse requirement: values[0][a]: Invalid value: "-b-": a valid label must be'),
    ("a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators"),
]


@pytest.mark.parametrize(("text", "want"), ERRORS)
def test_selector_errors_are_worded_as_kubernetes_words_them(text: str, want: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector(text)
    assert str(caught.value).startswith(want)


@given(st.text(alphabet="ab=!(),<> in", max_size=20))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except InvalidSelector:
        return
    assert parse_selector(str(selector)) is not None


def test_absent_selects_nothing_and_empty_everything() -> None:
    assert from_label_selector(None) is NOTHING
    assert from_label_selector(LabelSelector()) is EVERYTHING
    bad = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Foo"),))
    with pytest.raises(InvalidSelector):
        from_label_selector(bad)


def test_field_selector_escapes_and_indexes() -> None:
    selector = parse_field_selector(r"spec.nodeName=n1,metadata.name!=a\,b\=c")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("metadata.name") is None
    values = {"spec.nodeName": "n1", "metadata.name": "a,b=c"}
    assert not selector.matches(values.__getitem__)
    assert parse_field_selector(str(selector)) == selector


def test_field_selector_names_the_term_it_does_not_understand() -> None:
    with pytest.raises(InvalidSelector, match="invalid selector: 'foo'; can't understand 'foo'"):
        parse_field_selector("foo")


@pytest.mark.parametrize(
    "text", ["a" * (1 << 19), "a," * (1 << 17), "\\" * (1 << 17), "a=" + "\\," * (1 << 17)], ids=len
)
def test_field_selectors_of_any_length_are_read_in_linear_time(text: str) -> None:
    """The first once took a minute."""
    with contextlib.suppress(InvalidSelector):
        parse_field_selector(text)


REQUIREMENTS = st.one_of(
    st.builds("{}={}".format, st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"])),
    st.builds("{}!={}".format, st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"])),
    st.builds(
        "{} in ({})".format,
        st.sampled_from("abc"),
        st.lists(st.sampled_from(["1", "2", "x"]), min_size=1).map(",".join),
    ),
    st.builds(
        "{} notin ({})".format, st.sampled_from("abc"), st.lists(st.sampled_from(["1", "2"]), min_size=1).map(",".join)
    ),
    st.builds("{}{}{}".format, st.sampled_from("abc"), st.sampled_from("<>"), st.integers(0, 3)),
    st.sampled_from(["a", "b", "!a", "!c"]),
)
LABELS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "0", "1", "2", "3", "x"]))


def satisfies(requirement: Requirement, labels: dict[str, str]) -> bool:
    """Whether labels satisfy one requirement, by the words of the API's documentation."""

    def integer(text: str) -> int | None:
        return int(text) if text.lstrip("-").isdecimal() else None

    actual = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return actual is not None and actual in requirement.values
        case "NotIn":
            return actual is None or actual not in requirement.values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    left, right = integer(actual or ""), integer(requirement.values[0])
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


@given(st.lists(REQUIREMENTS, min_size=1, max_size=30), LABELS)
def test_many_requirements_put_together_match_as_each_of_them(texts: list[str], labels: dict[str, str]) -> None:
    selector = parse_selector(",".join(texts))
    assert selector.matches(labels) is all(satisfies(requirement, labels) for requirement in selector.requirements)


@given(
    st.lists(
        st.builds(
            "{}{}{}".format, st.sampled_from("abc"), st.sampled_from(["=", "!="]), st.sampled_from(["", "1", "2"])
        ),
        min_size=1,
        max_size=30,
    ),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"])),
)
def test_many_fields_put_together_match_as_each_of_them(texts: list[str], values: dict[str, str]) -> None:
    selector = parse_field_selector(",".join(texts))
    each = [(values.get(one.field, "") == one.value) is not one.negated for one in selector.requirements]
    assert selector.matches(lambda name: values.get(name, "")) is all(each)


def test_an_object_is_compared_with_few_of_many_requirements() -> None:
    class Counted(dict[str, str]):
        looks = 0

        def __contains__(self, key: object) -> bool:
            Counted.looks += 1
            return super().__contains__(key)

        def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]  # a double
            Counted.looks += 1
            return super().get(key, default)

    selector = parse_selector(",".join(f"k{n}!=v" for n in range(500)))
    assert selector.matches(Counted(a="1"))
    assert Counted.looks < 20
