"""Resources as text: what is read, what is refused, and that it comes back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos.resources import DiskInfo, Reservation, ResourceKind, Resources
from strato.interop.mesos.resourcetext import parse, to_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cpus:2; mem : 1024 ;ports:[31000-31005, 32000-32001]", "cpus:2; mem:1024; ports:[31000-31005, 32000-32001]"),
        ("cpus(role1):1;cpus(role1):0.5", "cpus(role1):1.5"),
        ("cpus:1.0005", "cpus:1.001"),
        ("cpus:0;mem:1", "mem:1"),
        ("disks:{b,a,b}", "disks:{a, b}"),
        ("ports:[3-4,1-2]", "ports:[1-4]"),
        ("", ""),
    ],
)
def test_text_is_read(text: str, shown: str) -> None:
    assert to_text(parse(text)) == shown


def test_entries_without_a_role_get_the_default() -> None:
    assert parse("cpus:1;mem(b):2", "a") == parse("cpus(a):1;mem(b):2")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cpus", "expected name:value"),
        ("cpus:", "'' is no number"),
        ("cpus:-1", "is no number"),
        ("cpus:nan", "is no number"),
        ("cpus:1:2", "expected name:value"),
        ("cpus:0.0004", "less than 0.001"),
        ("cpus:1e30", "is more than"),
        ("cpus:1e999999999", "is more than"),
        ("cpus(/a):1", "cannot start with a slash"),
        ("cpus(role1:1", "expected name:value"),
        ("ports:[5-3]", "last number is before its first"),
        ("ports:[1-99999999999999999999999]", "is no range"),
        ("ports:[a-b]", "expected FIRST-LAST"),
        ("os:linux", "is no number"),
        ("cpus:1;cpus:[1-2]", "one name keeps one type"),
        ("a:x;b:y", "'b:y'"),
        ("x" * (1 << 21), "at most"),
    ],
)
def test_bad_text_says_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse(text)
    assert part in str(caught.value)


def test_everything_of_a_kind_is_shown() -> None:
    layers = (Reservation("a"), Reservation("a/b", dynamic=True, principal="p", labels=(("k", "v"),)))
    volume = ResourceKind("disk", reservations=layers, disk=DiskInfo("v1"), shared=True, allocated_to="a/b/c")
    text = to_text(Resources.of([(volume, 5000), (volume, 5000), (ResourceKind("cpus", revocable=True), 1)]))
    assert text == (
        "disk(allocated: a/b/c)(reservations: [(STATIC,a),(DYNAMIC,a/b,p,{k: v})])[v1]<SHARED>:5 x2; cpus{REV}:0.001"
    )


@given(
    st.lists(st.tuples(st.sampled_from(["cpus", "mem"]), st.sampled_from(["", "(a)", "(a/b)"]), st.integers(0, 10**9)))
)
def test_text_comes_back(entries: list[tuple[str, str, int]]) -> None:
    text = ";".join(f"{name}{role}:{millis / 1000}" for name, role, millis in entries)
    assert parse(to_text(parse(text))) == parse(text)


@given(st.text(st.sampled_from("cpus:;()[]{},-.1 \n"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse(text)
