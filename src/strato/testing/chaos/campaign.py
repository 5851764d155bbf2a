"""Run many seeds in several processes; a file keeps the results, with which an interrupted campaign continues."""

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
from strato.testing.chaos.plan import ChaosPlan
from strato.testing.chaos.run import ChaosResult, draw_plan, play

CPU_SECONDS: Final = 120
"""CPU time limit of a seed, about a hundred times the usual; beyond it the run is in an endless loop."""
_SEEDS_PER_WORKER: Final = 200
"""Seeds after which a worker process is replaced, since every killed cluster leaves some MB of memory behind."""
_SHORT: Final = 60
"""Most lines of a failing seed's story that are shown."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one seed; one line of the file."""

    seed: int
    changes: int = 0
    """Number of published writes."""
    faults: int = 0
    findings: list[str] = []
    story: list[str] = []
    """Story of the minimised run, if there are findings."""
    plan: ChaosPlan | None = None
    """Plan of the minimised run, or of the whole one."""
    is_minimised: bool = False


class _TooLongError(Exception):
    """A seed exceeded `CPU_SECONDS`."""


def be_quiet() -> None:
    """Silence the components' warnings, which mostly are about faults that the campaign injects."""
    logging.getLogger("strato").setLevel(logging.CRITICAL)


def _begin_worker() -> None:
    die_with_parent()  # workers end with a killed campaign
    be_quiet()
    gc.freeze()  # imported modules stay: exclude them from collections


def try_seed(seed: int, *, config: str = "", minimises: bool = True) -> Result:
    """Run a seed, and minimise the run if it fails."""
    plan = draw_plan(seed, config)
    previous = signal.signal(signal.SIGPROF, _on_time)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        outcome = play(plan)
    except _TooLongError:
        return Result(seed, findings=[f"it did not end within {CPU_SECONDS} s of CPU time"], plan=plan)
    except Exception as error:  # any error must not stop the other seeds
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


def short_story(outcome: ChaosResult) -> list[str]:
    """Return the lines of a run that concern its findings: faults, users' steps, and the objects that findings name."""
    words = {word.strip(",:") for finding in outcome.findings for word in finding.text.split() if "/" in word}
    always = ("FAULT", "FOUND", "user:", "everything")
    lines = [
        f"{at:9.3f} s  {text}"
        for at, text in outcome.story
        if text.startswith(always) or "killed" in text or any(word in text for word in words)
    ]
    return lines if len(lines) <= _SHORT else [*lines[: _SHORT // 2], "…", *lines[-_SHORT // 2 :]]


def run_seeds(seeds: Sequence[int], jobs: int, *, config: str = "", minimises: bool = True) -> Iterator[Result]:
    """Yield the results of seeds as they end.

    Args:
        seeds: The seeds.
        jobs: Number of processes; 1 runs the seeds in this process.
        config: Text of the scheduler's configuration; empty is the embedded cluster's.
        minimises: Whether failing runs are minimised.
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
    """Return the results in an earlier campaign's file; an incomplete last line is ignored."""
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
