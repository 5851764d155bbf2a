"""`compare`: one trace under several policies, each in a process of its own, side by side.

Every policy meets the same jobs at the same instants on the same nodes; only the scheduler's configuration differs. The
result does not depend on how many processes there are.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import msgspec

from strato.errors import InvalidInput, Problem, UsageError
from strato.sim.report import Distribution, Report, aligned, short_duration
from strato.sim.run import Progress, SimulationOptions, check, simulate

_STEPS = 200
"""Times that the progress of one simulation is passed on."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a trace is run under."""

    name: str
    config: Path
    """The scheduler's configuration file."""


class Comparison(msgspec.Struct, frozen=True):
    """One report for each policy that was run, by its name, in the order they were given."""

    trace: str
    nodes: str
    seed: int
    policies: dict[str, Report]

    def to_json(self) -> bytes:
        """Write as JSON: the same runs give the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_table(self) -> str:
        """Write for a terminal: the policies side by side, then the mean wait of each queue."""
        header = ("POLICY", "DONE", "MAKESPAN", "CPU", "WAIT MEAN", "P50", "P95", "SLOWDOWN MEAN", "P95", "FAIRNESS")
        rows = [
            (
                name,
                f"{report.finished}/{report.jobs}",
                short_duration(report.makespan_seconds),
                f"{report.utilisation.get('cpu', 0.0):.1%}",
                *(short_duration(seconds) for seconds in _shown(report.wait_seconds)),
                f"{report.bounded_slowdown.mean:.2f}",
                f"{report.bounded_slowdown.p95:.2f}",
                f"{report.slowdown_fairness:.3f}",
            )
            for name, report in self.policies.items()
        ]
        queues = sorted({queue for report in self.policies.values() for queue in report.queues})
        waits = [
            (
                name,
                *(
                    short_duration(report.queues[queue].wait_seconds.mean) if queue in report.queues else "-"
                    for queue in queues
                ),
            )
            for name, report in self.policies.items()
        ]
        by_queue = ["", *aligned([("MEAN WAIT IN", *queues), *waits])] if len(queues) > 1 else []
        return "\n".join([*aligned([header, *rows]), *by_queue]) + "\n"


def compare(
    options: SimulationOptions,
    policies: Sequence[Policy],
    *,
    processes: int,
    progress: Callable[[str, Progress], None] | None = None,
) -> tuple[Comparison, bool]:
    """Run each policy to its end; return the comparison, and whether it has all of them.

    An interruption (Ctrl-C) ends the runs that are under way and keeps those that have ended.

    Args:
        options: The trace and all that the policies share; its ``config`` and ``progress`` are not used.
        policies: At least one; names differ.
        processes: How many may run at once.
        progress: Told the name of a policy and how far it is, at most `_STEPS` times each.

    Raises:
        InvalidInput: Trace, nodes, queues or a configuration have problems; those of all policies are listed.
        UsageError: Two policies have one name.
    """
    names = [policy.name for policy in policies]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"--policy: {', '.join(repeated)}: two policies have this name; write NAME=FILE")
    runs = {policy.name: replace(options, config=policy.config, progress=None) for policy in policies}
    _check(runs)
    found: dict[str, Report] = {}
    is_complete = True
    context = multiprocessing.get_context("spawn")  # a fork would take over locks that other threads hold
    reports: SimpleQueue[tuple[str, Progress] | None] = context.SimpleQueue()
    with (
        _relayed(reports, progress),
        ProcessPoolExecutor(min(processes, len(runs)), context, _begin, (reports,)) as executor,
    ):
        futures = {executor.submit(_run, name, run): name for name, run in runs.items()}
        try:
            found.update((futures[done], done.result()) for done in as_completed(futures))
        except KeyboardInterrupt:
            is_complete = False
            _stop(executor, futures)
    ordered = {name: found[name] for name in runs if name in found}
    return Comparison(options.trace.name, options.nodes, options.seed, ordered), is_complete


def _check(runs: Mapping[str, SimulationOptions]) -> None:
    problems: list[Problem] = []
    for run in runs.values():
        try:
            check(run)
        except InvalidInput as error:
            problems.extend(problem for problem in error.problems if problem not in problems)
    if problems:
        raise InvalidInput("the simulation", problems)


@contextmanager
def _relayed(
    reports: SimpleQueue[tuple[str, Progress] | None], progress: Callable[[str, Progress], None] | None
) -> Iterator[None]:
    """Pass on what the processes tell, in a thread, until the end."""

    def relay() -> None:
        while (message := reports.get()) is not None:
            if progress is not None:
                progress(*message)

    thread = threading.Thread(target=relay, name="simulations' progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        reports.put(None)
        thread.join()


def _stop(executor: ProcessPoolExecutor, futures: Mapping[Future[Report], str]) -> None:
    for future in futures:
        future.cancel()
    for process in multiprocessing.active_children():
        process.terminate()
    executor.shutdown(wait=False, cancel_futures=True)


_reports: SimpleQueue[tuple[str, Progress] | None] | None = None
"""In a process of its own: where it tells how far it is."""


def _begin(reports: SimpleQueue[tuple[str, Progress] | None]) -> None:
    global _reports  # a pool hands queues to its processes by an initializer alone
    _reports = reports


def _run(name: str, options: SimulationOptions) -> Report:
    last = -1

    def notify(progress: Progress) -> None:
        nonlocal last
        step = _STEPS * progress.finished // max(1, progress.total)
        if step != last and _reports is not None:
            last = step
            _reports.put((name, progress))

    return simulate(replace(options, progress=notify))


def _shown(waits: Distribution) -> tuple[float, float, float]:
    return waits.mean, waits.p50, waits.p95
