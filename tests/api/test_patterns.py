"""Patterns of users: Go's syntax, linear time, bounded memory."""

import pytest

from strato.api.patterns import InvalidPattern, Pattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^\pL+\z", "äé", True),
        ("[[:alpha:]]", "1x", True),
        ("(?i)ABC", "xabcx", True),
        ("b", "a", False),
        ("a", "\ud800", False),
    ],
)
def test_patterns_match_as_in_go(pattern: str, text: str, want: bool) -> None:
    assert compile_pattern(pattern).is_in(text) is want


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repeat count"),
        ("((a{1000}){1000}){1000}", "invalid repeat count"),
        ("[^a]{1000}" * 100, "too large"),
        ("x" * 40_000, "characters at most"),
        ("\ud800", "UTF-8"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(InvalidPattern, match=words):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(.*)*b", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_what_backtracks_elsewhere_takes_linear_time_here(pattern: str) -> None:
    """Each of these takes a backtracking engine longer than the age of the universe."""
    assert not compile_pattern(pattern).is_in("a" * 5000 + "!" + "x" * 5000)


def test_a_text_too_long_for_its_pattern_does_not_match() -> None:
    assert not Pattern("(.*x.{900}y)|z").is_in("z" * 3_000_000)
    assert Pattern("z").is_in("z" * 3_000_000)
