"""`run_on_dask`: runs an experiment on the workers of an existing Dask cluster.

Jobs and configurations are sent with the runs, so that workers need no files of this machine. Workers return records,
and this process writes each into the experiment's folder as it arrives, as `pool` does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from strato.errors import StateError, UsageError
from strato.sim.experiments.execute import execute
from strato.sim.experiments.plan import Experiment, ExperimentRun, TraceSource
from strato.sim.experiments.pool import EndedRuns, Execute, ScheduledRun, begin_work
from strato.sim.experiments.tally import ProgressTally
from strato.sim.progress import Progress
from strato.sim.results.storing import decode_run, encode_run, write_run
from strato.sim.traces import Trace

_CONNECT_SECONDS: Final = 10


def run_on_dask(
    experiment: Experiment,
    folder: Path,
    address: str,
    *,
    resume: bool = False,
    show: Callable[[ProgressTally], None] | None = None,
    execute_run: Execute = execute,
) -> EndedRuns:
    """Run an experiment on a Dask cluster to its end, or until it is interrupted.

    Args:
        experiment: The experiment.
        folder: Folder of this machine for the records.
        address: Address of Dask's scheduler, as Dask writes it: ``tcp://host:8786``.
        resume: Whether to skip runs whose record is in the folder and whose inputs have not changed.
        show: Called with the progress of all runs after each run.
        execute_run: Executes one run; a function that workers can import.

    Raises:
        UsageError: The library is not installed, or no scheduler answers at the address.
        InvalidInput: The traces have problems; all are listed.
        StateError: Records cannot be written.
    """
    distributed = _library()
    work, traces, kept, notify = begin_work(experiment, folder, resume=resume, show=show)
    open_work = {one.number: one for one in work if one.number not in kept}
    client = _connected(distributed, address)
    done: set[int] = set()
    failures: dict[str, str] = {}
    was_interrupted = False
    futures: dict[Any, ScheduledRun] = {}
    try:
        sent = {source: client.scatter(traces[source], hash=False) for source in _sources(open_work)}
        futures = {
            client.submit(_run, one.run, sent[one.run.trace], one.digest, execute_run, key=f"strato-{one.digest}"): one
            for one in open_work.values()
        }
        for future in distributed.as_completed(list(futures), loop=client.loop):
            _take(future, futures[future], traces, done, failures)
            if notify is not None and futures[future].number in done:
                notify(futures[future].number, _whole(len(traces[futures[future].run.trace].jobs)))
    except KeyboardInterrupt:
        was_interrupted = True
        client.cancel(list(futures))
    finally:
        client.close()
    finished = tuple(one for one in work if one.number in kept | done)
    return EndedRuns(finished, len(work), failures, was_interrupted, traces)


def _library() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise UsageError("--dask needs the library distributed: pip install 'strato[dask]'") from error


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"--dask {address}: no scheduler of Dask answers there: {reason}") from error


def _sources(work: Mapping[int, ScheduledRun]) -> list[TraceSource]:
    return list(dict.fromkeys(one.run.trace for one in work.values()))


def _run(run: ExperimentRun, trace: Trace, digest: str, execute_run: Execute) -> bytes:
    """Execute a run on a worker; return its encoded record."""
    return encode_run(execute_run(run, trace, None), digest)


def _take(
    future: Any, work: ScheduledRun, traces: Mapping[TraceSource, Trace], done: set[int], failures: dict[str, str]
) -> None:
    """Write the record that a worker returned, or record why the run failed."""
    if future.status != "finished":
        error = future.exception() if future.status == "error" else None
        failures[work.run.label] = str(error) if error is not None else f"its task is {future.status}"
        return
    record = decode_run(future.result(), traces[work.run.trace].jobs, work.digest)
    future.release()
    if record is None:
        raise StateError(f"{work.run.label}: the worker returned something else; does it run this version of strato?")
    write_run(work.path, record, work.digest)
    done.add(work.number)


def _whole(jobs: int) -> Progress:
    return Progress(0.0, jobs, jobs, jobs, 0)
