"""How the Capacity Scheduler compares, divides and rounds amounts: by memory alone, or by all types.

YARN's calculators round in peculiar ways that change its decisions, so their rounding is reproduced exactly: the memory
calculator answers with a multiple of memory and one vcore ("some"), and rounds to nearest before it raises to a step;
the dominant one works on every type and rounds up from 32-bit numbers.
"""

from __future__ import annotations

import ctypes
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from strato.interop.yarn.resources import (
    DOMINANT,
    MEMORY_ONLY,
    Amounts,
    Calculator,
    subtract,
    times,
    truncated,
)


def single(number: float) -> float:
    """Return a number rounded to a 32-bit float; larger numbers become infinite."""
    return ctypes.c_float(number).value


def ceiling_of(part: int, by: int) -> int:
    """Return a quotient raised to a whole number, cut towards 0 where it is negative."""
    if by == 0:
        return 0
    raised = part + by - 1
    return raised // by if raised >= 0 else -(-raised // by)


def ratio_of(part: float, whole: float) -> float:
    """Return a 32-bit quotient; n / 0 is infinite, and 0 / 0 is NaN."""
    if whole == 0:
        return math.nan if part == 0 else math.copysign(math.inf, part)
    return single(single(part) / single(whole))


class Arithmetic(ABC):
    """How the scheduler compares and rounds amounts. `cluster` is the total to which shares relate."""

    calculator: Calculator

    def less(self, cluster: Amounts, left: Amounts, right: Amounts) -> bool:
        """Return whether the left amount is less."""
        return self.calculator.compare(cluster, left, right) < 0

    def less_or_equal(self, cluster: Amounts, left: Amounts, right: Amounts) -> bool:
        """Return whether the left amount is less or equal."""
        return self.calculator.compare(cluster, left, right) <= 0

    def smaller(self, cluster: Amounts, left: Amounts, right: Amounts) -> Amounts:
        """Return the smaller amount as a whole; the left one when they are equal."""
        return left if self.calculator.compare(cluster, left, right) <= 0 else right

    def larger(self, cluster: Amounts, left: Amounts, right: Amounts) -> Amounts:
        """Return the larger amount as a whole; the left one when they are equal."""
        return left if self.calculator.compare(cluster, left, right) >= 0 else right

    @abstractmethod
    def fits(self, inner: Amounts, outer: Amounts) -> bool:
        """Return whether an amount is within another, in every type that counts."""

    @abstractmethod
    def divide(self, cluster: Amounts, part: Amounts, whole: Amounts) -> float:
        """Return a 32-bit quotient of two amounts."""

    @abstractmethod
    def ratio(self, part: Amounts, whole: Amounts) -> float:
        """Return the largest 32-bit quotient of a type."""

    @abstractmethod
    def norm_up(self, amounts: Amounts, factor: float | Sequence[float], step: Amounts) -> Amounts:
        """Return an amount times a factor (or a factor per type), raised to a multiple of the step."""

    @abstractmethod
    def norm_down(self, amounts: Amounts, factor: float, step: Amounts) -> Amounts:
        """Return an amount times a factor, cut to a multiple of the step."""

    @abstractmethod
    def round_up(self, amounts: Amounts, step: Amounts) -> Amounts:
        """Return an amount raised to a multiple of the step."""

    @abstractmethod
    def divide_up(self, amounts: Amounts, by: float) -> Amounts:
        """Return an amount divided and raised to whole numbers; by 0 it is nothing."""

    @abstractmethod
    def has_positive(self, amounts: Amounts) -> bool:
        """Return whether any type that counts is more than 0."""

    @abstractmethod
    def has_none_left(self, amounts: Amounts) -> bool:
        """Return whether any type that counts is 0 or less."""


def memory_only(memory_mb: int, types: int) -> Amounts:
    """Return an amount of memory, with one vcore if the memory is above 0, and 0 of other types."""
    return (memory_mb, 1 if memory_mb > 0 else 0, *(0,) * (types - 2))


