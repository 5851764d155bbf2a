"""CEL's operators. They are strict about types, while Python would take a bool for a number or repeat a string.

Whole numbers have 64 bits, and an operation that overflows is an error. Integers and floats can be compared with each
other, but not added (CEL language definition, "Overflow" and "Numeric values").
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from strato.api.cel.cost import charge, charge_for
from strato.api.cel.values import NONE, EvaluationError, NoSuchKey, Optional, no_overload

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def whole(number: int) -> int:
    """Return a whole number if it fits into 64 bits.

    Raises:
        EvaluationError: The number overflows.
    """
    if _LEAST <= number <= _MOST:
        return number
    raise EvaluationError("integer overflow")


def truth(value: Any) -> bool:
    """Return the value of a condition.

    Raises:
        EvaluationError: The value is no bool.
    """
    if value is True or value is False:
        return bool(value)
    raise EvaluationError("no such overload: a condition is not a bool")


def negate(value: Any) -> Any:
    """``-value``."""
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise no_overload("-_", value)


def plus(left: Any, right: Any) -> Any:
    """``left + right``: numbers of one kind, strings, lists."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return whole(left + right)
        if kind is float:
            return left + right
        if kind is str or kind is list:
            charge((len(left) + len(right)) // 64)
            return left + right
    if (kind, type(right)) in _ADDED_TIMES:
        return _in_range(operator.add, left, right)
    raise no_overload("_+_", left, right)


_ADDED_TIMES = frozenset(((timedelta, timedelta), (timedelta, datetime), (datetime, timedelta)))
_SUBTRACTED_TIMES = frozenset(((timedelta, timedelta), (datetime, datetime), (datetime, timedelta)))


def _in_range(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    try:
        return operation(left, right)
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error


def minus(left: Any, right: Any) -> Any:
    """``left - right``."""
    if type(left) is int and type(right) is int:
        return whole(left - right)
    if type(left) is float and type(right) is float:
        return left - right
    if (type(left), type(right)) in _SUBTRACTED_TIMES:
        return _in_range(operator.sub, left, right)
    raise no_overload("_-_", left, right)


def times(left: Any, right: Any) -> Any:
    """``left * right``."""
    if type(left) is int and type(right) is int:
        return whole(left * right)
    if type(left) is float and type(right) is float:
        return left * right
    raise no_overload("_*_", left, right)


def divide(left: Any, right: Any) -> Any:
    """``left / right``; whole numbers are rounded towards zero."""
    if type(left) is int and type(right) is int:
        if not right:
            raise EvaluationError("division by zero")
        quotient = abs(left) // abs(right)
        return whole(quotient if (left < 0) == (right < 0) else -quotient)
    if type(left) is float and type(right) is float:
        if right:
            return left / right
        return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    raise no_overload("_/_", left, right)


def remainder(left: Any, right: Any) -> Any:
    """``left % right``, with the sign of ``left``."""
    if type(left) is int and type(right) is int:
        if not right:
            raise EvaluationError("modulus by zero")
        rest = abs(left) % abs(right)
        return rest if left >= 0 else -rest
    raise no_overload("_%_", left, right)


_PLAIN = (str, int, float)


_FOLD_UNITS = 8
"""Cost of beginning a pass over the items of a list or map."""


def equal(left: Any, right: Any) -> bool:
    """``left == right``: values of different types differ, except that all numbers are compared by value."""
    kind, other = type(left), type(right)
    if kind is other and kind in _PLAIN:
        if kind is str:
            charge_for(left)
        return bool(left == right)
    if kind is bool or other is bool:
        return left is right
    if kind is list and other is list:
        charge(_FOLD_UNITS + 2 * min(len(left), len(right)))
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        charge(_FOLD_UNITS + 4 * min(len(left), len(right)))
        return len(left) == len(right) and all(key in right and equal(left[key], right[key]) for key in left)
    return bool(left == right)


def _comparable(left: Any, right: Any) -> bool:
    kind, other = type(left), type(right)
    if kind is other:
        return kind in (int, float, str, bool, datetime, timedelta)
    return kind in (int, float) and other in (int, float)


def _comparison(name: str, compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    def relation(left: Any, right: Any) -> bool:
        if not _comparable(left, right):
            raise no_overload(name, left, right)
        return bool(compare(left, right))

    return relation


at_most = _comparison("_<=_", operator.le)
"""``left <= right``."""


def is_in(item: Any, items: Any) -> bool:
    """``item in items``: an item of a list, a key of a map."""
    if isinstance(items, list | Mapping):
        charge(_FOLD_UNITS + 2 * len(items))
    if isinstance(items, list):
        return any(equal(one, item) for one in items)
    if isinstance(items, Mapping):
        return any(equal(key, item) for key in items)
    raise no_overload("@in", item, items)


def index(target: Any, key: Any) -> Any:
    """``target[key]``.

    Raises:
        EvaluationError: There is no such key or index, or the target has no items.
    """
    if target.__class__ is list and key.__class__ is int and 0 <= key < len(target):
        return target[key]
    if isinstance(target, Mapping):
        if type(key) is not str:
            charge_for(target)
        # a string can be looked up directly; other keys are compared with each key, as numbers compare across types
        for name in (key,) if type(key) is str else target:
            if name in target and equal(name, key):
                return target[name]
        raise NoSuchKey(f"no such key: {key}")
    if target.__class__ is Optional:
        return found(target, key)
    if not isinstance(target, list):
        raise no_overload("_[_]", target, key)
    place = int(key) if type(key) is float and key.is_integer() else key
    if type(place) is not int:
        raise EvaluationError(f"invalid index: {key}")
    if not 0 <= place < len(target):
        raise EvaluationError(f"index out of bounds: {place}")
    return target[place]


def found(target: Any, key: Any) -> Optional:
    """Return an optional of the item at a key of a value, which may itself be optional."""
    if target.__class__ is Optional:
        if target.inner is None:
            return NONE
        target = target.inner
    if isinstance(target, Mapping):
        return Optional(target[key]) if key in target else NONE
    if isinstance(target, list):
        return Optional(target[key]) if type(key) is int and 0 <= key < len(target) else NONE
    raise no_overload("_[?_]", target, key)


RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _comparison("_<_", operator.lt),
    "<=": at_most,
    ">": _comparison("_>_", operator.gt),
    ">=": _comparison("_>=_", operator.ge),
    "in": is_in,
}
PLAINLY: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The same of two whole numbers, or of two short texts."""
SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": plus, "-": minus}
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {"*": times, "/": divide, "%": remainder}
