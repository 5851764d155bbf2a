"""How a reproduction is run: where the data is, how much of it is done, and on how many processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from strato.sim.papers.kept import KeptParts

A = TypeVar("A")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with how many of how many parts are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to do."""

    data: Path
    """The folder that holds a folder for each data set."""
    is_slice: bool = False
    """Whether only a small part is done, which takes seconds."""
    cores: int = 1
    progress: Progress | None = None
    kept: KeptParts | None = None
    """Where parts are kept that have ended; None keeps none."""


def each(work: Work, function: Callable[[A], R], parts: Sequence[A]) -> list[R]:
    """Return what a function makes of each part, in their order; in processes where there is more than one core.

    Args:
        work: How many cores there are, and who is notified.
        function: Of a module, so that another process finds it, and as `KeptParts.of` takes it.
        parts: Its arguments.
    """
    if work.kept is not None:
        function = partial(work.kept.of, function)
    if work.cores <= 1 or len(parts) <= 1:
        return _counted(work, map(function, parts), len(parts))
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with ProcessPoolExecutor(min(work.cores, len(parts)), mp_context=context) as pool:
        try:
            return _counted(work, pool.map(function, parts), len(parts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _counted(work: Work, results: Iterable[R], total: int) -> list[R]:
    done: list[R] = []
    for result in results:
        done.append(result)
        if work.progress is not None:
            work.progress(len(done), total)
    return done
