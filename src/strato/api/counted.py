"""Messages about many objects as people read them: equal ones once, with how many. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_MOST_NAMES: Final = 3
_IT: Final = "\0"
"""Stands for the name of who a message is about."""


def counted(messages: Mapping[str, str], part: str) -> list[str]:
    """Return one line per different message, with how many and which parts it is about.

    Args:
        messages: Part to message, which may name the part.
        part: What the parts are: ``pod``.
    """
    by_text: dict[str, list[str]] = {}
    for name, message in messages.items():
        plain = message.replace(name, _IT).replace(name.rpartition("/")[2], _IT)
        by_text.setdefault(plain, []).append(name)
    lines = []
    for text, names in sorted(by_text.items(), key=lambda item: -len(item[1])):
        if len(names) == 1:
            lines.append(f"{part} {names[0]}: {messages[names[0]]}")
        else:
            plain = text.replace(f"Pod {_IT}", "it").replace(_IT, "it")
            lines.append(f"{len(names)} {part}s ({names_text(names)}): {plain}")
    return lines


def names_text(names: Sequence[str]) -> str:
    """Return names in the order of their numbers, at most three of them: ``a-0, a-1, … a-999``."""
    ordered = sorted(names, key=_numbered)
    return ", ".join(ordered) if len(ordered) <= _MOST_NAMES else f"{ordered[0]}, {ordered[1]}, … {ordered[-1]}"


def _numbered(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, -1)
