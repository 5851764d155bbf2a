"""Read container logs from disk, with the options of ``kubectl logs``."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Protocol, Self

from strato.clock import Clock, parse_time
from strato.errors import NotFound
from strato.node import beneath
from strato.node.sandbox.paths import NodePaths, PodPaths

FOLLOW_SECONDS = 0.1
"""Seconds between two reads of new output while a log is followed."""
_CHUNK_BYTES = 65536
_MESSAGE_LINES, _MESSAGE_BYTES, _END_BYTES = 80, 2048, 16384


class LogQuery(Protocol):
    """Options of a log request (the server's ``LogOptions``)."""

    @property
    def follow(self) -> bool:
        """Go on until the container ends."""

    @property
    def previous(self) -> bool:
        """The run before the present one."""

    @property
    def timestamps(self) -> bool:
        """Put the time before every line."""

    @property
    def tail_lines(self) -> int | None:
        """Only so many lines from the end, before following."""

    @property
    def since_seconds(self) -> float | None:
        """Only lines not older than this."""

    @property
    def since_time(self) -> float | None:
        """Only lines from this instant on, seconds since the epoch."""

    @property
    def limit_bytes(self) -> int | None:
        """Stop after so many bytes."""


class LineFilter:
    """Turns records on disk into the output for the reader."""

    def __init__(self, query: LogQuery, now: float) -> None:
        self._timestamps = query.timestamps
        self._since = query.since_time
        if query.since_seconds is not None:
            self._since = now - query.since_seconds
        self._left = query.limit_bytes
        self._at_line_start = True

    @property
    def full(self) -> bool:
        """Whether the byte limit has been reached."""
        return self._left is not None and self._left <= 0

    def render(self, record: bytes) -> bytes:
        """Return the output for a record (without its newline); empty when it is left out."""
        if self.full:
            return b""
        stamp, _, rest = record.partition(b" ")
        _, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if self._since is not None and _instant(stamp) < self._since:
            return b""
        output = text + (b"\n" if tag == b"F" else b"")
        if self._timestamps and self._at_line_start:
            output = stamp + b" " + output
        self._at_line_start = tag == b"F"
        if self._left is not None:
            output = output[: self._left]
            self._left -= len(output)
        return output


def _instant(stamp: bytes) -> float:
    text = stamp.decode(errors="replace").rstrip("Z")
    try:
        return parse_time(text[:26] + "+00:00")
    except ValueError:
        return 0.0


class DiskLogs:
    """Serves the logs of one node's pods; a `LogSource` of the server."""

    def __init__(self, node_paths: NodePaths, clock: Clock) -> None:
        self._node_paths = node_paths
        self._clock = clock

    async def read_log(
        self, namespace: str, pod: str, uid: str, container: str, options: LogQuery
    ) -> AsyncIterator[bytes]:
        """Yield the log of a container, in pieces of whole records.

        Raises:
            NotFound: There is no log of that container, or of its previous run.
        """
        place = self._node_paths.pod(uid)
        number = _attempt(place, namespace, pod, container, previous=options.previous)
        lines = LineFilter(options, self._clock.now())
        with _Tail(place.log(container, number)) as tail:
            output = b"".join(lines.render(record) for record in _chosen(tail, options.tail_lines))
            if output:
                yield output
            while options.follow and not lines.full:
                ending = place.attempt(container, number) + "/exit.json"
                ended = os.path.exists(ending) or not os.path.isdir(place.attempt(container, number))
                output = b"".join(lines.render(record) for record in tail.read())
                if output:
                    yield output
                elif ended:
                    return
                else:
                    await self._clock.sleep(FOLLOW_SECONDS)


def _attempt(place: PodPaths, namespace: str, pod: str, container: str, *, previous: bool) -> int:
    is_name = bool(container) and "/" not in container and container not in (".", "..")
    files = _names(os.path.join(place.home, "logs", container)) if is_name else []
    numbers = sorted(int(f[:-4]) for f in files if f.endswith(".log") and f[:-4].isdigit())
    if previous:
        numbers = numbers[:-1]
    if not numbers and previous:
        raise NotFound(f'previous terminated container "{container}" in pod "{pod}" not found')
    if not numbers:
        why = "it has not started yet, or its node is a hollow one, where nothing is written, or another machine"
        raise NotFound(f'container "{container}" in pod "{pod}" of namespace "{namespace}" has no log: {why}')
    return numbers[-1]


class _Tail:
    """A log that is being written: keeps the file open, so that a rotation between two reads loses nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def older(self) -> Iterator[bytes]:
        """Yield the records of the rotated files, the oldest first."""
        directory, name = os.path.split(self._path)
        tails = (n[len(name) + 1 :] for n in _names(directory) if n.startswith(name + "."))
        numbers = sorted((int(tail) for tail in tails if tail.isdigit()), reverse=True)
        ours = os.fstat(self._file.fileno()).st_ino
        for number in numbers:
            with suppress(FileNotFoundError), _open(f"{self._path}.{number}") as file:
                if os.fstat(file.fileno()).st_ino != ours:  # else this file was just rotated, and `read` yields it
                    yield from (line.rstrip(b"\n") for line in file)

    def read(self) -> list[bytes]:
        """Return the complete new records since the last call, at most some hundred KiB; empty if there are none."""
        data = self._file.read(_CHUNK_BYTES)
        if not data and self._was_rotated():
            data = self._file.read(_CHUNK_BYTES)
        *records, self._rest = (self._rest + data).split(b"\n")
        return records

    def _was_rotated(self) -> bool:
        """Switch to the new file after a rotation; the old one has been read to its end before."""
        try:
            if os.stat(self._path).st_ino == os.fstat(self._file.fileno()).st_ino:
                return False
            fresh = _open(self._path)
        except FileNotFoundError:
            return False
        self._file.close()
        self._file = fresh
        return True


def _chosen(tail: _Tail, tail_lines: int | None) -> Iterable[bytes]:
    """Return all present records, or those of the last ``tail_lines`` lines."""
    records = _so_far(tail)
    return records if tail_lines is None else deque(records, maxlen=tail_lines)


def _so_far(tail: _Tail) -> Iterator[bytes]:
    yield from tail.older()
    while records := tail.read():
        yield from records


def last_lines(place: PodPaths, container: str, number: int) -> str:
    """Return the end of a run's log for a termination message, as the kubelet does: at most 80 lines and 2 KiB."""
    data = beneath.read_regular(place.log(container, number), _END_BYTES, from_end=True)
    records = data.split(b"\n")[:-1]
    if len(data) == _END_BYTES:
        records = records[1:]  # the first record is incomplete
    lines = [record.split(b" ", 3)[-1] for record in records]
    return b"\n".join(lines[-_MESSAGE_LINES:])[-_MESSAGE_BYTES:].decode(errors="replace")


def _open(path: str) -> BinaryIO:
    """Open a log; follows no link in its place, and does not block on a pipe."""
    return open(beneath.open_regular(path), "rb")


def _names(directory: str) -> list[str]:
    try:
        with beneath.opened(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as found:
            return os.listdir(found)
    except OSError:
        return []
