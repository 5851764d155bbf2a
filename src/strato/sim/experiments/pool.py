"""`run_all`: executes the runs of an experiment in parallel processes and keeps the record of each as soon as it ends.

The process that executed a run writes its record into the folder, so that a Ctrl-C, a kill of this process or a full
disk loses only the runs in progress. With ``resume``, runs whose record is there and whose inputs have not changed are
skipped.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from strato.errors import InvalidInput, Problem, StateError, StratoError, UsageError
from strato.sim.experiments.execute import execute
from strato.sim.experiments.plan import Experiment, ExperimentRun, TraceSource, digest_of, files_digest
from strato.sim.experiments.tally import ProgressTally
from strato.sim.progress import Progress
from strato.sim.results.record import RunRecord
from strato.sim.results.storing import read_run, write_run
from strato.sim.traces import Trace

_STEPS: Final = 200
"""How often a run reports its progress at most."""

Notify = Callable[[int, Progress], None]
"""Called with the number of a run and its progress."""
Execute = Callable[[ExperimentRun, Trace, Callable[[Progress], None] | None], RunRecord]


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run, its number in the experiment, the digest of its inputs, and the file of its record."""

    number: int
    run: ExperimentRun
    digest: str
    path: Path


@dataclass(frozen=True, slots=True)
class EndedRuns:
    """Which runs of an experiment have ended, and which have failed."""

    finished: tuple[ScheduledRun, ...]
    """The runs that have ended, in the order of the experiment."""
    total: int
    failures: Mapping[str, str]
    """Label of a run → why it failed."""
    was_interrupted: bool
    traces: Mapping[TraceSource, Trace]

    @property
    def is_complete(self) -> bool:
        """Whether all runs have ended."""
        return len(self.finished) == self.total

    def record(self, work: ScheduledRun) -> RunRecord:
        """Return the record of a run that has ended.

        Raises:
            StateError: Its file was damaged after it was written.
        """
        found = read_run(work.path, self.traces[work.run.trace].jobs, work.digest)
        if found is None:
            raise StateError(f"{work.path} was damaged after it was written; run the experiment again with --resume")
        return found


def plan_work(experiment: Experiment, folder: Path) -> tuple[list[ScheduledRun], dict[TraceSource, Trace]]:
    """Read the traces of all runs; return the runs, with digests and files, and the traces.

    Raises:
        InvalidInput: Traces have problems or cannot be read; all problems are listed.
    """
    runs = list(experiment.runs())
    traces: dict[TraceSource, Trace] = {}
    problems: list[Problem] = []
    for source in dict.fromkeys(run.trace for run in runs):
        try:
            traces[source] = source.read()
        except InvalidInput as error:
            problems += [problem for problem in error.problems if problem not in problems]
        except UsageError as error:
            problems.append(Problem("", str(error)))
    if problems:
        raise InvalidInput("the experiment", problems)
    digests = {source: digest_of(trace) for source, trace in traces.items()}
    found = []
    for number, run in enumerate(runs):
        digest = run.digest(digests[run.trace] + files_digest(run.variant.models))
        found.append(ScheduledRun(number, run, digest, folder / f"{digest[:32]}.run"))
    return found, traces


def run_all(
    experiment: Experiment,
    folder: Path,
    *,
    cores: int,
    resume: bool = False,
    show: Callable[[ProgressTally], None] | None = None,
    execute_run: Execute = execute,
) -> EndedRuns:
    """Run an experiment to its end, or until it is interrupted.

    Args:
        experiment: The experiment.
        folder: Folder for the records; it is made.
        cores: Most processes at a time.
        resume: Whether to skip runs whose record is in the folder and whose inputs have not changed.
        show: Called with the progress of all runs, at most `_STEPS` times for each run.
        execute_run: Executes one run; a function of a module, so that other processes can import it.

    Raises:
        InvalidInput: Traces have problems or cannot be read; all problems are listed.
        StateError: Records cannot be written.
    """
    work, traces, kept, notify = begin_work(experiment, folder, resume=resume, show=show)
    open_work = [one for one in work if one.number not in kept]
    done, failures, was_interrupted = _run_open(open_work, traces, cores, notify, execute_run)
    finished = tuple(one for one in work if one.number in kept | done)
    return EndedRuns(finished, len(work), failures, was_interrupted, traces)


