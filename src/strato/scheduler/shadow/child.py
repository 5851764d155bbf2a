"""Runs a function in a forked child process, on a copy of this process's memory, and reads its answer from a pipe.

The child cannot change this process's memory: a plugin that raises, loops or crashes ends the child only. The child
gets a small share of busy CPUs, is limited in time, ends when this process ends, and closes its inherited files, so
that no socket or lock outlives its owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import mmap
import os
import resource
import select
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from strato.clock import cpu_timer, work_timer
from strato.errors import StratoError

_DONE, _RAISED = b"\0", b"\1"
_READ_BYTES: Final = 1 << 16
_REAP_SECONDS: Final = 0.02
_MOST_BYTES: Final = 64 << 20
"""Longest valid answer."""
_PR_SET_PDEATHSIG: Final = 1
_NICE: Final = 15
"""Gives the child a thirtieth of a CPU that another process wants; with SCHED_IDLE it would starve on a busy
machine."""


class CopiedPages:
    """The cost of forks afterwards: this process has to copy each shared page when it first writes to it again.

    The cost of a page depends on the machine; each fork measures it on a few pages that are reserved for that.

    Attributes:
        pages: Copied between the last two forks.
    """

    _SAMPLE: Final = 64

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, self._SAMPLE * mmap.PAGESIZE, flags=flags)
        self._touch()
        self._faults: int | None = None
        self._page_seconds = 0.0
        self.pages = 0

    def _touch(self) -> None:
        for page in range(self._SAMPLE):
            self._memory[page * mmap.PAGESIZE] = 1

    def forked(self) -> float:
        """Measure, just after a fork; return the CPU seconds that copies have taken since the fork before."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.pages = faults - self._faults if self._faults is not None else 0
        self._faults = faults
        seconds = self.pages * self._page_seconds
        began = cpu_timer()
        self._touch()
        took = cpu_timer() - began
        self._page_seconds = took / self._SAMPLE
        return seconds + took


class ChildFailed(StratoError):
    """A child has given no answer.

    Attributes:
        kind: ``raised``, ``timeout`` or ``died``.
        seconds: CPU it took.
    """

    def __init__(self, kind: str, text: str, seconds: float) -> None:
        super().__init__(text)
        self.kind = kind
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """What a child answered.

    Attributes:
        body: What its function returned.
        cpu_seconds: CPU it took, in user and system mode.
    """

    body: bytes
    cpu_seconds: float


class _Ending(NamedTuple):
    """Status of a process that has ended, and the CPU it took."""

    status: int = 0
    cpu_seconds: float = 0.0


class Child:
    """A forked process that runs one function.

    Args:
        work: Run on the copy; returns the answer.
        limit_seconds: CPU after which the kernel ends it.
        yields: Whether it gets only a small share of busy CPUs; False where this process blocks until it answers.

    Attributes:
        fork_seconds: CPU that the fork took of this process, which is blocked meanwhile.
    """

    def __init__(self, work: Callable[[], bytes], limit_seconds: float, *, yields: bool = True) -> None:
        libc = ctypes.CDLL(None)  # looked up here: after a fork nothing should be loaded
        self._pipe, writing = os.pipe()
        began = cpu_timer()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads are not needed over there
            self._pid = os.fork()
        if self._pid == 0:
            _be_child(work, writing, limit_seconds, libc, yields=yields)
        self.fork_seconds = cpu_timer() - began
        os.close(writing)
        os.set_blocking(self._pipe, False)
        self._read = bytearray()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._pid

    async def answer(self, timeout_seconds: float) -> ChildAnswer:
        """Wait for the answer without blocking the event loop.

        Raises:
            ChildFailed: There is none.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def on_readable() -> None:
            if self._take() and not ended.done():
                ended.set_result(None)

        loop.add_reader(self._pipe, on_readable)
        finished = False
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await ended
                    finished = True
        except asyncio.CancelledError:
            loop.remove_reader(self._pipe)
            self._end()
            self._reap(0)
            raise
        loop.remove_reader(self._pipe)
        self._end()
        # it has closed its files, but on a busy machine it may be long before it gets the processor to end
        while (ending := self._reap(os.WNOHANG)) is None:
            await asyncio.sleep(_REAP_SECONDS)
        return self._settle(timeout_seconds, ending, finished=finished)

    def answer_at_once(self, timeout_seconds: float) -> ChildAnswer:
        """Block until the answer is there; for virtual time.

        Raises:
            ChildFailed: There is none.
        """
        deadline = work_timer() + timeout_seconds
        waiting = select.poll()  # select() takes no descriptor above 1023
        waiting.register(self._pipe, select.POLLIN)
        finished = False
        while not finished:
            if not waiting.poll(1000 * max(0.0, deadline - work_timer())):
                break
            finished = self._take()
        self._end()
        return self._settle(timeout_seconds, self._reap(0) or _Ending(), finished=finished)

    def _take(self) -> bool:
        """Read what is there; whether that was the end."""
        try:
            part = os.read(self._pipe, _READ_BYTES)
        except BlockingIOError:
            return False
        self._read += part
        return not part or len(self._read) > _MOST_BYTES

    def _end(self) -> None:
        """End the process, if it has not ended."""
        os.close(self._pipe)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def _reap(self, flags: int) -> _Ending | None:
        """Return how the process ended; None while it has not, where ``flags`` say not to wait for that."""
        try:
            pid, status, used = os.wait4(self._pid, flags)
        except ChildProcessError:
            return _Ending()
        return _Ending(status, used.ru_utime + used.ru_stime) if pid else None

    def _settle(self, timeout_seconds: float, ending: _Ending, *, finished: bool) -> ChildAnswer:
        status, seconds = ending
        mark, body = bytes(self._read[:1]), bytes(self._read[1:])
        if not finished:
            raise ChildFailed("timeout", f"no answer in {timeout_seconds:g} s", seconds)
        if mark == _RAISED:
            raise ChildFailed("raised", body.decode("utf-8", "replace"), seconds)
        if mark != _DONE or len(self._read) > _MOST_BYTES:
            raise ChildFailed("died", _described(status), seconds)
        return ChildAnswer(body, seconds)


def _described(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "it took more CPU than it may"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "ended without an answer"


def _be_child(
    work: Callable[[], bytes], pipe: int, limit_seconds: float, libc: ctypes.CDLL, *, yields: bool
) -> NoReturn:
    """Run in the child; never returns, and runs nothing that is for the end of the process."""
    try:
        _settle_down(pipe, limit_seconds, libc)
        if yields:
            os.nice(_NICE)
        try:
            answer = _DONE + work()
        except Exception as error:  # a policy may raise anything; it is reported and costs nothing else
            answer = _RAISED + f"{type(error).__name__}: {error}".encode()[:2000]
        while answer:
            answer = answer[os.write(pipe, answer) :]
    finally:
        os._exit(0)


def _settle_down(pipe: int, limit_seconds: float, libc: ctypes.CDLL) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    logging.disable(logging.CRITICAL)
    gc.disable()  # a collection would touch, and so copy, every page
    os.closerange(3, pipe)
    os.closerange(pipe + 1, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20))
    limit = max(1, round(limit_seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
