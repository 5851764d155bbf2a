"""Keys in order, and views of them, against a plain set."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.server import sortedkeys
from strato.server.sortedkeys import KeyView, SortedKeys

KEYS = st.text("ab/", max_size=4)
CHANGES = st.lists(st.tuples(KEYS, st.booleans()), max_size=60)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sortedkeys, "CHUNK_KEYS", 2)


def all_of(view: KeyView) -> list[str]:
    return list(view.slice(0, len(view)))


def change(keys: SortedKeys, model: set[str], key: str) -> None:
    """Remove the key if it is there, else add it."""
    if key in model:
        model.remove(key)
        keys.remove(key)
    else:
        model.add(key)
        keys.add(key)


@given(st.sets(KEYS), CHANGES)
def test_views_keep_the_keys_of_their_moment(first: set[str], changes: list[tuple[str, bool]]) -> None:
    keys, model = SortedKeys(first), set(first)
    views: list[tuple[KeyView, list[str]]] = []
    for key, is_viewed in changes:
        if is_viewed:
            views.append((keys.view(), sorted(model)))
        change(keys, model, key)
    views.append((keys.view(), sorted(model)))
    for view, expected in views:
        assert (all_of(view), len(view)) == (expected, len(expected))


@given(st.sets(KEYS, max_size=40), KEYS, KEYS, st.integers(0, 40), st.integers(0, 40))
def test_a_view_finds_what_a_sorted_list_has(found: set[str], prefix: str, after: str, low: int, high: int) -> None:
    view, expected = SortedKeys(found).view(), sorted(found)
    assert [key in view for key in ("", prefix, after)] == [key in found for key in ("", prefix, after)]
    begin, end = view.span(prefix, after)
    assert list(view.slice(begin, end)) == [
        key for key in expected if key.startswith(prefix) and (key > after or not after)
    ]
    assert begin <= end
    assert list(view.slice(low, min(high, len(view)))) == expected[low:high]


@given(st.sets(KEYS, min_size=1, max_size=40), KEYS)
def test_without_a_prefix_a_span_is_what_bisect_says(found: set[str], after: str) -> None:
    view, expected = SortedKeys(found).view(), sorted(found)
    assert view.span() == (0, len(expected))
    low = bisect_right(expected, after) if after else 0
    assert view.span(after=after) == (low, len(expected))
    assert bisect_left(expected, after) <= low or not after


def test_a_view_is_taken_once_until_keys_change() -> None:
    keys = SortedKeys(["a"])
    first = keys.view()
    assert keys.view() is first
    keys.add("b")
    assert keys.view() is not first
    assert all_of(first) == ["a"]


def test_a_chunk_is_copied_once_for_a_view_and_not_again() -> None:
    keys = SortedKeys()
    for number in range(3):
        keys.add(f"{number}")
    keys.view()
    keys.add("00")
    chunk = keys._chunks[0]
    keys.add("000")
    assert keys._chunks[0] is chunk or len(keys._chunks) > 2


@pytest.mark.parametrize("missing", ["", "a", "bb", "z"])
def test_what_is_not_there_cannot_be_removed(missing: str) -> None:
    keys = SortedKeys(["aa", "b", "c"])
    with pytest.raises(KeyError):
        keys.remove(missing)
    assert all_of(keys.view()) == ["aa", "b", "c"]


def test_chunks_stay_small_and_empty_ones_go() -> None:
    keys, names = SortedKeys(), [f"{number:03}" for number in range(200)]
    shuffled = Random(1).sample(names, len(names))
    for name in shuffled:
        keys.add(name)
    assert max(map(len, keys._chunks)) < 2 * sortedkeys.CHUNK_KEYS
    for name in shuffled:
        keys.remove(name)
    assert (keys._chunks, all_of(keys.view())) == ([], [])
    keys.add("again")
    assert all_of(keys.view()) == ["again"]