def begin_work(
    experiment: Experiment, folder: Path, *, resume: bool, show: Callable[[ProgressTally], None] | None
) -> tuple[list[ScheduledRun], dict[TraceSource, Trace], set[int], Notify | None]:
    """Return the runs, their traces, the numbers of runs to skip, and the function to report progress to.

    Raises:
        InvalidInput: Traces have problems or cannot be read; all problems are listed.
        StateError: The folder cannot be made.
    """
    work, traces = plan_work(experiment, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{folder} cannot be made: {error.strerror}") from error
    jobs = {one.number: traces[one.run.trace].jobs for one in work}
    kept = {one.number for one in work if resume and read_run(one.path, jobs[one.number], one.digest) is not None}
    return work, traces, kept, None if show is None else _shower(work, jobs, kept, show)


def _shower(
    work: Sequence[ScheduledRun],
    jobs: Mapping[int, Sequence[object]],
    kept: Collection[int],
    show: Callable[[ProgressTally], None],
) -> Notify:
    """Return a function that takes the progress of one run and shows that of all."""
    tally = ProgressTally(
        {one.number: one.run.label for one in work}, {number: len(of) for number, of in jobs.items()}, kept
    )

    def notify(number: int, progress: Progress) -> None:
        tally.note(number, progress)
        show(tally)

    return notify


def _run_open(
    work: Sequence[ScheduledRun],
    traces: Mapping[TraceSource, Trace],
    cores: int,
    notify: Notify | None,
    execute_run: Execute,
) -> tuple[set[int], dict[str, str], bool]:
    """Execute runs; return the numbers of those that ended, the failures, and whether a Ctrl-C came."""
    if not work:
        return set(), {}, False
    if len(work) == 1:
        return _run_here(work[0], traces, notify, execute_run)
    context = multiprocessing.get_context("spawn")  # a forked child could inherit locks that other threads hold
    receiver, sender = context.Pipe(duplex=False)
    done: set[int] = set()
    failures: dict[str, str] = {}
    with (
        _relayed(receiver, sender, notify),
        ProcessPoolExecutor(min(cores, len(work)), context, _begin, (sender,)) as executor,
    ):
        futures = {executor.submit(_run, one, execute_run): one for one in work}
        try:
            for future in as_completed(futures):
                _note(future, futures[future], done, failures)
        except KeyboardInterrupt:
            _stop(executor)
            return done, failures, True
        except StateError:  # for example a full disk: no record of another run could be written either
            _stop(executor)
            raise
    return done, failures, False


def _run_here(
    work: ScheduledRun, traces: Mapping[TraceSource, Trace], notify: Notify | None, execute_run: Execute
) -> tuple[set[int], dict[str, str], bool]:
    """Execute a single run in this process; unlike in `_run_open`, its errors are raised."""
    try:
        report = None if notify is None else thinned(work.number, notify)
        write_run(work.path, execute_run(work.run, traces[work.run.trace], report), work.digest)
    except KeyboardInterrupt:
        return set(), {}, True
    return {work.number}, {}, False


def _note(future: Future[None], work: ScheduledRun, done: set[int], failures: dict[str, str]) -> None:
    try:
        future.result()
    except StateError:
        raise
    except BrokenProcessPool:
        failures[work.run.label] = "its process was killed, perhaps for lack of memory; take fewer --cores"
    except StratoError as error:
        failures[work.run.label] = str(error)
    else:
        done.add(work.number)


@contextmanager
def _relayed(receiver: Connection, sender: Connection, notify: Notify | None) -> Iterator[None]:
    """Call ``notify`` in a thread with the messages of the processes, until the context ends.

    The processes share the sending end without a lock: their messages are so short that writes to a pipe are atomic. A
    process that was killed while it held a lock would block all others for ever.
    """

    def relay() -> None:
        while (message := receiver.recv()) is not None:
            if notify is not None:
                notify(*message)

    thread = threading.Thread(target=relay, name="runs' progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sender.send(None)
        thread.join()
        receiver.close()
        sender.close()


def _stop(executor: Executor) -> None:
    """Terminate the processes and cancel the runs that have not begun.

    The executor cancels these itself, before the processes end: it fails on a future that somebody else cancelled.
    """
    executor.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.terminate()


_sender: Connection | None = None
"""In a process of the pool: the pipe to report progress to."""


def _begin(sender: Connection) -> None:
    global _sender  # a pool can pass a connection to its processes only through the initializer
    _sender = sender
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C reaches all processes; the parent handles it for all
    threading.Thread(target=_end_with_parent, name="first process's end", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended; else it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=2)
def _trace_of(source: TraceSource) -> Trace:
    return source.read()


def _run(work: ScheduledRun, execute_run: Execute) -> None:
    trace = _trace_of(work.run.trace)
    write_run(work.path, execute_run(work.run, trace, thinned(work.number, _send)), work.digest)


def _send(number: int, progress: Progress) -> None:
    if _sender is not None:
        _sender.send((number, progress))


def thinned(number: int, notify: Notify) -> Callable[[Progress], None]:
    """Return a function that passes a run's progress on to ``notify`` at most `_STEPS` times."""
    last = -1

    def report(progress: Progress) -> None:
        nonlocal last
        step = _STEPS * progress.finished // max(1, progress.total)
        if step != last:
            last = step
            notify(number, progress)

    return report
