"""Summarise messages about many objects: equal messages once, with the number of objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_MOST_NAMES: Final = 3
_IT: Final = "\0"
"""Placeholder for the name of a part in its message, so that messages about different parts can be equal."""


def counted(messages: Mapping[str, str], part: str) -> list[str]:
    """Return one line per different message, with the number and names of the parts that have it.

    Args:
        messages: Name of a part → its message, which may contain the name.
        part: Word for a part, such as ``pod``.
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
    """Return names sorted by their numbers, at most three of them: ``a-0, a-1, … a-999``."""
    ordered = sorted(names, key=_numbered)
    return ", ".join(ordered) if len(ordered) <= _MOST_NAMES else f"{ordered[0]}, {ordered[1]}, … {ordered[-1]}"


def _numbered(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, -1)
