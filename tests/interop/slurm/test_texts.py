"""Times and lists of hosts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.slurm.texts import elapsed, elapsed_full, hostlist


@pytest.mark.parametrize(
    ("seconds", "short", "full"),
    [
        (0, "0:00", "00:00:00"),
        (65.9, "1:05", "00:01:05"),
        (3723, "1:02:03", "01:02:03"),
        (2 * 86400 + 5, "2-00:00:05", "2-00:00:05"),
        (-3, "0:00", "00:00:00"),
    ],
)
def test_elapsed(seconds: float, short: str, full: str) -> None:
    assert (elapsed(seconds), elapsed_full(seconds)) == (short, full)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["vm"], "vm"),
        (["n1"], "n1"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10"], "n[09-10]"),
        (["b", "a-0", "a-1"], "a-[0-1],b"),
    ],
)
def test_hostlist(names: list[str], text: str) -> None:
    assert hostlist(names) == text


def expanded(text: str) -> set[str]:
    found = re.fullmatch(r"n(?:\[(.*)\]|(\d+))", text)
    assert found is not None
    if found[2]:
        return {f"n{found[2]}"}
    names = set()
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            names.add(f"n{number:0{len(first)}}")
    return names


@given(st.sets(st.integers(0, 2000).map(lambda n: f"n{n}") | st.integers(0, 99).map(lambda n: f"n{n:04}"), min_size=1))
def test_a_list_of_hosts_names_them_all_and_no_other(names: set[str]) -> None:
    assert expanded(hostlist(names)) == names
