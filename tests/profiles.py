"""How many examples a property test tries: few every day, many with ``--hypothesis-profile=long``."""

from __future__ import annotations

from hypothesis import settings

LONG = 1000


def examples(few: int) -> int:
    """Return how many examples a test that compares two ways of deciding tries."""
    return max(few, LONG) if settings.default is not None and settings.default.max_examples >= LONG else few
