"""Container logs on disk: one line per record in the CRI form, in files of bounded size. Standard library only.

``2026-11-21T07:00:00.123456789Z stdout F the line``; ``P`` instead of ``F`` marks a piece of a longer line. The file
is ``NAME``; when it is full it becomes ``NAME.1``, the former ``NAME.1`` becomes ``NAME.2``, and so on.
"""

from __future__ import annotations

import contextlib
import os
import time

MAX_BYTES = 10 * 1024 * 1024
MAX_FILES = 5
MAX_LINE_BYTES = 16384


class LogWriter:
    """Appends a container's output to its log. It keeps the directory open, so that it works inside another root."""

    def __init__(self, path: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> None:
        directory, self._name = os.path.split(path)
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._rest: dict[str, bytes] = {}
        self._open()

    def write(self, stream: str, data: bytes) -> None:
        """Add output of one stream (``stdout``, ``stderr``); buffers a last line that has no newline yet."""
        *lines, rest = (self._rest.get(stream, b"") + data).split(b"\n")
        head = _stamp(stream)
        records = []
        for line in lines:
            while len(line) > MAX_LINE_BYTES:
                records.append(b"%s P %s\n" % (head, line[:MAX_LINE_BYTES]))
                line = line[MAX_LINE_BYTES:]
            records.append(b"%s F %s\n" % (head, line))
        while len(rest) >= MAX_LINE_BYTES:
            records.append(b"%s P %s\n" % (head, rest[:MAX_LINE_BYTES]))
            rest = rest[MAX_LINE_BYTES:]
        self._rest[stream] = rest
        self._append(b"".join(records))

    def close(self) -> None:
        """Write the buffered unfinished lines."""
        for stream, rest in self._rest.items():
            if rest:
                self._append(b"%s P %s\n" % (_stamp(stream), rest))
        self._rest.clear()
        os.close(self._file)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._name, flags, 0o640, dir_fd=self._directory)
        self._size = os.fstat(self._file).st_size

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:  # a full disk must not stop the container
            pass
        self._size += len(data)

    def _rotate(self) -> None:
        os.close(self._file)
        names = [self._name] + [f"{self._name}.{number}" for number in range(1, self._max_files)]
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            with contextlib.suppress(FileNotFoundError):
                os.rename(newer, older, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._open()


def _stamp(stream: str) -> bytes:
    nanos = time.time_ns()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // 1_000_000_000))
    return f"{text}.{nanos % 1_000_000_000:09d}Z {stream}".encode()
