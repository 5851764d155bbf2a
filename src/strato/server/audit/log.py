"""The audit log's file: one event a line, written by a thread, rotated by size and age as kube-apiserver does it.

The loop never waits for the disk: events go into a bounded queue; those that do not fit are dropped and counted. A line
is in the file whole or not at all.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.clock import Clock
from strato.errors import UsageError, one_line
from strato.metrics import Sample
from strato.server.audit.events import Body

_MAX_EVENTS = 10_000
_MAX_BYTES = 64 << 20
"""Most bytes of bodies in the queue."""
_EVENT_BYTES = 1024
"""Size that an event counts for in addition to its body."""
_DEFAULT_MEGABYTES = 100
_STOP_SECONDS = 5.0

_log = logging.getLogger(__name__)


class AuditLog:
    """A file of events.

    Args:
        path: The file; ``-`` is standard output.
        decode: Returns a request's body as an object, or None if it is not to be recorded.
        max_age_days: Age at which backups are deleted; 0 keeps them.
        max_backups: Most backups kept; 0 keeps all.
        max_megabytes: Size at which the file is rotated; 0 is 100.

    Raises:
        UsageError: The file cannot be written.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        decode: Callable[[Body], Any],
        *,
        max_age_days: int = 0,
        max_backups: int = 0,
        max_megabytes: int = 0,
    ) -> None:
        self._path = None if path == "-" else Path(path)
        self._clock, self._decode = clock, decode
        self._max_age_days, self._max_backups = max_age_days, max_backups
        self._max_bytes = (max_megabytes or _DEFAULT_MEGABYTES) * 1_000_000
        self._queue: deque[tuple[Json, int]] = deque()
        self._waiting_bytes = 0
        self._wake, self._lock = threading.Event(), threading.Lock()
        self._is_stopping = False
        self.events = self.dropped = 0
        """Numbers of events, and of those that were dropped."""
        self._file = -1
        self._size = 0
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"--audit-log-path {path}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def put(self, event: Json) -> None:
        """Queue an event; drop it if too many wait already."""
        body = event.get("requestObject")
        size = _EVENT_BYTES + (len(body.data) if isinstance(body, Body) else 0)
        self.events += 1
        if len(self._queue) >= _MAX_EVENTS or self._waiting_bytes + size > _MAX_BYTES:
            with self._lock:
                self.dropped += 1
            return
        with self._lock:
            self._waiting_bytes += size
        self._queue.append((event, size))
        self._wake.set()

    def close(self) -> None:
        """Write all queued events and end the thread."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join(_STOP_SECONDS)

    def samples(self) -> Iterable[Sample]:
        """Yield the numbers of events and of dropped ones."""
        yield Sample("apiserver_audit_event_total", {}, self.events)
        yield Sample("apiserver_audit_error_total", {"plugin": "log"}, self.dropped)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            stopping = self._is_stopping
            while self._queue:
                self._write_some()
            if stopping:
                return

    def _write_some(self) -> None:
        lines, count, size = [], 0, 0
        while self._queue and count < 256 and size < 1 << 20:
            event, weight = self._queue.popleft()
            with self._lock:
                self._waiting_bytes -= weight
            try:
                line = self._line(event)
            except Exception:  # the event of one request must not end the thread
                _log.exception("an event of the audit log cannot be written: id=%s", event.get("auditID"))
                with self._lock:
                    self.dropped += 1
                continue
            lines.append(line)
            count, size = count + 1, size + len(line)
        try:
            if self._path is not None and self._size and self._size + size > self._max_bytes:
                self._rotate()
            self._append(b"".join(lines))
        except OSError as error:
            with self._lock:
                self.dropped += count
            why = one_line(error)
            _log.warning("the audit log cannot be written: path=%s events_lost=%d error=%s", self._path, count, why)

    def _line(self, event: Json) -> bytes:
        body = event.get("requestObject")
        if isinstance(body, Body):
            decoded = self._decode(body)
            if decoded is None:
                del event["requestObject"]
                event["annotations"] = {**event.get("annotations", {}), "audit.k8s.io/truncated": "true"}
            else:
                event["requestObject"] = decoded
        return msgspec.json.encode(event) + b"\n"

    def _append(self, data: bytes) -> None:
        if self._path is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if self._file < 0:
            self._open()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self._size)  # removes an incomplete line
            raise
        self._size += len(data)

    def _open(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        """Rename the file with the current time, begin a new one, and delete backups that are too old or too many."""
        assert self._path is not None
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        while True:
            stamp = f"{moment:%Y-%m-%dT%H-%M-%S}.{moment.microsecond // 1000:03d}"
            aside = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
            if not aside.exists():
                break
            moment = datetime.fromtimestamp(moment.timestamp() + 0.001, UTC)
        os.rename(self._path, aside)
        os.close(self._file)
        self._file = -1
        self._open()
        backups = sorted(self._backups(), reverse=True)
        for number, backup in enumerate(backups):
            too_many = self._max_backups and number >= self._max_backups
            age_seconds = self._clock.now() - _time_of(backup, self._path)
            if too_many or (self._max_age_days and age_seconds > self._max_age_days * 86400):
                backup.unlink(missing_ok=True)

    def _backups(self) -> list[Path]:
        assert self._path is not None
        path = self._path
        return [
            one
            for one in path.parent.glob(f"{path.stem}-*{path.suffix}")
            if _time_of(one, path) > 0  # keeps files with similar names that are not backups
        ]


def _time_of(backup: Path, path: Path) -> float:
    """Return the time in a backup's name; 0 if the file is not a backup."""
    stamp = backup.name[len(path.stem) + 1 : len(backup.name) - len(path.suffix)]
    try:
        return datetime.strptime(f"{stamp}000+0000", "%Y-%m-%dT%H-%M-%S.%f%z").timestamp()
    except ValueError:
        return 0.0
