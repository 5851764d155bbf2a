"""Write secret files, atomically and readable only by their owner."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_secret(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 atomically, by writing a temporary file and renaming it.

    Raises:
        OSError: The folder cannot be created or written.
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
