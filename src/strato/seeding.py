"""Random number generators for components, all derived from one seed and independent of each other."""

from __future__ import annotations

from random import Random


def child(random: Random) -> Random:
    """Return a new generator for a component, so that its draws do not change the numbers of other components."""
    return Random(random.getrandbits(64))