class _MemoryArithmetic(Arithmetic):
    """The arithmetic of YARN's DefaultResourceCalculator: it compares memory alone; rounding drops other types."""

    calculator: Calculator = MEMORY_ONLY

    def fits(self, inner: Amounts, outer: Amounts) -> bool:
        return inner[0] <= outer[0]

    def divide(self, cluster: Amounts, part: Amounts, whole: Amounts) -> float:
        return ratio_of(part[0], whole[0])

    def ratio(self, part: Amounts, whole: Amounts) -> float:
        return ratio_of(part[0], whole[0])

    def norm_up(self, amounts: Amounts, factor: float | Sequence[float], step: Amounts) -> Amounts:
        by = factor if isinstance(factor, int | float) else factor[0]
        return self.round_up((truncated(amounts[0] * by + 0.5), *amounts[1:]), step)

    def norm_down(self, amounts: Amounts, factor: float, step: Amounts) -> Amounts:
        return memory_only(_cut(truncated(amounts[0] * factor), step[0]), len(amounts))

    def round_up(self, amounts: Amounts, step: Amounts) -> Amounts:
        return memory_only(_raised(amounts[0], step[0]), len(amounts))

    def divide_up(self, amounts: Amounts, by: float) -> Amounts:
        return memory_only(_divided(amounts[0], by), len(amounts))

    def has_positive(self, amounts: Amounts) -> bool:
        return amounts[0] > 0

    def has_none_left(self, amounts: Amounts) -> bool:
        return amounts[0] <= 0


class _DominantArithmetic(Arithmetic):
    """The arithmetic of YARN's DominantResourceCalculator, which considers every type."""

    calculator: Calculator = DOMINANT

    def fits(self, inner: Amounts, outer: Amounts) -> bool:
        return all(a <= b for a, b in zip(inner, outer, strict=True))

    def divide(self, cluster: Amounts, part: Amounts, whole: Amounts) -> float:
        mine, theirs = (
            max((n / of for n, of in zip(a, cluster, strict=True) if of), default=0.0) for a in (part, whole)
        )
        if theirs == 0:
            return math.nan if mine == 0 else math.copysign(math.inf, mine)
        return single(mine / theirs)

    def ratio(self, part: Amounts, whole: Amounts) -> float:
        quotients = (ratio_of(a, b) for a, b in zip(part, whole, strict=True) if a or b)
        return max(quotients, default=0.0)

    def norm_up(self, amounts: Amounts, factor: float | Sequence[float], step: Amounts) -> Amounts:
        # One factor is multiplied in 32 bits, a factor per type in 64: a product just above a whole number is raised.
        if isinstance(factor, int | float):
            products = [math.ceil(single(n * factor)) for n in amounts]
        else:
            products = [math.ceil(n * by) for n, by in zip(amounts, factor, strict=True)]
        return tuple(_raised(truncated(n), by) for n, by in zip(products, step, strict=True))

    def norm_down(self, amounts: Amounts, factor: float, step: Amounts) -> Amounts:
        return tuple(_cut(truncated(n * factor), by) for n, by in zip(amounts, step, strict=True))

    def round_up(self, amounts: Amounts, step: Amounts) -> Amounts:
        return tuple(_raised(n, by) for n, by in zip(amounts, step, strict=True))

    def divide_up(self, amounts: Amounts, by: float) -> Amounts:
        return tuple(_divided(n, by) for n in amounts)

    def has_positive(self, amounts: Amounts) -> bool:
        return any(n > 0 for n in amounts)

    def has_none_left(self, amounts: Amounts) -> bool:
        return any(n <= 0 for n in amounts)


def _raised(number: int, step: int) -> int:
    return ceiling_of(number, step) * step if step > 0 else number


def _cut(number: int, step: int) -> int:
    return int(number / step) * step if step > 0 and number < 0 else (number // step * step if step > 0 else number)


def _divided(number: int, by: float) -> int:
    if by == 0:
        return 0
    return truncated(math.ceil(single(single(number) / single(by))))


def less_down_to_none(left: Amounts, right: Amounts) -> Amounts:
    """Return a difference, per type, that is no less than 0."""
    return tuple(max(0, n) for n in subtract(left, right))


def scaled(amounts: Amounts, factor: float) -> Amounts:
    """Return an amount times a factor, cut to whole numbers per type."""
    return times(amounts, factor)


BY_MEMORY = _MemoryArithmetic()
BY_DOMINANT_SHARE = _DominantArithmetic()
