"""`ReproductionOptions`: how a reproduction is run; `each` computes its parts, in processes if there are cores."""

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
"""Called with the number of parts that are done, and of all parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionOptions:
    """How a reproduction is run."""

    data: Path
    """The folder that holds a folder for each data set."""
    is_slice: bool = False
    """Whether to compute only a small part of the table, which takes seconds."""
    cores: int = 1
    progress: Progress | None = None
    kept: KeptParts | None = None
    """Keeps the results of parts that have ended; None keeps none."""


def each(work: ReproductionOptions, function: Callable[[A], R], parts: Sequence[A]) -> list[R]:
    """Return the results of a function for each part, in their order; with several cores in parallel processes.

    Args:
        work: Cores, kept results, and the function to report progress to.
        function: A function of a module, so that other processes can import it, and as `KeptParts.of` takes it.
        parts: The parts.
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


def _counted(work: ReproductionOptions, results: Iterable[R], total: int) -> list[R]:
    done: list[R] = []
    for result in results:
        done.append(result)
        if work.progress is not None:
            work.progress(len(done), total)
    return done
