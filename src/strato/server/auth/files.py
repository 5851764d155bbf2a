"""Secret files: written whole or not at all, readable by their owner only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_secret(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 by renaming; a reader never sees half of it, nor another mode.

    Raises:
        OSError: The folder cannot be made or written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
