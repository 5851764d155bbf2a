"""Errors of inputs: short whatever they are about."""

from strato.errors import InvalidInput, Problem, nearest


def test_a_long_text_is_not_quoted_for_each_of_its_problems() -> None:
    text = "x" * 100_000
    error = InvalidInput("the workload", [Problem(text, f"part {number} is wrong") for number in range(5000)])
    message = str(error)
    assert len(message) < 1_000_000
    assert all(f"part {number} is wrong" in message for number in (0, 999))
    assert message.endswith("\n  and 4000 more")
    assert len(error.problems) == 5000


def test_a_hint_lists_some_of_very_many_names() -> None:
    hint = nearest("zzz", [f"a{number}" for number in range(20_000)])
    assert len(hint) < 2_000
    assert hint.endswith(" and 19800 more")
    assert nearest("zzz", ["a", "b"]) == "; known: a, b"
