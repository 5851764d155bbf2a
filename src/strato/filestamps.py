"""Files that are followed: what shows that one was written again since it was read."""

from __future__ import annotations

import os
from typing import NamedTuple


class FileStamp(NamedTuple):
    """What differs once a file was written again, or another one has its name."""

    modified_ns: int
    identity: int
    size_bytes: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileStamp | None:
        """Return the stamp of a file as it is now; None: it is not there, or cannot be looked at."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_ino, found.st_size)
