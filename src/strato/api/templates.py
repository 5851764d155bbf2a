"""Templates: texts with named holes, for objects that differ in a few values only.

A template is made by building the text with marks in place of the values, and checked by building it once more with
others; so it says what the plain build says, or there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Template(NamedTuple):
    """A text with holes."""

    pieces: tuple[bytes, ...]
    """What stands around the holes: one more than there are."""
    holes: tuple[int, ...]
    """Which word each hole takes."""

    def fill(self, values: Sequence[bytes]) -> bytes:
        """Return the text with values as they are written in it: JSON strings must need no escapes."""
        mixed = [b""] * (2 * len(self.holes) + 1)
        mixed[::2] = self.pieces
        mixed[1::2] = [values[hole] for hole in self.holes]
        return b"".join(mixed)


def template_of(names: Sequence[str], build: Callable[[Sequence[str]], bytes]) -> Template | None:
    """Return the template of the texts that ``build`` makes of values; None when it does not just insert them."""
    if not names:
        return Template((build(()),), ())
    cut = re.split(f"<({'|'.join(names)})>".encode(), build([f"<{name}>" for name in names]))
    template = Template(tuple(cut[::2]), tuple(names.index(name.decode()) for name in cut[1::2]))
    return template if template.fill([name.encode() for name in names]) == build(names) else None
