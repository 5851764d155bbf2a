"""The files of a log: ``LOG``, ``LOG.1``, ``LOG.2`` …; each process begins a new one, and another when it is full."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from strato.errors import UsageError
from strato.sim.recording.frames import BEGINNING, MAGIC, SNAPSHOT, to_frame

FRAME_BYTES: Final = 256 << 10
"""Bytes of entries after which a frame is written. The recorder writes a smaller one every second."""
FILE_BYTES: Final = 256 << 20


def files_of(log: Path) -> list[Path]:
    """Return the existing files of a log, in order."""
    found = [(0, log)] if log.is_file() else []
    pattern = re.compile(rf"{re.escape(log.name)}\.([1-9][0-9]{{0,8}})")
    with contextlib.suppress(OSError):
        for path in log.parent.iterdir():
            match = pattern.fullmatch(path.name)
            if match is not None and path.is_file():
                found.append((int(match[1]), path))
    return [path for _, path in sorted(found)]


class LogFiles:
    """Appends frames to the files of a log.

    Args:
        log: Path of the first file. Existing files of the log are not changed; a new one is begun.
        file_bytes: Bytes after which a new file is begun.
        keep: Most files of the log; the oldest are removed. 0 keeps all.

    Raises:
        UsageError: The file cannot be created.
    """

    def __init__(self, log: Path, *, file_bytes: int = FILE_BYTES, keep: int = 0) -> None:
        self._log = log
        self._file_bytes = file_bytes
        self._keep = keep
        self._fd = -1
        self._written = 0
        self._entries: list[bytes] = []
        self._size = 0
        self._flags = 0
        self._at = 0.0
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"{log} cannot be written: {error.strerror}") from error

    @property
    def is_full(self) -> bool:
        """Whether a new file is due."""
        return self._written >= self._file_bytes

    @property
    def buffered(self) -> int:
        """Bytes of entries that are not yet written as a frame."""
        return self._size

    def add(self, entry: bytes, at: float, *, begins: bool = False, snapshot: bool = False) -> None:
        """Add an encoded entry to the next frame; write that if it is full.

        Raises:
            OSError: The frame cannot be written.
        """
        if not self._entries:
            self._at = at
        self._entries.append(entry)
        self._size += len(entry)
        self._flags |= (BEGINNING if begins else 0) | (SNAPSHOT if snapshot else 0)
        if self._size >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the next frame with the entries added so far.

        Raises:
            OSError: The frame cannot be written; its entries are lost.
        """
        from strato.sim.recording.entries import pack

        if not self._entries:
            return
        frame = to_frame(pack(self._entries), self._at, self._flags)
        self._entries, self._size, self._flags = [], 0, 0
        view = memoryview(frame)
        while view:
            view = view[os.write(self._fd, view) :]
        self._written += len(frame)

    def next_file(self) -> None:
        """Begin a new file, and remove the oldest ones if there are more than ``keep``.

        Raises:
            OSError: The file cannot be created.
        """
        self.flush()
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._open()
        files = files_of(self._log)
        for path in files[: len(files) - self._keep] if self._keep else ():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write the entries added so far and close the file.

        Raises:
            OSError: They cannot be written.
        """
        if self._fd < 0:
            return
        try:
            self.flush()
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        files = files_of(self._log)
        if not files:
            path = self._log
        else:
            last = files[-1].name.removeprefix(self._log.name).lstrip(".")
            path = self._log.with_name(f"{self._log.name}.{int(last or 0) + 1}")
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(self._fd, MAGIC)
        self._written = len(MAGIC)
