"""How the kernel's fair scheduler shares CPU: no container gets more than it wants, the rest goes by weight. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def fair_shares(cores: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the cores that each container gets.

    Args:
        cores: Cores of the machine, ≥ 0.
        wanted: Cores that each container could use within its quota, ≥ 0.
        weights: Weight of each container, > 0: its request.

    A container that wants less than its share by weight gets all that it wants; the others divide the remaining cores
    in the same way. The sum is the smaller of ``cores`` and the sum of ``wanted``. O(n log n).
    """
    if sum(wanted) <= cores:
        return list(wanted)
    given = [0.0] * len(wanted)
    left, weight = cores, sum(weights)
    for number in sorted(range(len(wanted)), key=lambda one: (wanted[one] / weights[one], one)):
        # rounding may have made the sum of remaining weights smaller than the last weight
        given[number] = min(wanted[number], max(0.0, left * weights[number] / max(weight, weights[number])))
        left -= given[number]
        weight -= weights[number]
    return given
