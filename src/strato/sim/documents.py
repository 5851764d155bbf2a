"""`Document`: reads the values of a user's YAML file strictly, and collects every problem with its path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from strato.errors import InvalidInput, Problem, UsageError, called, nearest

T = TypeVar("T")
_MOST_TEXTS = 100_000
_LARGEST = 1e9


class Document:
    """Reads values and collects problems. Reading goes on after a wrong value: an empty or zero one takes its place.

    Args:
        what: What kind of file it is; the error of `raise_any` begins with it.
        label: How messages name the file, usually its path.
    """

    def __init__(self, what: str, label: str) -> None:
        self._what = what
        self._label = label
        self._problems: list[Problem] = []

    def note(self, path: str, message: str) -> None:
        """Add a problem of the value at a path, or of the whole file if the path is empty."""
        self._problems.append(Problem(f"{self._label}: {path}" if path else self._label, message))

    def raise_any(self) -> None:
        """Raise the collected problems, if there are any.

        Raises:
            InvalidInput: All problems.
        """
        if self._problems:
            raise InvalidInput(self._what, self._problems)

    def tried(self, path: str, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns; if it raises a problem of the user's input, add that and return None."""
        try:
            return read()
        except InvalidInput as error:
            for problem in error.problems:
                self.note(path, f"{problem.where}: {problem.message}")
        except UsageError as error:
            self.note(path, str(error))
        return None

    def mapping(self, path: str, value: object, keys: Sequence[str]) -> dict[str, Any]:
        """Return a mapping's items with these keys; other keys are problems."""
        if not isinstance(value, dict):
            self.note(path, f"is {called(value)}, must be an object with {', '.join(keys)}")
            return {}
        for key in value:
            if key not in keys:
                self.note(f"{path}.{key}".lstrip("."), f"is not known{nearest(str(key), keys)}")
        return {str(key): one for key, one in value.items() if key in keys}

    def items(self, path: str, value: object) -> list[Any]:
        """Return a list; null is an empty one."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.note(path, f"is {called(value)}, must be a list")
            return []
        return value

    def text(self, path: str, value: object) -> str:
        """Return a text."""
        if not isinstance(value, str):
            self.note(path, f"is {called(value)}, must be text")
            return ""
        return value

    def texts(self, path: str, value: object) -> tuple[str, ...]:
        """Return a list of texts; numbers and booleans become texts, and a single text a list of one."""
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(one, str | int | float | bool) for one in value):
            self.note(path, f"is {called(value)}, must be a list of texts")
            return ()
        return tuple(str(one) for one in value[:_MOST_TEXTS])

    def number(self, path: str, value: object, low: float = 0.0, high: float = _LARGEST) -> float:
        """Return a number within bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            bounds = f" from {low:g} to {high:g}" if math.isfinite(low) else ""
            self.note(path, f"{str(value)[:40]!r} is no number{bounds}")
            return max(0.0, low)
        return float(value)

    def whole(self, path: str, value: object) -> int:
        """Return a whole number, at least 0."""
        number = self.number(path, value)
        if number != int(number):
            self.note(path, f"{value!r} is no whole number")
        return int(number)
