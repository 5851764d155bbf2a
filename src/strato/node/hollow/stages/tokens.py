"""Tokens of the small languages in stages: queries and templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


def tokens(pattern: re.Pattern[str], text: str, refuse: Callable[[str], Exception]) -> Iterator[re.Match[str]]:
    """Yield the consecutive tokens of a text until only blanks are left.

    Args:
        pattern: Matches one token, with the blanks before it.
        text: The text.
        refuse: Makes the exception to raise at a place without a token, from a sentence about it.
    """
    place = 0
    while text[place:].strip():
        match = pattern.match(text, place)
        if match is None:
            raise refuse(f"{text[place:].strip()[:20]!r} is not understood")
        yield match
        place = match.end()
