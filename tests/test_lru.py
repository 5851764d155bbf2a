"""Caches bounded in bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from strato.api import catalog
from strato.api.defaults.pod import canonical_list
from strato.api.quantity import parse
from strato.api.validation.containers import _is_fine
from strato.lru import LruCache, memoised
from strato.node.hollow.commandlines import run_of
from strato.server.schema import builtin, rules
from strato.server.tables.custom import compile_path

ENTRY = 200
"""What an entry takes besides what it holds."""


def test_what_was_used_longest_ago_is_dropped() -> None:
    cache: LruCache[str, str] = LruCache(3 * ENTRY + 10, lambda _key, value: len(value))
    for key in "abc":
        assert cache.put(key, "xx") == "xx"
    assert cache.get("a") == "xx"
    cache.put("d", "xx")
    assert [key in cache for key in "abcd"] == [True, False, True, True]
    cache.put("e", "x" * (ENTRY + 8))
    assert ([key for key in "abcde" if key in cache], cache.bytes) == (["d", "e"], 3 * ENTRY + 10)
    cache.put("e", "")
    assert cache.bytes == 2 * ENTRY + 2
    cache.discard("e")
    cache.discard("e")
    assert cache.bytes == ENTRY + 2
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


def test_to_read_all_values_is_no_use_of_them() -> None:
    cache: LruCache[str, str] = LruCache(2 * ENTRY + 2, lambda _key, value: len(value))
    assert list(cache.values()) == []
    for key in "ab":
        cache.put(key, key)
    assert list(cache.values()) == ["a", "b"]
    cache.put("c", "c")
    assert list(cache.values()) == ["b", "c"]


def test_what_is_over_the_bound_by_itself_is_not_kept_and_drops_nothing() -> None:
    cache: LruCache[str, str] = LruCache(2 * ENTRY, lambda _key, value: len(value))
    cache.put("a", "")
    assert cache.put("b", "x" * (ENTRY + 1)) == "x" * (ENTRY + 1)
    assert ("a" in cache, cache.get("b"), cache.bytes) == (True, None, ENTRY)
    cache.put("b", "x" * ENTRY)
    assert ("a" in cache, "b" in cache, cache.bytes) == (False, True, 2 * ENTRY)


def test_a_value_that_changes_counts_as_it_was_put() -> None:
    cache: LruCache[str, list[int]] = LruCache(1000, lambda _key, value: len(value))
    cache.put("a", []).extend(range(100))
    cache.discard("a")
    assert cache.bytes == 0


def test_short_texts_are_asked_about_once_and_long_ones_each_time() -> None:
    asked: list[object] = []

    @memoised(10 * (ENTRY + 8), longest=8)
    def ask(value: object) -> object:
        asked.append(value)
        return value

    for value in ("x" * 8, "x" * 8, "x" * 9, "x" * 9, 7, 7):
        ask(value)
    assert asked == ["x" * 8, "x" * 9, "x" * 9, 7]
    asked.clear()
    for number in range(11):
        ask(str(number))
    ask("10")
    ask("0")
    assert asked == [*(str(number) for number in range(11)), "0"]


def ignoring_errors(function: Callable[[Any], object]) -> Callable[[Any], None]:
    def call(value: Any) -> None:
        try:
            function(value)
        except Exception:  # what is no quantity, say
            return

    return call


@pytest.mark.parametrize(
    ("function", "prefix"),
    [
        pytest.param(parse, "1", id="quantities"),
        pytest.param(lambda text: canonical_list({"cpu": text}), "1", id="quantities to be written anew"),
        pytest.param(lambda text: _is_fine("cpu", text, "f", []), "1", id="complaints about quantities"),
        pytest.param(compile_path, ".a", id="paths of columns"),
        pytest.param(lambda text: run_of([text]), "sleep 1", id="command lines"),
        pytest.param(rules._program, "self.a == 1", id="rules of definitions"),
        pytest.param(
            lambda text: builtin.merge_info(catalog.POD).list_strategy((text,)),  # type: ignore[union-attr]  # it has one
            "a",
            id="members of strategic merge patches",
        ),
    ],
)
def test_long_texts_of_users_are_not_kept(function: Callable[[str], object], prefix: str) -> None:
    text = prefix + "0" * 50_000
    call = ignoring_errors(function)
    before = sys.getrefcount(text)
    call(text)
    assert sys.getrefcount(text) == before
