"""Generators of random numbers that follow from one seed and do not disturb one another."""

from __future__ import annotations

from random import Random


def child(random: Random) -> Random:
    """Draw a generator of its own for a part, so that what one part draws does not change another's numbers."""
    return Random(random.getrandbits(64))
