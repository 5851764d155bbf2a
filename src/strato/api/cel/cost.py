"""What an evaluation may cost: work is paid for before it is done, in units of about 100 ns.

Kubernetes' limits are the model: a million units a call, ten million an object, which it reckons as a second. A unit
takes longer here, so an object has two million. It is one token of an expression each time it is evaluated, one item
that is compared or folded, or some characters that are copied or searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from strato.errors import StratoError

CALL_LIMIT = 1_000_000
"""What one evaluation may cost."""
OBJECT_LIMIT = 2_000_000
"""What all rules of one object may cost together."""
_FREE = 64
"""Texts and lists up to this length are part of the token that names them."""


class CostExceeded(StratoError):
    """An evaluation would cost more than it may; no ``||`` hides it."""


class Meter:
    """What is left of a budget."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


_meter: ContextVar[Meter | None] = ContextVar("cost", default=None)


@contextmanager
def budget(units: int) -> Iterator[Meter]:
    """Let all evaluations inside cost no more than ``units`` together, or than is left of the budget around."""
    outer = _meter.get()
    start = units if outer is None else min(units, max(outer.left, 0))
    meter = Meter(start)
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)
        if outer is not None:
            outer.left -= start - meter.left


def spend(units: int) -> None:
    """Pay for work about to be done.

    Raises:
        CostExceeded: There is not enough left.
    """
    meter = _meter.get()
    if meter is None:
        return
    meter.left -= units
    if meter.left < 0:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")


def spend_on(value: Any) -> None:
    """Pay for looking at all of a text, list or map."""
    kind = value.__class__
    if kind is str:
        if len(value) > _FREE:
            spend(len(value) // 16)
    elif (kind is list or kind is dict) and len(value) > 4:
        spend(len(value))
