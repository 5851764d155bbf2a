"""What is held in memory, by owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from strato.http.limits import HeldBytes


@dataclass(eq=False)
class Kept:
    """A holder."""

    owner: str = ""
    held: tuple[str, int] = ("", 0)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "b"]), st.integers(0, 3)), max_size=40))
def test_the_counts_are_those_of_all_holders(steps: list[tuple[int, str, int]]) -> None:
    counted: HeldBytes[Kept] = HeldBytes()
    holders = [Kept() for _ in range(5)]
    since: dict[Kept, int] = {}
    for time, (number, owner, size) in enumerate(steps):
        holder = holders[number]
        if size == 0 or holder.held[0] != owner or not holder.held[1]:
            since[holder] = time
        holder.owner = owner
        counted.note(holder, size)
        sums: Counter[str] = Counter()
        for one in holders:
            sums[one.held[0]] += one.held[1]
        assert holder.held == (owner, size)
        assert (counted.total, dict(counted.of)) == (sum(sums.values()), dict(+sums))
        for name in ("", "a", "b"):
            of_owner = [one for one in holders if one.held[0] == name and one.held[1]]
            assert list(counted.holders(name)) == sorted(of_owner, key=since.__getitem__)
        if counted.total:
            largest = counted.largest()
            assert sums[largest.owner] == max(sums.values())
            assert largest.held[1] == max(one.held[1] for one in counted.holders(largest.owner))
