"""Detect whether a file was written again since it was read."""

from __future__ import annotations

import os
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Attributes of a file of which at least one differs after a write, or when another file has its name."""

    modified_ns: int
    identity: int
    size_bytes: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileStamp | None:
        """Return the present stamp of a file; None if it does not exist or its attributes cannot be read."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_ino, found.st_size)
