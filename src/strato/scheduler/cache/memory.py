"""Fairness with memory: what somebody held lately counts, and fades with a half-life.

The average remembered is exponentially weighted over time: who holds ``u`` all the time is remembered with ``u``, who
stopped one half-life ago with half of it. It is kept by the world between sessions and lost with the process; a
scheduler that starts anew treats all as equals until there is something to remember.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from strato.scheduler.model.resources import FloatArray, Vector


class UsageMemory:
    """Average use by name (a queue, a namespace), in internal units."""

    def __init__(self) -> None:
        self._average: dict[str, FloatArray] = {}
        self._held: dict[str, Vector] = {}
        self._at: float | None = None

    def advance(self, now: float, half_life_seconds: float, held: Mapping[str, Vector]) -> None:
        """Bring the averages up to now.

        Args:
            now: Seconds since the epoch.
            half_life_seconds: Time after which what was held counts half. Positive.
            held: What everybody holds from now on; what was given last time has been held until now.
        """
        keep = 1.0 if self._at is None else 0.5 ** (max(0.0, now - self._at) / half_life_seconds)
        for name in {*self._average, *self._held}:
            last = self._held.get(name)
            average = self._average.get(name)
            if last is None:
                value = average * keep if average is not None else np.zeros(0)
            else:
                value = _wide(average, len(last)) * keep + last * (1.0 - keep)
            if name not in held and value.size and value.max() < 0.5:
                self._average.pop(name, None)
            else:
                self._average[name] = value
        self._held = {name: vector.copy() for name, vector in held.items()}
        self._at = now

    def of(self, name: str, width: int) -> FloatArray:
        """Return the average use of a name; zeros for one that is not remembered."""
        return _wide(self._average.get(name), width)


def _wide(vector: FloatArray | None, width: int) -> FloatArray:
    out = np.zeros(width)
    if vector is not None:
        out[: vector.size] = vector[:width]
    return out


def boost(past: float, entitled: float) -> float:
    """Return the factor on the weight of somebody who held a part ``past`` of all use where ``entitled`` is due to it.

    1 for whom got what was due, 2 for whom got nothing, 1/2 for whom got twice as much, not below 1/8.
    """
    return 1.0 if entitled <= 0 else max(2.0 ** (1.0 - past / entitled), 0.125)
