"""Templates: texts with named holes, for objects that differ in a few values only.

A template is made from a text built with marks in place of the values, and checked against a second text built with
other marks. So a filled template equals the plain build; if the two texts show otherwise, there is no template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Template(NamedTuple):
    """A text with holes."""

    pieces: tuple[bytes, ...]
    """The texts around the holes: one more than there are holes."""
    holes: tuple[int, ...]
    """Index of the value that each hole takes."""

    def fill(self, values: Sequence[bytes]) -> bytes:
        """Return the text with the values inserted unchanged, so they must need no escapes in JSON strings."""
        mixed = [b""] * (2 * len(self.holes) + 1)
        mixed[::2] = self.pieces
        mixed[1::2] = [values[hole] for hole in self.holes]
        return b"".join(mixed)


def template_of(names: Sequence[str], build: Callable[[Sequence[str]], bytes]) -> Template | None:
    """Return the template of the texts that ``build`` makes; None if ``build`` does not just insert the values."""
    if not names:
        return Template((build(()),), ())
    cut = re.split(f"<({'|'.join(names)})>".encode(), build([f"<{name}>" for name in names]))
    template = Template(tuple(cut[::2]), tuple(names.index(name.decode()) for name in cut[1::2]))
    return template if template.fill([name.encode() for name in names]) == build(names) else None
