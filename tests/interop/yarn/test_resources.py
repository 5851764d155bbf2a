from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strato.interop.yarn.resources import (
    DOMINANT,
    MEMORY_ONLY,
    MOST,
    ResourceTypes,
    add,
    fits,
    largest,
    raised,
    smallest,
    sub0,
    times,
    truncated,
)

NUMBERS = st.integers(0, MOST)
AMOUNTS = st.tuples(NUMBERS, NUMBERS, NUMBERS)


def test_types_keep_memory_and_vcores_first() -> None:
    types = ResourceTypes.with_others(["gpu", " vcores ", "", "gpu"])
    assert types.names == ("memory-mb", "vcores", "gpu")
    assert types.of(5, gpu=2) == (5, 0, 2)
    assert types.padded([1]) == (1, 0, 0)
    assert types.text((1, MOST, 0)) == "1 MB, unlimited vcores, 0 gpu"


@given(AMOUNTS, AMOUNTS)
def test_amounts_stay_within_64_bits(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    both = add(left, right)
    assert fits(left, both)
    assert max(both) <= MOST
    assert add(sub0(left, right), smallest(left, right)) == left
    assert fits(smallest(left, right), largest(left, right))


def test_products_are_cut_towards_zero() -> None:
    assert times((10240, 4), 0.109) == (1116, 0)
    assert times((MOST, 1), 2.0) == (MOST, 2)
    assert truncated(float("nan")) == 0
    assert truncated(float("-inf")) == -MOST - 1


def test_raising_goes_to_the_next_multiple() -> None:
    assert raised((1025, 1, 7), (1024, 1, 0)) == (2048, 1, 7)


def test_calculators_compare_by_memory_or_by_the_largest_share() -> None:
    cluster = (8000, 8)
    assert MEMORY_ONLY.compare(cluster, (4000, 1), (3000, 8)) == 1
    assert DOMINANT.compare(cluster, (4000, 3), (2000, 5)) == -1
    assert DOMINANT.compare(cluster, (4000, 3), (1000, 4)) == 1
    assert DOMINANT.compare(cluster, (4000, 3), (1000, 4), largest_only=True) == 0
    assert DOMINANT.compare((0, 0), (1, 2), (2, 2)) == -1
    assert DOMINANT.compare((0, 0), (1, 2), (2, 1)) == 0
    assert DOMINANT.over((1, 9), (5, 5))
    assert not MEMORY_ONLY.over((1, 9), (5, 5))
