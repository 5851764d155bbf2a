"""The terminal that a command runs in: its bytes, its size, its raw mode."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator

_READ_BYTES = 32 * 1024


def is_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Put the terminal into raw mode, in which even Ctrl-C is data, for the length of the block."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def typed() -> AsyncIterator[bytes]:
    """Yield standard input as it comes; a thread reads, since it may be a file, which no loop can wait for."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    wanted = threading.Semaphore(4)  # at most four chunks are read ahead

    def read() -> None:
        while True:
            wanted.acquire()
            try:
                chunk = os.read(0, _READ_BYTES)
            except OSError:
                chunk = b""
            with contextlib.suppress(RuntimeError):  # the event loop has been closed
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            if not chunk:
                return

    threading.Thread(target=read, daemon=True, name="standard input").start()
    while chunk := await chunks.get():
        yield chunk
        wanted.release()


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Yield columns and lines of the terminal, now and whenever they change."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            with contextlib.suppress(OSError):
                found = os.get_terminal_size(sys.stdin.fileno())
                yield found.columns, found.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


def write(descriptor: int, data: bytes) -> None:
    """Write all of it to standard output or standard error."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
