"""Format texts as Kubernetes does."""

from __future__ import annotations

from collections.abc import Sequence

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(value: str | Sequence[str]) -> str:
    """Return a text in quotes, or several in brackets, as Go's ``%q`` does."""
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return "[" + " ".join(map(quoted, value)) + "]"


def _escaped(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
