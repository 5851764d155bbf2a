"""Remove directory trees of pods, whatever their shape: very deep, very wide, without permissions, with mounts below.

No link is followed and no mount point entered. A deep tree needs neither recursion nor many descriptors, because
directories below the second level are moved up first. A wide tree is removed a few entries at a time, so that it does
not block the node's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import count, islice

from strato.clock import Clock
from strato.node import beneath

AT_ONCE = 512
"""Entries removed between two yields to the event loop."""


def remove_tree(path: str) -> None:
    """Remove a directory with its content, or a file; entries that cannot be removed stay."""
    deque(removing(path), maxlen=0)


def removing(path: str) -> Generator[None]:
    """Remove a directory or file in steps, one entry each."""
    above, name = os.path.split(path)
    try:
        parent = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if _remove(parent, name):
            return
        with contextlib.suppress(OSError):
            top = _enter(parent, name)
            try:
                yield from _empty(top)
            finally:
                os.close(top)
            os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def _empty(top: int) -> Iterator[None]:
    """Remove the content of a directory: one subdirectory after the other, whose own are first moved up beside it."""
    prefix, numbers = f".removed-{os.urandom(6).hex()}-", count()
    waiting: deque[str] = deque()
    for _ in _clear(top, lambda name: waiting.append(name)):
        yield
    while waiting:
        name = waiting.popleft()
        try:
            directory = _enter(top, name)
        except OSError:  # a mount point, or removed meanwhile
            continue

        def move_up(inner: str, directory: int = directory) -> None:
            with contextlib.suppress(OSError):
                _open_up(directory, inner)
            moved = f"{prefix}{next(numbers)}"
            os.rename(inner, moved, src_dir_fd=directory, dst_dir_fd=top)
            waiting.append(moved)

        try:
            yield from _clear(directory, move_up)
        finally:
            os.close(directory)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=top)


def _clear(directory: int, set_aside: Callable[[str], None]) -> Iterator[None]:
    """Remove a directory's entries, and set aside the subdirectories that are not empty."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if not _remove(directory, entry.name):
                with contextlib.suppress(OSError):  # a mount point cannot be moved, and stays
                    set_aside(entry.name)
            yield


def _remove(directory: int, name: str) -> bool:
    """Remove a file or an empty directory; return whether it is gone."""
    try:
        try:
            os.unlink(name, dir_fd=directory)
        except (IsADirectoryError, PermissionError):
            os.rmdir(name, dir_fd=directory)
    except OSError as err:
        return err.errno == errno.ENOENT
    return True


def _enter(directory: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return beneath.open_at(directory, name, flags, links=False, mounts=False)
    except PermissionError:
        _open_up(directory, name)
        return beneath.open_at(directory, name, flags, links=False, mounts=False)


def _open_up(directory: int, name: str) -> None:
    """Give the owner the permissions to enter a directory and to move it."""
    found = beneath.open_at(directory, name, os.O_PATH | os.O_DIRECTORY, links=False, mounts=False)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
    finally:
        os.close(found)


class TreeRemover:
    """Removes trees beside the node's other work: small ones at once, large ones `AT_ONCE` entries at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Generator[None]] = deque()
        self._has_work = asyncio.Event()

    def remove(self, path: str) -> None:
        """Begin to remove a directory or file."""
        steps = removing(path)
        if _advance(steps):
            self._waiting.append(steps)
            self._has_work.set()

    async def run(self, clock: Clock) -> None:
        """Continue with large trees until cancelled. The next process of the node removes what is left then."""
        try:
            while True:
                await self._has_work.wait()
                while self._waiting:
                    if not _advance(self._waiting[0]):
                        self._waiting.popleft()
                    await clock.sleep(0)
                self._has_work.clear()
        finally:
            while self._waiting:
                self._waiting.popleft().close()


def _advance(steps: Iterator[None]) -> bool:
    """Take `AT_ONCE` steps; return whether there may be more."""
    return sum(1 for _ in islice(steps, AT_ONCE)) == AT_ONCE
