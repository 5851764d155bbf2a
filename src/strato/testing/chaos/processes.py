"""Processes of a simulated cluster on one event loop: each can be paused, and killed at any await.

What runs in a process carries it in its context, as do the tasks, timers and callbacks it starts. A paused process gets
no turn until it is resumed, whatever it waits for; a killed one gets none ever again: no `finally` runs, as after
``kill -9``. Only what went out before, such as a request under way, goes on.
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
"""Virtual seconds that what is cancelled in the end has to come to an end."""


class Process:
    """One process: a name, which incarnation of it, and whether it runs."""

    def __init__(self, name: str, number: int, context: Context) -> None:
        self.name = name
        self.number = number
        """Counts the incarnations of a name, from 1."""
        self.is_alive = True
        self.is_paused = False
        self.turns_left = -1
        """After so many turns more it is killed; negative is never."""
        self.on_death: list[Callable[[], None]] = []
        """Called when it is killed."""
        self.context = context
        self.held: list[_Turn] = []
        """Turns it missed."""

    @property
    def is_running(self) -> bool:
        """Whether it gets turns."""
        return self.is_alive and not self.is_paused

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


_current: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """Return the process this runs in; None outside of all."""
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
    """An event loop on virtual time that knows which process each turn belongs to."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.processes: list[Process] = []
        """All there have been, oldest first."""
        self._kept: list[asyncio.Task[Any]] = []
        """Tasks of killed processes: collecting their coroutines would run what they do last."""
        self._is_ending = False

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call something in the next round, when its process gets a turn."""
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
        """Call something at an instant, or when its process gets its next turn after that."""
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
        """Give a process no turn until `resume`."""
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """Give a process its turns again, first those it missed."""
        process.is_paused = False
        if not process.is_alive:
            return
        held, process.held = process.held, []
        for turn in held:  # the same turn: who has its handle may still cancel it
            super().call_soon(turn, context=turn.context)

    def kill(self, process: Process) -> None:
        """End a process where it stands."""
        if not process.is_alive:
            return
        process.is_alive = False
        self._kept.extend(asyncio.all_tasks(self))
        for call in process.on_death:
            call()

    async def end(self) -> None:
        """End everything but the caller: all that is left is cancelled and may run to its end."""
        self._is_ending = True
        for process in self.processes:
            process.is_alive, process.turns_left = True, -1
            self.resume(process)  # a task whose turn is left out could not be cancelled
        rest = asyncio.all_tasks(self) - {asyncio.current_task(self)}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_LAST_TURNS)
        self._kept.clear()


def answer_as(loop: ProcessLoop, process: Process, work: Callable[[], Awaitable[T]], answer: asyncio.Future[T]) -> None:
    """Do something as a process, and put what comes of it into a future that another one waits for."""

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
