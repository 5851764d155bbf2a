"""Many seeds in several processes: what each came to, in a file from which a campaign that was stopped goes on."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from strato.decoding import UNDECODABLE
from strato.node.sandbox.linux import die_with_parent
from strato.testing.chaos.minimise import minimise
from strato.testing.chaos.plan import Plan
from strato.testing.chaos.run import Outcome, draw_plan, play

CPU_SECONDS: Final = 120
"""What a seed may take, about a hundred times the usual: it goes round in circles then."""
_SEEDS_PER_WORKER: Final = 200
"""Played by a process before another takes its place: clusters that were killed leave some MB behind, each."""
_SHORT: Final = 60
"""Lines of what happened that are shown of a failing seed."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one seed came to; one line of the file."""

    seed: int
    changes: int = 0
    """Writes that were published."""
    faults: int = 0
    findings: list[str] = []
    story: list[str] = []
    """What happened in the minimised run, where there are findings."""
    plan: Plan | None = None
    """The minimised run, or the whole one."""
    is_minimised: bool = False


class _TooLongError(Exception):
    """A seed took too long."""


def be_quiet() -> None:
    """Keep the parts' warnings out of what a campaign prints: most of what they warn about is wanted."""
    logging.getLogger("strato").setLevel(logging.CRITICAL)


def _begin_worker() -> None:
    die_with_parent()  # a campaign that is killed leaves nobody behind who plays on
    be_quiet()
    gc.freeze()  # what has been imported stays


def try_seed(seed: int, *, config: str = "", minimises: bool = True) -> Result:
    """Play a seed, and make it small when it fails."""
    plan = draw_plan(seed, config)
    previous = signal.signal(signal.SIGPROF, _on_time)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        outcome = play(plan)
    except _TooLongError:
        return Result(seed, findings=[f"it did not end within {CPU_SECONDS} s of CPU time"], plan=plan)
    except Exception as error:  # whatever it is, the other seeds go on
        return Result(seed, findings=[f"the run broke off: {error!r}"], plan=plan)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    faults = len(plan.faults)
    if not outcome.findings:
        return Result(seed, outcome.changes, faults)
    smaller = minimise(outcome) if minimises else outcome
    findings = [str(finding) for finding in outcome.findings]
    return Result(seed, outcome.changes, faults, findings, short_story(smaller), smaller.plan, minimises)


def _on_time(number: int, frame: FrameType | None) -> None:
    raise _TooLongError


def short_story(outcome: Outcome) -> list[str]:
    """Return the lines of a run that matter to what was found: faults, users, and the objects that findings name."""
    words = {word.strip(",:") for finding in outcome.findings for word in finding.text.split() if "/" in word}
    always = ("FAULT", "FOUND", "user:", "everything")
    lines = [
        f"{at:9.3f} s  {text}"
        for at, text in outcome.story
        if text.startswith(always) or "killed" in text or any(word in text for word in words)
    ]
    return lines if len(lines) <= _SHORT else [*lines[: _SHORT // 2], "…", *lines[-_SHORT // 2 :]]


def run_seeds(seeds: Sequence[int], jobs: int, *, config: str = "", minimises: bool = True) -> Iterator[Result]:
    """Yield what seeds come to, as they end.

    Args:
        seeds: Which.
        jobs: Processes at a time; one does it in this process.
        config: Text of the scheduler's configuration; empty is the embedded cluster's.
        minimises: Whether those that fail are made small.
    """
    work = partial(try_seed, config=config, minimises=minimises)
    if jobs <= 1:
        yield from map(work, seeds)
        return
    waiting = iter(seeds)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin_worker, max_tasks_per_child=_SEEDS_PER_WORKER
    ) as pool:
        running = {pool.submit(work, seed) for seed in islice(waiting, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
            running |= {pool.submit(work, seed) for seed in islice(waiting, len(done))}


def read_results(path: Path) -> dict[int, Result]:
    """Return what a file holds of an earlier campaign; a last line that was cut short is left out."""
    results: dict[int, Result] = {}
    if not path.exists():
        return results
    for line in path.read_bytes().splitlines():
        try:
            result = msgspec.json.decode(line, type=Result)
        except UNDECODABLE:
            continue
        results[result.seed] = result
    return results
