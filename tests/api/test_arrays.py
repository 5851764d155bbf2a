"""Job arrays as Slurm writes them."""

from __future__ import annotations

import pytest

from strato.api.arrays import parse_array

GOOD = [
    pytest.param("0-99%10", tuple(range(100)), 10, 1, id="a range with a limit"),
    pytest.param("5", (5,), 0, 1, id="one index"),
    pytest.param("1,3,5-9", (1, 3, 5, 6, 7, 8, 9), 0, 1, id="a list"),
    pytest.param("0-15:4", (0, 4, 8, 12), 0, 4, id="a step"),
    pytest.param("3,1,2,1-3", (1, 2, 3), 0, 1, id="twice is once"),
    pytest.param("7-7", (7,), 0, 1, id="a range of one"),
    pytest.param(f"0-9%{'9' * 50}", tuple(range(10)), 100_000, 1, id="a limit above all"),
]
BAD = [
    ("", "is no index and no range"),
    ("a", "'a' is no index and no range"),
    ("1-", "'1-' is no index and no range"),
    ("9-1", "the first index is above the last"),
    ("0-9:0", "a step is at least 1"),
    ("0-9%", "% is no limit"),
    ("0-9%0", "%0 is no limit"),
    ("0-9%x", "%x is no limit"),
    ("-1", "is no index"),
    ("1,,2", "'' is no index"),
    ("٣", "is no index"),
    ("0-200000", "has more than 100000 elements"),
    ("9" * 5000, "an index is at most 2147483647"),
    (f"0-{'9' * 5000}", "an index is at most 2147483647"),
]


@pytest.mark.parametrize(("text", "indexes", "limit", "step"), GOOD)
def test_what_slurm_takes_is_read(text: str, indexes: tuple[int, ...], limit: int, step: int) -> None:
    array = parse_array(text)
    assert (array.indexes, array.limit, array.step) == (indexes, limit, step)


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text[:20] or "nothing" for text, _ in BAD])
def test_what_slurm_refuses_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_array(text)
