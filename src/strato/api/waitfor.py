"""The conditions of ``kubectl wait --for``, for which a step or command can wait. Pure.

A condition is ``create``, ``delete``, ``condition=NAME``, ``condition=NAME=STATUS``, ``jsonpath={.a.b}`` (any value) or
``jsonpath={.a.b}=VALUE``. Paths are those that kubectl accepts here: members (``.status.phase``,
``['example.org/name']``) and elements (``[0]``), which lead to a single value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import re2

MAX_TEXT: Final = 1024
"""Longest condition, in characters."""

_STEP: Final = re2.compile(r"\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\[\"([^\"]+)\"\]|\[([0-9]{1,9})\]")
_DEFAULT_STATUS: Final = "true"
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Expectation:
    """One parsed condition."""

    text: str
    """As the user wrote it."""
    exists: bool = True
    """Whether the object has to exist; if it must not, there are no further requirements."""
    condition: str = ""
    """Type of a condition in ``status.conditions``, in lower case, because kubectl ignores the case."""
    path: tuple[str | int, ...] = ()
    """Members and elements that lead to the value."""
    value: str | None = None
    """Required status of the condition, or required value; None accepts any value."""

    @property
    def reads_values(self) -> bool:
        """Whether the condition needs the object's content, not only its existence."""
        return bool(self.condition or self.path)

    def verdict(self, obj: dict[str, Any] | None) -> str:
        """Return why the condition does not hold for an object (None if it does not exist); empty when it holds."""
        if not self.exists:
            return "" if obj is None else "is still there"
        if obj is None:
            return "does not exist"
        if self.condition:
            return self._of_condition(obj)
        return self._of_path(obj) if self.path else ""

    def _of_condition(self, obj: dict[str, Any]) -> str:
        status = obj.get("status")
        conditions = status.get("conditions") if isinstance(status, dict) else None
        for one in conditions if isinstance(conditions, list) else ():
            if isinstance(one, dict) and str(one.get("type", "")).lower() == self.condition:
                found = str(one.get("status", ""))
                return "" if found.lower() == str(self.value).lower() else f"has {one.get('type')}={found[:63]}"
        return f"has no condition {self.text.split('=')[1]!r}"

    def _of_path(self, obj: dict[str, Any]) -> str:
        value: Any = obj
        for step in self.path:
            value = _inside(value, step)
            if value is _MISSING:
                return "has no such value yet"
        if self.value is None:
            return ""
        if isinstance(value, dict | list):
            return "has more than one value there"
        found = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
        return "" if found == self.value else f"has {found[:63]!r} there"


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
    return value[step] if isinstance(value, list) and step < len(value) else _MISSING


def parse_expectation(text: str) -> Expectation:
    """Read a condition.

    Raises:
        ValueError: The text is no condition; the message lists the valid forms.
    """
    word, _, rest = text.partition("=")
    if len(text) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT} characters")
    if text in ("create", "delete"):
        return Expectation(text, exists=text == "create")
    if word == "condition" and rest.partition("=")[0]:
        name, _, status = rest.partition("=")
        return Expectation(text, condition=name.lower(), value=status or _DEFAULT_STATUS)
    if word == "jsonpath" and rest.startswith("{") and "}" in rest:
        inside, _, after = rest[1:].partition("}")
        if after and not after.startswith("="):
            raise ValueError(f"{text!r} goes on after the path; write jsonpath={{.status.phase}}=VALUE")
        return Expectation(text, path=_steps(inside), value=after[1:].strip("'\"") if after else None)
    raise ValueError(
        f"{text!r} is none of create, delete, condition=NAME, condition=NAME=STATUS, "
        "jsonpath={.status.phase}, jsonpath={.status.phase}=VALUE"
    )


def _steps(path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f"{path!r} is no path of members and elements, as .status.conditions[0].reason is")
        member = found.group(1) or found.group(2) or found.group(3)
        steps.append(member if member else int(found.group(4)))
        at = found.end()
    if not steps:
        raise ValueError("the path is empty; write for example jsonpath={.status.phase}=Bound")
    return tuple(steps)
