"""The log of the background processes: older logs are kept under numbers, and the size of each is bounded."""

from __future__ import annotations

import os
from pathlib import Path

from strato.clock import Clock

KEPT_LOGS = 5
"""How many older logs are kept; NAME.1 is the newest."""
MAX_BYTES = 8 << 20
"""Largest size of a log; the beginning of a longer one is dropped."""
_CHECK_SECONDS = 30.0


def rotate(log: Path) -> None:
    """Rename the current log to NAME.1 and the older ones to the next number; the oldest is deleted."""
    if not log.exists() or not log.stat().st_size:
        return
    _make_room(log)
    log.rename(_numbered(log, 1))
    _shorten(_numbered(log, 1))


async def keep_short(log: Path, clock: Clock, max_bytes: int = MAX_BYTES) -> None:
    """Copy the log to NAME.1 and truncate it whenever it is too long; processes go on appending to the same file."""
    while True:
        await clock.sleep(_CHECK_SECONDS)
        if log.exists() and log.stat().st_size > max_bytes:
            _copy_and_truncate(log, max_bytes)


def logs_of(log: Path) -> list[Path]:
    """Return the paths of the log and of the older ones that exist."""
    return [path for path in (log, *(_numbered(log, number) for number in range(1, KEPT_LOGS + 1))) if path.exists()]


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")


def _make_room(log: Path) -> None:
    for number in range(KEPT_LOGS - 1, 0, -1):
        if _numbered(log, number).exists():
            _numbered(log, number).replace(_numbered(log, number + 1))


def _copy_and_truncate(log: Path, max_bytes: int) -> None:
    _make_room(log)
    _numbered(log, 1).write_bytes(_tail(log, max_bytes))
    os.truncate(log, 0)  # safe: every writer has opened it with O_APPEND


def _shorten(log: Path) -> None:
    if log.stat().st_size > MAX_BYTES:
        log.write_bytes(_tail(log, MAX_BYTES))


def _tail(log: Path, length: int) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        return file.read(length)
