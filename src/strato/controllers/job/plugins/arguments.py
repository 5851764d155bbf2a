"""Arguments of job plugins, written like Go flags: ``--k=v``, ``--k v``, ``-k v``, ``--flag``.

Parsing stops at the first argument that is no known flag or has a bad value; the flags before it stay in force.

Source: volcano-controllers Part B, first rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = str | int | bool

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_flags(arguments: Sequence[str], defaults: Mapping[str, Value]) -> tuple[dict[str, Value], str]:
    """Read flags; the type of a flag is that of its default.

    Returns:
        The values, and why the first bad argument was refused (empty when all were good).
    """
    values = dict(defaults)
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        stripped = argument[2:] if argument.startswith("--") else argument[1:]
        if not argument.startswith("-") or not stripped or stripped.startswith(("-", "=")):
            return values, "" if not argument.startswith("-") or argument == "--" else f"bad flag syntax: {argument}"
        name, has_value, text = stripped.partition("=")
        if name not in defaults:
            return values, f"flag provided but not defined: -{name}"
        if not has_value and not isinstance(defaults[name], bool):
            if position >= len(arguments):
                return values, f"flag needs an argument: -{name}"
            text = arguments[position]
            position += 1
        elif not has_value:
            text = "true"
        value = _convert(text, defaults[name])
        if value is None:
            return values, f"invalid value {text!r} for flag -{name}"
        values[name] = value
    return values, ""


def _convert(text: str, default: Value) -> Value | None:
    if isinstance(default, bool):
        return True if text in _TRUE else False if text in _FALSE else None
    if isinstance(default, int):
        try:
            return int(text, 0)
        except ValueError:
            return None
    return text
