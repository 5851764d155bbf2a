"""Caches of answers about texts of users: bounded in bytes as well as in entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

R = TypeVar("R")
T = TypeVar("T")

LONGEST = 256
"""Characters of a text that is kept; longer ones are hostile, or too rare to be worth their memory."""


def remembered(entries: int, longest: int = LONGEST) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Cache a function of one text or number; what is asked about longer texts is worked out each time."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        known = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def ask(value: T) -> R:
            return function(value) if isinstance(value, str) and len(value) > longest else known(value)

        return ask

    return decorate
