"""`GoRandom`: the generator of Go's ``math/rand``, to draw the numbers that a Go program drew from a seed.

An additive lagged Fibonacci generator: x(n) = x(n-607) + x(n-273) modulo 2^64. A seed fills the 607 words of its state
by a linear congruential generator, and these are combined with the state that seed 1 (in 60 bits) reaches after 7.8e12
steps. That state is computed here, not listed: a step is multiplication by x modulo x^607 - x^334 - 1, so that any
number of steps is a power of x, found by squaring in a sixth of a second.

Source: documentation of Go's package math/rand and of its generator's origin (D. P. Mitchell, J. A. Reeds); the first
numbers for seed 1 are those that every Go program before 1.20 printed (see the test).
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_LENGTH: Final = 607
_TAP: Final = 334
"""Distance in words between the oldest word of the state and the one that is added to it."""
_STEPS: Final = 7_800_000_000_000
_MASK: Final = (1 << 64) - 1
_PRIME: Final = (1 << 31) - 1

Words = npt.NDArray[np.uint64]


class GoRandom:
    """Draws the numbers of Go's ``rand.New(rand.NewSource(seed))``.

    Args:
        seed: The seed in Go.
    """

    def __init__(self, seed: int) -> None:
        self._words = [word ^ mixed for word, mixed in zip(_filled(seed, 40, 20), _mixed(), strict=True)]
        self._tap = 0
        self._feed = _TAP

    def uint64(self) -> int:
        """Return a whole number below 2^64."""
        self._tap = (self._tap - 1) % _LENGTH
        self._feed = (self._feed - 1) % _LENGTH
        word = (self._words[self._feed] + self._words[self._tap]) & _MASK
        self._words[self._feed] = word
        return word

    def int63(self) -> int:
        """Return a whole number below 2^63."""
        return self.uint64() & (_MASK >> 1)

    def intn(self, n: int) -> int:
        """Return a whole number below ``n``, which is at most 2^31 - 1."""
        if n & (n - 1) == 0:
            return (self.int63() >> 32) & (n - 1)
        most = (1 << 31) - 1 - (1 << 31) % n
        drawn = self.int63() >> 32
        while drawn > most:
            drawn = self.int63() >> 32
        return drawn % n

    def permutation(self, n: int) -> list[int]:
        """Return the numbers below ``n`` in a random order (``rand.Perm``)."""
        out = [0] * n
        for at in range(n):
            other = self.intn(at + 1)
            out[at] = out[other]
            out[other] = at
        return out

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put items into a random order (``rand.Shuffle``)."""
        for at in range(len(items) - 1, 0, -1):
            other = self._below(at + 1)
            items[at], items[other] = items[other], items[at]

    def _below(self, n: int) -> int:
        """Return a whole number below ``n`` by multiplication, as ``rand.Shuffle`` draws it."""
        product = (self.int63() >> 31) * n
        if product & 0xFFFFFFFF < n:
            least = ((1 << 32) - n) % n
            while product & 0xFFFFFFFF < least:
                product = (self.int63() >> 31) * n
        return product >> 32


def _congruential(x: int) -> int:
    high, low = divmod(x, 44_488)
    x = 48_271 * low - 3_399 * high
    return x + _PRIME if x < 0 else x


def _filled(seed: int, first_shift: int, second_shift: int) -> list[int]:
    """Return the 607 words that the linear congruential generator makes from a seed."""
    x = seed % _PRIME or 89_482_311
    for _ in range(20):
        x = _congruential(x)
    words = []
    for _ in range(_LENGTH):
        word = 0
        for shift in (first_shift, second_shift, 0):
            x = _congruential(x)
            word ^= x << shift
        words.append(word & _MASK)
    return words


@cache
def _mixed() -> tuple[int, ...]:
    """Return the words with which those of every seed are combined: the state of seed 1 after 7.8e12 steps."""
    words = _filled(1, 20, 10)
    sequence = [words[(_TAP - 1 - age) % _LENGTH] for age in range(_LENGTH)]  # the oldest first
    for n in range(_LENGTH):
        sequence.append((sequence[n] + sequence[n + _TAP]) & _MASK)
    by_age: Words = np.array(sequence, np.uint64)
    power = _power_of_x(_STEPS)
    mixed = [0] * _LENGTH
    for age in range(_LENGTH):
        word = int((power * by_age[age : age + _LENGTH]).sum(dtype=np.uint64))
        mixed[(_TAP - 1 - _STEPS - age) % _LENGTH] = word
    return tuple(mixed)


def _power_of_x(exponent: int) -> Words:
    """Return x^exponent modulo x^607 - x^334 - 1, its coefficients modulo 2^64, the constant first."""
    power: Words = np.zeros(_LENGTH, np.uint64)
    power[0] = 1
    for bit in f"{exponent:b}":
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.concatenate((np.zeros(1, np.uint64), power)))
    return power


def _reduced(polynomial: Words) -> Words:
    """Return a polynomial modulo x^607 - x^334 - 1.

    Reduces the highest powers first, in blocks short enough that the reduction of one power does not change another.
    """
    gap = _LENGTH - _TAP
    top = len(polynomial)
    while top > _LENGTH:
        first = max(_LENGTH, top - gap)
        high = polynomial[first:top].copy()
        polynomial[first - _LENGTH : top - _LENGTH] += high
        polynomial[first - gap : top - gap] += high
        top = first
    return polynomial[:_LENGTH]
