"""CEL's functions and methods, those that rules of definitions and selectors of devices use.

One table by name; each name has the lists of types that it accepts. A call with other types is an error of its own
(Kubernetes: ``k8s.io/apiserver/pkg/cel/library``; strings: cel-go's extension, of which Kubernetes has version 2).
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from strato.api.cel import authorization, libraries
from strato.api.cel.cost import charge, charge_for
from strato.api.cel.operators import at_most, equal, plus, whole
from strato.api.cel.values import NONE, EvaluationError, Optional, Version, no_overload, quantity, semver
from strato.api.patterns import compile_pattern
from strato.api.quantity import NANO, Quantity

_Function = Callable[..., Any]
_Takes = type | tuple[type, ...]
_Overloads = list[tuple[tuple[_Takes, ...], _Function]]

_NUMBER = (int, float)
_SIZED = (str, list, dict)


_CALL_UNITS = 10
"""Cost of a call without that of its work: of finding the function for the types of the arguments."""
_UNITS: Mapping[str, int] = {"matches": 60, **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), 30)}

_FOLDS = frozenset(("min", "max", "sum", "isSorted", "indexOf", "lastIndexOf"))
"""Functions that compare the items of a list; each item costs twice as much as in a mere pass over the list."""


def _is(value: Any, wanted: _Takes) -> bool:
    if isinstance(value, bool):  # in CEL a bool is no number, in Python it is an int
        return (
            wanted is bool or (isinstance(wanted, tuple) and (bool in wanted or object in wanted)) or wanted is object
        )
    return isinstance(value, wanted)


def _call(name: str, overloads: _Overloads, *values: Any) -> Any:
    for takes, function in overloads:
        if len(takes) == len(values) and all(map(_is, values, takes)):
            charge(_UNITS.get(name, _CALL_UNITS))
            if name != "size":
                for value in values:
                    charge_for(value)
                if name in _FOLDS:
                    charge_for(values[0])
            try:
                return function(*values)
            except EvaluationError:
                raise
            except (TypeError, ValueError, OverflowError) as error:
                raise EvaluationError(str(error) or type(error).__name__) from error
    raise no_overload(name, *values)


def _table(entries: Mapping[str, _Overloads]) -> dict[str, _Function]:
    return {name: functools.partial(_call, name, overloads) for name, overloads in entries.items()}


def _matches(text: str, pattern: str) -> bool:
    compiled = compile_pattern(pattern)
    charge(len(text) * compiled.size // 256)
    return compiled.is_in(text)


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    letters = {code: change(chr(code)) for code in range(128)}
    return lambda text: text.translate(letters)


def _part(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"index out of range: {start if not 0 <= start <= len(text) else end}")
    return text[start:end]


def _at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return text[place : place + 1]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _joined(items: list[Any], separator: str = "") -> str:
    if any(type(item) is not str for item in items):
        raise EvaluationError("no such overload: join() of a list that holds more than strings")
    charge((len(items) * len(separator) + sum(map(len, items))) // 64)
    return separator.join(items)


def _replaced(text: str, old: str, new: str, times: int = -1) -> str:
    found = text.count(old)
    charge((found if times < 0 else min(times, found)) * len(new) // 64)
    return text.replace(old, new, times)


def _position(items: list[Any], wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def _last_position(items: list[Any], wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def _find(text: str, part: str, start: int) -> int:
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _find_last(text: str, part: str, last: int) -> int:
    if not 0 <= last <= len(text):
        raise EvaluationError(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part))


def _is_sorted(items: list[Any]) -> bool:
    return all(at_most(left, right) for left, right in itertools.pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not all(_is(item, _NUMBER) for item in items):
        raise EvaluationError("no such overload: sum() of a list that holds more than numbers")
    return functools.reduce(plus, items) if items else 0


def _extreme(name: str, better: Callable[[Any, Any], bool]) -> Callable[[list[Any]], Any]:
    def pick(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return functools.reduce(lambda best, item: item if better(item, best) else best, items)

    return pick


def _nanos(amount: Quantity | int) -> int:
    return amount.nanos if isinstance(amount, Quantity) else amount * NANO


def _integer(amount: Quantity) -> int:
    if amount.nanos % NANO:
        raise EvaluationError("cannot convert value to integer")
    return whole(amount.nanos // NANO)


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


_WHOLE = re.compile(r"[-+]?\d+", re.ASCII)
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _to_int(value: str | float) -> int:
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'int'")
    elif not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return whole(int(value))


def _to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    return _BOOLS[text]


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return str(value)


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


METHODS = _table(
    {
        **libraries.METHODS,
        **authorization.METHODS,
        "size": [((_SIZED,), len)],
        "startsWith": [((str, str), str.startswith)],
        "endsWith": [((str, str), str.endswith)],
        "contains": [((str, str), str.__contains__)],
        "matches": [((str, str), _matches)],
        "lowerAscii": [((str,), _ascii(str.lower))],
        "upperAscii": [((str,), _ascii(str.upper))],
        "trim": [((str,), str.strip)],
        "split": [((str, str), _split), ((str, str, int), _split)],
        "join": [((list,), _joined), ((list, str), _joined)],
        "replace": [((str, str, str), _replaced), ((str, str, str, int), _replaced)],
        "charAt": [((str, int), _at)],
        "substring": [((str, int), lambda text, start: _part(text, start, len(text))), ((str, int, int), _part)],
        "indexOf": [((str, str), str.find), ((str, str, int), _find), ((list, object), _position)],
        "lastIndexOf": [((str, str), str.rfind), ((str, str, int), _find_last), ((list, object), _last_position)],
        "isSorted": [((list,), _is_sorted)],
        "sum": [((list,), _sum)],
        "min": [((list,), _extreme("min", lambda item, best: not at_most(best, item)))],
        "max": [((list,), _extreme("max", lambda item, best: not at_most(item, best)))],
        "hasValue": [((Optional,), lambda optional: optional.inner is not None)],
        "value": [((Optional,), Optional.value)],
        "orValue": [((Optional, object), lambda optional, other: other if optional.inner is None else optional.inner)],
        "or": [((Optional, Optional), lambda optional, other: other if optional.inner is None else optional)],
        "compareTo": [((Quantity, Quantity), _compare), ((Version, Version), _compare)],
        "isGreaterThan": [(both, lambda left, right: left > right) for both in ((Quantity,) * 2, (Version,) * 2)],
        "isLessThan": [(both, lambda left, right: left < right) for both in ((Quantity,) * 2, (Version,) * 2)],
        "isInteger": [((Quantity,), lambda amount: amount.nanos % NANO == 0)],
        "asInteger": [((Quantity,), _integer)],
        "asApproximateFloat": [((Quantity,), lambda amount: amount.nanos / NANO)],
        "sign": [((Quantity,), lambda amount: _compare(amount.nanos, 0))],
        "add": [((Quantity, (Quantity, int)), lambda left, right: Quantity(left.nanos + _nanos(right)))],
        "sub": [((Quantity, (Quantity, int)), lambda left, right: Quantity(left.nanos - _nanos(right)))],
        "major": [((Version,), lambda version: version.numbers[0])],
        "minor": [((Version,), lambda version: version.numbers[1])],
        "patch": [((Version,), lambda version: version.numbers[2])],
    }
)
"""Name → function that is called on a value, ``value.name(…)``; the value is its first argument."""

FUNCTIONS = _table(
    {
        **libraries.FUNCTIONS,
        "size": [((_SIZED,), len)],
        "int": [(((int, float, str),), _to_int), ((datetime,), lambda at: math.floor(at.timestamp()))],
        "double": [(((int, float, str),), float)],
        "string": [
            (((int, float, str, bool, *libraries.ADDRESS, *libraries.NETWORK),), _to_text),
            ((datetime,), lambda at: at.isoformat().replace("+00:00", "Z")),
            ((timedelta,), lambda span: f"{_to_text(span.total_seconds())}s"),
        ],
        "bool": [((bool,), bool), ((str,), _to_bool)],
        "dyn": [((object,), lambda value: value)],
        "optional.none": [((), lambda: NONE)],
        "optional.of": [((object,), Optional)],
        "optional.ofNonZeroValue": [((object,), lambda value: Optional(value) if value else NONE)],
        "jsonpatch.escapeKey": [((str,), lambda key: key.replace("~", "~0").replace("/", "~1"))],
        "matches": [((str, str), _matches)],
        "quantity": [((str,), quantity)],
        "isQuantity": [((str,), lambda text: _reads(quantity, text))],
        "semver": [((str,), semver), ((str, bool), lambda text, normalize: semver(text, normalize=normalize))],
        "isSemver": [
            ((str,), lambda text: _reads(semver, text)),
            ((str, bool), lambda text, normalize: _reads(lambda given: semver(given, normalize=normalize), text)),
        ],
    }
)
