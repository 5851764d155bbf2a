"""Processes of a simulated cluster on one event loop: each can be paused, and killed at any await.

The process is part of the context of its code, and of the tasks, timers and callbacks that this starts. Callbacks of a
paused process run only after it is resumed; those of a killed one never run: not even a `finally`, as after ``kill
-9``. Effects that left the process before, such as a request under way, go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from strato.clock import VirtualClock, VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LAST_TURNS: Final = 60.0
"""Virtual time that tasks cancelled at the end of a run have to finish."""


class Process:
    """One process: its name, its incarnation, and whether it runs."""

    def __init__(self, name: str, number: int, context: Context) -> None:
        self.name = name
        self.number = number
        """Number of the incarnation of this name, from 1."""
        self.is_alive = True
        self.is_paused = False
        self.turns_left = -1
        """Callbacks after which it is killed; negative for never."""
        self.on_death: list[Callable[[], None]] = []
        """Called when it is killed."""
        self.context = context
        self.held: list[_Turn] = []
        """Callbacks that came due while it was paused."""

    @property
    def is_running(self) -> bool:
        """Whether its callbacks run: it is neither paused nor killed."""
        return self.is_alive and not self.is_paused

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


_current: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """Return the process of the calling code; None outside of all processes."""
    return _current.get()


class _Turn:
    """One callback of a process."""

    __slots__ = ("arguments", "callback", "context", "handle", "loop", "process")

    def __init__(
        self,
        loop: ProcessLoop,
        process: Process,
        context: Context,
        callback: Callable[..., object],
        arguments: tuple[object, ...],
    ) -> None:
        self.loop = loop
        self.process = process
        self.context = context
        self.callback = callback
        self.arguments = arguments
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        process = self.process
        if self.handle is not None and self.handle.cancelled():
            return
        if process.turns_left >= 0 and process.is_running:
            process.turns_left -= 1
            if process.turns_left < 0:
                self.loop.kill(process)
        if process.is_running:
            self.callback(*self.arguments)
        else:
            process.held.append(self)


class ProcessLoop(VirtualTimeLoop):
    """An event loop on virtual time that knows the process of each callback."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.processes: list[Process] = []
        """All processes so far, oldest first."""
        self._kept: list[asyncio.Task[Any]] = []
        """Tasks of killed processes, kept because collecting their coroutines would run their `finally` blocks."""
        self._is_ending = False

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback for the next iteration, or for when its process is resumed."""
        context = context if context is not None else copy_context()
        process = context.get(_current)
        if process is None or self._is_ending:
            return super().call_soon(callback, *args, context=context)
        turn = _Turn(self, process, context, callback, args)
        turn.handle = super().call_soon(turn, context=context)
        return turn.handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback for an instant, or for when its process is resumed after that."""
        context = context if context is not None else copy_context()
        process = context.get(_current)
        if process is None or self._is_ending:
            return super().call_at(when, callback, *args, context=context)
        turn = _Turn(self, process, context, callback, args)
        handle = super().call_at(when, turn, context=context)
        turn.handle = handle
        return handle

    def start_process(self, name: str, main: Callable[[Process], Coroutine[Any, Any, None]]) -> Process:
        """Start the next incarnation of a process."""
        number = 1 + sum(known.name == name for known in self.processes)
        context = copy_context()
        process = Process(name, number, context)
        context.run(_current.set, process)
        self.processes.append(process)
        context.run(self.create_task, main(process), name=str(process))
        return process

    def pause(self, process: Process) -> None:
        """Hold back a process's callbacks until `resume`."""
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """Run a process's callbacks again, first those held back."""
        process.is_paused = False
        if not process.is_alive:
            return
        held, process.held = process.held, []
        for turn in held:  # the same handles, so that their owners may still cancel them
            super().call_soon(turn, context=turn.context)

    def kill(self, process: Process) -> None:
        """Kill a process at its present await."""
        if not process.is_alive:
            return
        process.is_alive = False
        self._kept.extend(asyncio.all_tasks(self))
        for call in process.on_death:
            call()

    async def end(self) -> None:
        """Cancel all tasks except the caller's, and let them run to their end."""
        self._is_ending = True
        for process in self.processes:
            process.is_alive, process.turns_left = True, -1
            self.resume(process)  # a paused process's tasks could not be cancelled
        rest = asyncio.all_tasks(self) - {asyncio.current_task(self)}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_LAST_TURNS)
        self._kept.clear()


def answer_as(loop: ProcessLoop, process: Process, work: Callable[[], Awaitable[T]], answer: asyncio.Future[T]) -> None:
    """Run work within a process, and put its result into a future that another process waits for."""

    async def run() -> None:
        try:
            outcome = await work()
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(outcome)

    process.context.run(loop.create_task, run())
