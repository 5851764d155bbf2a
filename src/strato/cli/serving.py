"""Run components side by side until a signal or a failure; shared by all serving commands."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from strato.cli.homelock import Interruption
from strato.cli.memory import give_back, keep_freed
from strato.clock import SystemClock
from strato.errors import StratoError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ComponentStopped(StratoError):
    """A component ended unexpectedly."""


def configure_logging(verbose: bool = False) -> None:
    """Send structured lines to standard error."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
    )


def make_random(seed: int | None = None) -> random.Random:
    """Return the process's generator; its seed is logged so that a run can be repeated."""
    chosen = random.SystemRandom().getrandbits(32) if seed is None else seed
    _log.info("random seed %d", chosen)
    return random.Random(chosen)


async def run_together(components: Sequence[tuple[str, Awaitable[object]]], stop: asyncio.Event) -> None:
    """Run until ``stop`` is set or a component ends; then cancel the rest and wait for them.

    Raises:
        ComponentStopped: A component ended by itself.
    """
    tasks: dict[asyncio.Future[object], str] = {asyncio.ensure_future(work): name for name, work in components}
    stopper: asyncio.Future[object] = asyncio.ensure_future(stop.wait())
    try:
        done, _ = await asyncio.wait({stopper, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopper, *tasks):
            task.cancel()
        await asyncio.gather(stopper, *tasks, return_exceptions=True)
    for task in done - {stopper}:
        error = task.exception() if not task.cancelled() else None
        if isinstance(error, StratoError):
            raise error
        if error is not None:
            _log.error("the %s stopped", tasks[task], exc_info=error)  # a bug of Strato's: log its traceback
        raise ComponentStopped(f"the {tasks[task]} stopped: {error!r}") from error


@contextlib.contextmanager
def stop_on_signals(stop: asyncio.Event, interruption: Interruption | None = None) -> Iterator[None]:
    """Set ``stop`` on a signal that asks the process to end, for the length of the block.

    Args:
        stop: The event to set; set at once if ``interruption`` holds a signal already.
        interruption: Notes signals before and after the block; None if nothing does.
    """
    loop = asyncio.get_running_loop()
    signals = interruption.signals if interruption is not None else (signal.SIGTERM, signal.SIGINT)

    def begin(number: int) -> None:
        if interruption is not None:
            interruption.note(number)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, begin, number)
    if interruption is not None and interruption.signal:
        stop.set()
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        if interruption is not None:
            interruption.listen()


def collect_rarely() -> None:
    """Raise the garbage collector's thresholds; worth a call before the many imports of a server.

    Most objects live long, classes and a large cluster's objects alike: fewer collections cost less than the garbage
    they would find. One of new objects looks at 5,000, for half a millisecond, as nobody is served meanwhile; all are
    looked at as rarely as ever.
    """
    gc.set_threshold(5_000, 200, 50)


def collect_hardly() -> None:
    """Almost stop garbage collection while a cluster starts; its first lists may hold a million objects, all kept.

    Traversing these objects in every collection took 5 % of the time of a large start. `settle` ends this state.
    """
    gc.set_threshold(1_000_000, 20, 50)


def settle() -> None:
    """End the start: exclude the objects loaded so far, which stay, from future collections.

    They are not collected before that: it would block responses for 0.1 s and free a few dozen objects.
    """
    gc.freeze()
    collect_rarely()


def run_loop(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on uvloop, with `give_back` beside it; return its result."""
    import uvloop

    collect_rarely()
    keep_freed()

    async def entry() -> T:
        giving_back = asyncio.create_task(give_back(SystemClock()), name="memory")
        try:
            return await main()
        finally:
            giving_back.cancel()

    return uvloop.run(entry())
