"""Limit the cost of evaluations: each piece of work is charged before it is done, in units of about 100 ns.

The limits are Kubernetes': a million units per call and ten million per object, which Kubernetes takes for a second. A
unit is one token of an expression each time it is evaluated, one item that is compared or folded, or some characters
that are copied or searched. An evaluation of more than a few milliseconds is paused regularly, so that the API server
can do other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from strato.errors import StratoError

CALL_LIMIT = 1_000_000
"""Most units of one evaluation."""
OBJECT_LIMIT = 10_000_000
"""Most units of all rules of one object together."""
_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_BETWEEN_PAUSES = 5_000
"""Units between two pauses."""
FREE = 64
"""Texts and lists up to this length cost no more than the token that names them."""


class CostExceeded(StratoError):
    """An evaluation would exceed its limit; unlike other errors, ``||`` and ``&&`` do not hide this one."""


class Meter:
    """The rest of a budget."""

    __slots__ = ("floor", "left", "pause", "start")

    def __init__(self, start: int, charged: int, pause: Callable[[], None] | None = None) -> None:
        self.start, self.pause = start, pause
        self.left = start - charged
        self.floor = 0 if pause is None else max(0, self.left - _BETWEEN_PAUSES)
        """The value of `left` at which `pause` is called next, or at which the budget is exhausted."""

    def reached(self) -> None:
        """Pause, or end the evaluation; called when the floor is reached.

        Raises:
            CostExceeded: The budget is exhausted.
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
    """Begin a budget and charge ``first`` to it; pass the result to `close_meter`.

    Raises:
        CostExceeded: The budget does not suffice for ``first``.
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
    """End a budget; what was spent is charged to the enclosing one."""
    _meter.reset(token)
    if outer is not None:
        outer.left -= meter.start - meter.left


@contextmanager
def budget(units: int, pause: Callable[[], None] | None = None) -> Iterator[Meter]:
    """Limit the total cost of all evaluations inside to ``units``, and to the rest of the enclosing budget.

    ``pause`` is called about every millisecond.
    """
    meter, outer, token = open_meter(units, 0, pause)
    try:
        yield meter
    finally:
        close_meter(meter, outer, token)


def charge(units: int) -> None:
    """Charge work that is about to be done.

    Raises:
        CostExceeded: The budget does not suffice.
    """
    meter = _meter.get()
    if meter is None:
        return
    meter.left -= units
    if meter.left < meter.floor:
        meter.reached()


def current_meter() -> Meter:
    """Return the budget of the present evaluation."""
    meter = _meter.get()
    assert meter is not None, "every evaluation opens one"
    return meter


def pause() -> None:
    """Pause if the present budget requires it."""
    meter = _meter.get()
    if meter is not None and meter.pause is not None:
        meter.pause()


def charge_for(value: Any) -> None:
    """Charge a pass over a whole text, list or map."""
    kind = value.__class__
    if kind is str:
        if len(value) > FREE:
            charge(len(value) // 16)
    elif (kind is list or kind is dict) and len(value) > 4:
        charge(len(value))
