"""How a kernel's fair scheduler shares a machine's CPU: nobody gets more than wanted, the rest goes by weight. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def fair_shares(cores: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return what each gets.

    Args:
        cores: Of the machine, ≥ 0.
        wanted: Cores that each could use, its quota taken into account, ≥ 0.
        weights: Of each, > 0; a container's is what it requests.

    Whoever wants less than its weight's part gets all it wants; what it leaves is shared by the others in the same way.
    The sum is the smaller of ``cores`` and the sum of ``wanted``. O(n log n).
    """
    if sum(wanted) <= cores:
        return list(wanted)
    given = [0.0] * len(wanted)
    left, weight = cores, sum(weights)
    for number in sorted(range(len(wanted)), key=lambda one: (wanted[one] / weights[one], one)):
        # rounding may leave less than the last one's weight
        given[number] = min(wanted[number], max(0.0, left * weights[number] / max(weight, weights[number])))
        left -= given[number]
        weight -= weights[number]
    return given
