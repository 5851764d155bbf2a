"""Roles: names and their hierarchy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos import roles


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ("", "Role names cannot be the empty string"),
        ("/a", "Role '/a' cannot start with a slash"),
        ("a/", "Role 'a/' cannot end with a slash"),
        ("a//b", "Role 'a//b' cannot contain two adjacent slashes"),
        ("a/../b", "Role 'a/../b' cannot include '..' as a component"),
        ("a/*", "Role 'a/*' cannot include '*' as a component"),
        ("-a", "Role component '-a' is invalid because it starts with a dash"),
        ("a\x7fb", "Role component 'a\x7fb' is invalid because it contains backspace or whitespace"),
        ("a" * 5000, "Role name of 5000 characters is longer than 4096"),
        ("*", None),
        ("Upper_case.and/dots", None),
    ],
)
def test_names_are_checked(role: str, problem: str | None) -> None:
    assert roles.problem_of(role) == problem


def test_the_first_bad_role_of_a_list_is_named() -> None:
    with pytest.raises(ValueError, match=r"cannot include '\.' as a component"):
        roles.parse_list("a,.,b")
    assert roles.parse_list(",a,,b/c,") == ["a", "b/c"]


PATHS = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map("/".join)


@given(PATHS, PATHS)
def test_a_role_is_below_its_ancestors_and_no_others(role: str, other: str) -> None:
    assert roles.is_subrole(role, other) is (other in list(roles.ancestors(role)))
    assert [*roles.ancestors(role)][-1:] in ([], [roles.top_level(role)])
    assert roles.problem_of(role) is None
