"""Container logs from disk, as ``kubectl logs`` asks for them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Protocol

from strato.clock import Clock, parse_time
from strato.errors import NotFound
from strato.node.sandbox.layout import Layout, PodPlace

FOLLOW_SECONDS = 0.1
"""Between two looks for more output while a log is followed."""
_CHUNK_BYTES = 65536


class LogQuery(Protocol):
    """What part of a log is wanted (the server's ``LogOptions``)."""

    @property
    def follow(self) -> bool:
        """Go on until the container ends."""
        ...

    @property
    def previous(self) -> bool:
        """The run before the present one."""
        ...

    @property
    def timestamps(self) -> bool:
        """Put the time before every line."""
        ...

    @property
    def tail_lines(self) -> int | None:
        """Only so many lines from the end, before following."""
        ...

    @property
    def since_seconds(self) -> float | None:
        """Only lines not older than this."""
        ...

    @property
    def since_time(self) -> float | None:
        """Only lines from this instant on, seconds since the epoch."""
        ...

    @property
    def limit_bytes(self) -> int | None:
        """Stop after so many bytes."""
        ...


class LineFilter:
    """Turns records as they lie on disk into what the reader sees."""

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

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock

    async def read_log(
        self, namespace: str, pod: str, uid: str, container: str, options: LogQuery
    ) -> AsyncIterator[bytes]:
        """Yield the log of a container, in pieces of whole records.

        Raises:
            NotFound: There is no log of that container, or of its previous run.
        """
        place = self._layout.pod(uid)
        number = _attempt(place, namespace, pod, container, previous=options.previous)
        path = place.log(container, number)
        lines = LineFilter(options, self._clock.now())
        position = os.path.getsize(path)
        output = b"".join(lines.render(record) for record in _chosen(path, options.tail_lines))
        if output:
            yield output
        while options.follow and not lines.full:
            ending = place.attempt(container, number) + "/exit.json"
            ended = os.path.exists(ending) or not os.path.isdir(place.home)
            position, more = _read_from(path, position)
            output = b"".join(lines.render(record) for record in more)
            if output:
                yield output
            elif ended:
                return
            else:
                await self._clock.sleep(FOLLOW_SECONDS)


def _attempt(place: PodPlace, namespace: str, pod: str, container: str, *, previous: bool) -> int:
    directory = os.path.join(place.home, "logs", container)
    numbers = sorted(int(f[:-4]) for f in _names(directory) if f.endswith(".log") and f[:-4].isdigit())
    if previous:
        numbers = numbers[:-1]
    if not numbers:
        which = "previous terminated container" if previous else "container"
        raise NotFound(f'{which} "{container}" in pod "{pod}" of namespace "{namespace}" has no log on this node')
    return numbers[-1]


def _chosen(path: str, tail_lines: int | None) -> Iterable[bytes]:
    """Return all records, or those of the last lines."""
    records = _whole_files(path)
    return records if tail_lines is None else deque(records, maxlen=tail_lines)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _whole_files(path: str) -> Iterator[bytes]:
    """Yield all records, those of rotated files first."""
    directory, name = os.path.split(path)
    numbers = sorted((int(n[len(name) + 1 :]) for n in _names(directory) if n.startswith(name + ".")), reverse=True)
    for file_path in (*(f"{path}.{number}" for number in numbers), path):
        try:
            with open(file_path, "rb") as file:
                for line in file:
                    yield line.rstrip(b"\n")
        except FileNotFoundError:
            continue


def _read_from(path: str, position: int) -> tuple[int, list[bytes]]:
    """Return the whole records after a position, and the position after them; a shorter file was rotated."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < position:
                position = 0
            file.seek(position)
            data = file.read(_CHUNK_BYTES)
    except FileNotFoundError:
        return 0, []
    end = data.rfind(b"\n") + 1
    return position + end, data[:end].split(b"\n")[:-1]
