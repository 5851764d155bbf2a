"""Fairness with memory: averages of past use by queue or namespace, which decay with a half-life.

The average is exponentially weighted over time: a queue that has always held ``u`` has the average ``u``, one that
released it one half-life ago half of that. `World.usage_averages` keeps them between sessions. They are lost when the
process ends, so a restarted scheduler begins with all averages equal to zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from strato.scheduler.model.resources import FloatArray, Vector


class UsageAverages:
    """Average use by name (a queue, a namespace), in internal units."""

    def __init__(self) -> None:
        self._average: dict[str, FloatArray] = {}
        self._held: dict[str, Vector] = {}
        self._at: float | None = None

    def advance(self, now: float, half_life_seconds: float, held: Mapping[str, Vector]) -> None:
        """Bring the averages up to now.

        Args:
            now: Seconds since the epoch.
            half_life_seconds: Time after which past use counts half. Positive.
            held: What each name holds from now on; the ``held`` of the last call applied until now.
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
        """Return the average use of a name; zeros for a name without past use."""
        return _wide(self._average.get(name), width)


def _wide(vector: FloatArray | None, width: int) -> FloatArray:
    out = np.zeros(width)
    if vector is not None:
        out[: vector.size] = vector[:width]
    return out


def boost(past: float, entitled: float) -> float:
    """Return the factor on the weight of a queue or namespace that held the fraction ``past`` of all use.

    ``entitled`` is the fraction due to it. The factor is 1 if it held that, 2 if it held nothing, 1/2 if it held twice
    as much, and at least 1/8.
    """
    return 1.0 if entitled <= 0 else max(2.0 ** (1.0 - past / entitled), 0.125)
