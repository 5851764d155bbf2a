"""What an evaluation may cost: work is paid for before it is done, in units of about 100 ns.

The limits are Kubernetes': a million units a call, ten million an object, which it reckons as a second. A unit is one
token of an expression each time it is evaluated, one item that is compared or folded, or some characters that are
copied or searched. The API server evaluates in slices what costs more than a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from strato.errors import StratoError

CALL_LIMIT = 1_000_000
"""What one evaluation may cost."""
OBJECT_LIMIT = 10_000_000
"""What all rules of one object may cost together."""
_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_BETWEEN_PAUSES = 5_000
"""Units that are spent between two pauses."""
FREE = 64
"""Texts and lists up to this length are part of the token that names them."""


class CostExceeded(StratoError):
    """An evaluation would cost more than it may; no ``||`` hides it."""


class Meter:
    """What is left of a budget."""

    __slots__ = ("floor", "left", "pause", "start")

    def __init__(self, start: int, charged: int, pause: Callable[[], None] | None = None) -> None:
        self.start, self.pause = start, pause
        self.left = start - charged
        self.floor = 0 if pause is None else max(0, self.left - _BETWEEN_PAUSES)
        """Where `pause` is called next, or nothing is left."""

    def reached(self) -> None:
        """Pause, or end what costs too much, now that the floor is reached.

        Raises:
            CostExceeded: There is nothing left.
        """
        if self.left < 0:
            raise CostExceeded(_EXCEEDED)
        if self.pause is not None:
            self.pause()
        self.floor = max(0, self.left - _BETWEEN_PAUSES)


_meter: ContextVar[Meter | None] = ContextVar("cost", default=None)


def open_meter(
    units: int, first: int = 0, pause: Callable[[], None] | None = None
) -> tuple[Meter, Meter | None, Token[Meter | None]]:
    """Begin a budget and pay ``first`` from it; `close_meter` takes what is returned.

    Raises:
        CostExceeded: There is not enough for the first step.
    """
    outer = _meter.get()
    start = units if outer is None else min(units, outer.left)
    if start < first:
        if outer is not None:
            outer.left = -1
        raise CostExceeded(_EXCEEDED)
    meter = Meter(start, first, pause or (None if outer is None else outer.pause))
    return meter, outer, _meter.set(meter)


def close_meter(meter: Meter, outer: Meter | None, token: Token[Meter | None]) -> None:
    """End a budget; what was spent is taken from the one around."""
    _meter.reset(token)
    if outer is not None:
        outer.left -= meter.start - meter.left


@contextmanager
def budget(units: int, pause: Callable[[], None] | None = None) -> Iterator[Meter]:
    """Let all evaluations inside cost no more than ``units`` together, or than is left of the budget around.

    ``pause`` is called every millisecond or so.
    """
    meter, outer, token = open_meter(units, 0, pause)
    try:
        yield meter
    finally:
        close_meter(meter, outer, token)


def charge(units: int) -> None:
    """Pay for work about to be done.

    Raises:
        CostExceeded: There is not enough left.
    """
    meter = _meter.get()
    if meter is None:
        return
    meter.left -= units
    if meter.left < meter.floor:
        meter.reached()


def current_meter() -> Meter:
    """Return what the evaluation under way pays from."""
    meter = _meter.get()
    assert meter is not None, "every evaluation opens one"
    return meter


def pause() -> None:
    """Pause where the budget says so."""
    meter = _meter.get()
    if meter is not None and meter.pause is not None:
        meter.pause()


def charge_for(value: Any) -> None:
    """Pay for looking at all of a text, list or map."""
    kind = value.__class__
    if kind is str:
        if len(value) > FREE:
            charge(len(value) // 16)
    elif (kind is list or kind is dict) and len(value) > 4:
        charge(len(value))
