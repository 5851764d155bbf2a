"""Remove what pods leave behind, however they built it: deep, wide, without rights, with mounts below.

Nothing is followed and no mount point is entered. However deep a tree is, few descriptors are held and nothing
recurses: what lies below the second level is moved up. However wide it is, the node's loop goes on meanwhile.
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
"""Entries that are removed before anything else happens."""


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it, or a file; what cannot be removed stays."""
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
    """Remove what is in a directory; its subdirectories one by one, theirs are moved beside them."""
    prefix, numbers = f".removed-{os.urandom(6).hex()}-", count()
    waiting: deque[str] = deque()
    for _ in _clear(top, lambda name: waiting.append(name)):
        yield
    while waiting:
        name = waiting.popleft()
        try:
            directory = _enter(top, name)
        except OSError:  # a mount point, or gone
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
    """Give the owner the right to go into a directory and to move it."""
    found = beneath.open_at(directory, name, os.O_PATH | os.O_DIRECTORY, links=False, mounts=False)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
    finally:
        os.close(found)


class TreeRemover:
    """Removes trees beside the node's other work: small ones at once, the rest of large ones a few entries a turn."""

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
        """Go on with what is large, until cancelled. What is left then is removed by the next node."""
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
    """Return whether there may be more after so many steps."""
    return sum(1 for _ in islice(steps, AT_ONCE)) == AT_ONCE
