"""Regular expressions of users, in Go's syntax (RE2). Matching takes linear time, so no pattern can block a process."""

from __future__ import annotations

from itertools import islice

import re2

from strato.errors import StratoError
from strato.lru import memoised

_LONGEST_PATTERN = 32 * 1024
_MEMORY_BYTES = 1 << 20
"""Most memory of one compiled pattern, which also bounds the length of its program."""
_MOST_STEPS = 200_000_000
"""Longest product of a text's characters and a program's instructions; in the worst case each step takes 0.4 ns."""


class InvalidPattern(StratoError, ValueError):
    """A text is no regular expression of RE2, or is too large."""


class Pattern:
    """A compiled pattern.

    Raises:
        InvalidPattern: It is none.
    """

    __slots__ = ("_find_all", "_longest", "_search", "size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _LONGEST_PATTERN:
            raise InvalidPattern(f"a pattern may have {_LONGEST_PATTERN} characters at most")
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = _MEMORY_BYTES, False, True
        try:
            compiled = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0] if error.args else "invalid"
            raise InvalidPattern(_go_message(reason)) from error
        except UnicodeEncodeError as error:
            raise InvalidPattern("invalid UTF-8") from error
        self._search, self._find_all = compiled.search, compiled.finditer
        self.size = max(int(compiled.programsize), 1)
        """Instructions of the program."""
        self._longest = _MOST_STEPS // self.size

    def is_in(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in a text; False for a text beyond `_MOST_STEPS`."""
        if len(text) > self._longest:
            return False
        try:
            return self._search(text) is not None
        except UnicodeEncodeError:  # an unpaired surrogate is no valid character in Go
            return False

    def found_in(self, text: str, most: int = -1) -> list[str]:
        """Return the matches of the pattern in a text, at most ``most`` if that is not negative."""
        if len(text) > self._longest:
            return []
        try:
            return [match.group() for match in islice(self._find_all(text), None if most < 0 else most)]
        except UnicodeEncodeError:
            return []


_GO_MESSAGES = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "unexpected )": "unexpected )",
}
"""Message of RE2 → the message of Go's package for the same error."""


def _go_message(reason: object) -> str:
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    what, colon, where = text.partition(": ")
    return f"{_GO_MESSAGES.get(what, what)}: `{where}`" if colon else text


@memoised(64 << 20, longest=_LONGEST_PATTERN, entry_bytes=_MEMORY_BYTES)
def compile_pattern(text: str) -> Pattern:
    """Return the compiled pattern; recent ones are cached.

    Raises:
        InvalidPattern: The text is no valid pattern.
    """
    return Pattern(text)
