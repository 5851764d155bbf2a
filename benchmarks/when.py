"""When will a job start: predictions at submission against what came of them, on logs of two HPC systems.

What came is what the log recorded, under a scheduler that nobody knows here, or (``--waits simulated``) what EASY
backfilling makes of the log. At each submission that is asked about, the state is what a snapshot of the cluster would
show at that instant; run times are predicted from the jobs that had ended by then, their users' estimates, and nothing
else; our scheduler's cycle under EASY is run forward with drawn run times. The naive prediction is the mean of the
waits known by then.

    python -m benchmarks.when [--log NAME] [--waits recorded|simulated] [--every N] [--draws N] [--processes N]
"""

from __future__ import annotations

import argparse
import functools
import heapq
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from strato.api import catalog
from strato.clock import format_time
from strato.history.prediction import RunTimePredictor, RunTimes, SubmittedJob
from strato.history.predictionintervals import AT_ONCE_SECONDS, Accuracy, Calibration, Interval
from strato.node.hollow.runplan import RUN_SECONDS
from strato.scheduler.cache import kinds
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.run import Decoded
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.shadow.child import Child
from strato.sim.decisions.activejobs import ActiveJob, PodFactory
from strato.sim.decisions.beginning import stored_before
from strato.sim.decisions.run import simulate_decisions
from strato.sim.decisions.templates import Templates
from strato.sim.foresight.when import Starts, starts
from strato.sim.machines import node_objects
from strato.sim.rest import START
from strato.sim.traces import Trace, TraceJob, read_trace

EVERY = {"hpc2n-2002-head": 15, "metacentrum-wagap-2013": 60}
LOGS = tuple(EVERY)
LONGEST_SECONDS = 3600.0
EASY = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: easy}]
- plugins: [{name: predicates}, {name: binpack}]
"""
DATA = Path(os.environ.get("STRATO_DATA") or Path(__file__).parents[2] / "shared" / "data") / "hpc-swf"


@dataclass
class Course:
    """What came of the jobs of a log: when each started and ended, and on which nodes its pods ran."""

    start: NDArray[np.float64]
    finish: NDArray[np.float64]
    nodes: dict[int, list[int]]


def simulated(trace: Trace, config: Config) -> Course:
    record = simulate_decisions(trace, trace.nodes, config)
    nodes: dict[int, list[int]] = {}
    order = np.lexsort((record.interval_pod, record.interval_job))
    for job, node in zip(record.interval_job[order].tolist(), record.interval_node[order].tolist(), strict=True):
        nodes.setdefault(job, []).append(node)
    return Course(record.start_seconds, record.finish_seconds, nodes)


def recorded(trace: Trace) -> Course:
    """Logs do not say where jobs ran: each goes where there is room, the fullest nodes first."""
    submit, run, wait = np.array(
        [(job.submit_seconds, job.run_seconds, job.waited_seconds or 0.0) for job in trace.jobs]
    ).T
    start = submit + wait
    free = np.array([float(node.status.allocatable["cpu"]) for node in node_objects(trace.nodes, START)])
    nodes: dict[int, list[int]] = {}
    events = sorted(
        [(at, 1, row) for row, at in enumerate(start)] + [(at, 0, row) for row, at in enumerate(start + run)]
    )
    for _, begins, row in events:
        cpus = float(trace.jobs[row].requests["cpu"])
        if not begins:
            for node in nodes.get(row, ()):
                free[node] += cpus
            continue
        places: list[int] = []
        for node in np.argsort(free, kind="stable").tolist():
            while len(places) < trace.jobs[row].replicas and free[node] >= cpus:
                free[node] -= cpus
                places.append(node)
        if len(places) == trace.jobs[row].replicas:
            nodes[row] = places
        else:
            for node in places:
                free[node] += cpus
    return Course(start, start + run, nodes)


class Snapshots:
    """The state of a cluster at any instant, as its API would show it."""

    def __init__(self, trace: Trace, course: Course, config: Config) -> None:
        self._trace, self._course, self._config = trace, course, config
        stored = stored_before(trace.jobs, (), START)
        self._templates, self._forms = Templates(stored), PodFactory()
        self._fixed = [Decoded("", kinds.of(catalog.NODE), node) for node in node_objects(trace.nodes, START)]
        for known in kinds.KINDS:
            for body in stored.objects.get(known.kind, {}).values():
                view = kinds_view(known, body)
                self._fixed.append(Decoded("", known, view))
        self._names = [node.metadata.name for node in node_objects(trace.nodes, START)]
        self._made: dict[tuple[int, bool], list[Decoded]] = {}

    def at(self, instant: float, running: Sequence[int], waiting: Sequence[int]) -> Copy:
        objects = list(self._fixed)
        for rows, runs in ((running, True), (waiting, False)):
            for row in rows:
                if runs and row not in self._course.nodes:
                    continue
                objects += self._objects(row, runs=runs)
        return Copy(objects, self._config, seed=0, now=START + instant)

    def key_of(self, row: int) -> str:
        """Return the key of a job's pod group."""
        meta = self._objects(row, runs=False)[0].view.metadata
        return f"{meta.namespace}/{meta.name}"

    def forget(self, row: int) -> None:
        self._made.pop((row, True), None)

    def _objects(self, row: int, *, runs: bool) -> list[Decoded]:
        made = self._made.get((row, runs))
        if made is None:
            if runs:
                self._made.pop((row, False), None)
            made = self._made[row, runs] = list(self._make(row, runs=runs))
        return made

    def _make(self, row: int, *, runs: bool) -> Iterator[Decoded]:
        job = self._trace.jobs[row]
        template = self._templates.of(job)
        created = format_time(START + job.submit_seconds)
        uid = f"{row:08x}"
        group = template.group_of(job.name, uid, group_uid=f"g{uid}", created=created)
        group = replace(group, status=replace(group.status, phase="Running" if runs else "Inqueue"))
        yield Decoded("", kinds.of(catalog.PODGROUP), group)
        life = ActiveJob(row, job, template, group, uid)
        nodes = self._course.nodes.get(row, []) if runs else []
        status = self._forms.started(format_time(START + float(self._course.start[row])), is_running=True)
        uids = iter([f"{uid}-{number}" for number in range(job.replicas)])
        for number, pod in enumerate(life.pods(range(job.replicas), uids, created)):
            notes = {k: v for k, v in (pod.metadata.annotations or {}).items() if k != RUN_SECONDS}
            pod = replace(pod, metadata=replace(pod.metadata, annotations=notes))
            if runs:
                pod = self._forms.on_node(pod, self._names[nodes[number]], status)
            yield Decoded("", kinds.of(catalog.POD), pod)


def kinds_view(known: kinds.WorldKind, body: dict[str, object]) -> object:
    return msgspec.convert(body, known.kind.view, strict=False)


@dataclass
class Result:
    log: str
    asked: int
    all: Accuracy
    waited: Accuracy
    cpu_seconds: list[float]


def submission(job: TraceJob) -> SubmittedJob:
    size = job.replicas * float(job.requests.get("cpu", "1"))
    return SubmittedJob(user=job.user, name=job.application, size=size, estimate_seconds=job.estimate_seconds)


class Asking:
    """Predictions under way, each in a process of its own with the state of its instant.

    Args:
        processes: How many at once.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._waiting: dict[int, Child] = {}
        self.found: dict[int, Interval] = {}
        self.cpu_seconds: list[float] = []

    def ask(self, row: int, work: Callable[[], Interval]) -> None:
        """Begin with a prediction, once there is a process for it."""
        while len(self._waiting) >= self._processes:
            self._take(next(iter(self._waiting)))
        self._waiting[row] = Child(lambda: msgspec.msgpack.encode(work()), LONGEST_SECONDS, yields=False)

    def finish(self) -> None:
        """Wait for what is under way."""
        for row in list(self._waiting):
            self._take(row)

    def _take(self, row: int) -> None:
        answer = self._waiting.pop(row).answer_at_once(LONGEST_SECONDS)
        self.found[row] = Interval(*msgspec.msgpack.decode(answer.body, type=tuple[float, float, float]))
        self.cpu_seconds.append(answer.cpu_seconds)
        if len(self.found) % 100 == 0:
            print(f"  {len(self.found)} predictions", flush=True)


def measure(name: str, waits: str, every: int, draws: int, limit: int, processes: int) -> Result:
    """Run a log, ask at every n-th submission, and compare with what came.

    Predictions depend on what was known, not on one another; how they are calibrated depends on what came of earlier
    ones, so that comes last, in the order of the log.
    """
    trace = read_trace(DATA / f"{name}.swf.gz", limit=limit)
    jobs = {job.name: job for job in trace.jobs}
    config = parse_config(EASY)
    began = time.process_time()
    course = recorded(trace) if waits == "recorded" else simulated(trace, config)
    placed = f"{len(course.nodes)} of {len(trace.jobs)} jobs placed, {waits} waits"
    print(f"{name}: {placed}, {time.process_time() - began:.1f} s of CPU", flush=True)
    snapshots = Snapshots(trace, course, config)
    submit = np.array([job.submit_seconds for job in trace.jobs])
    wait = course.start - submit
    predictor, asking = RunTimePredictor(), Asking(processes)
    running: dict[int, None] = {}
    waiting: dict[int, None] = {}
    events: list[tuple[float, int, int]] = []  # instant, 0 end / 1 start, row
    asked: dict[int, float] = {}
    order: list[tuple[int, bool]] = []
    waits_sum, waits_count = 0.0, 0
    for row, job in enumerate(trace.jobs):
        now = job.submit_seconds
        while events and events[0][0] <= now and not (events[0][0] == now and events[0][1] == 1):
            _, what, other = heapq.heappop(events)
            if what == 0:
                running.pop(other, None)
                snapshots.forget(other)
                ended = trace.jobs[other]
                predictor.take(submission(ended), ended.run_seconds)
                continue
            waiting.pop(other, None)
            running[other] = None
            waits_sum, waits_count = waits_sum + wait[other], waits_count + 1
            if other in asked:
                order.append((other, True))
        waiting[row] = None
        heapq.heappush(events, (float(course.start[row]), 1, row))
        heapq.heappush(events, (float(course.finish[row]), 0, row))
        if row % every == 0 and row >= 50:
            copy = snapshots.at(now, list(running), list(waiting))
            asking.ask(row, functools.partial(predict, jobs, copy, snapshots.key_of(row), predictor, draws))
            asked[row] = waits_sum / max(waits_count, 1)
            order.append((row, False))
    asking.finish()
    started = {row for row, is_start in order if is_start}
    order += [(row, True) for row in asked if row not in started]
    return compared(name, order, asking, asked, wait)


def compared(
    name: str,
    order: Sequence[tuple[int, bool]],
    asking: Asking,
    naive: Mapping[int, float],
    wait: NDArray[np.float64],
) -> Result:
    """Calibrate each prediction by those whose outcome was known by then, and compare it with its own."""
    result, calibration = Result(name, len(naive), Accuracy(), Accuracy(), asking.cpu_seconds), Calibration()
    given: dict[int, Interval] = {}
    for row, is_start in order:
        raw = asking.found[row]
        if is_start:
            settle(result, calibration, raw, given[row], naive[row], float(wait[row]))
        else:
            given[row] = calibration.calibrated(raw)
    return result


def settle(result: Result, calibration: Calibration, raw: Interval, given: Interval, naive: float, wait: float) -> None:
    result.all.take(given, naive, wait)
    if wait >= AT_ONCE_SECONDS or given.high >= AT_ONCE_SECONDS:
        result.waited.take(given, naive, wait)
    calibration.take(raw, wait)


def predict(jobs: Mapping[str, TraceJob], copy: Copy, key: str, predictor: RunTimePredictor, draws: int) -> Interval:
    """Predict the wait of one job, as a snapshot of this instant and the past allow."""
    known_by_name: dict[str, RunTimes] = {}

    def known(job: Job, task: Task) -> RunTimes:
        owner = task.pod.metadata.controller
        assert owner is not None
        found = known_by_name.get(owner.name)
        if found is None:
            found = known_by_name[owner.name] = predictor.predict(submission(jobs[owner.name]))
        return found

    found: Starts | None = starts(copy, known, draws=draws, only={key}).get(key)
    if found is None:
        return Interval(math.inf, math.inf, math.inf)
    return found.interval


def show(result: Result) -> None:
    for name, accuracy in (("all", result.all), ("not certain", result.waited)):
        print(
            f"  {result.log} {name}: {accuracy.predictions} predictions, median error "
            f"{accuracy.median_error_seconds:.0f} s (naive {accuracy.naive_median_error_seconds:.0f} s), mean "
            f"{accuracy.mean_error_seconds:.0f} s (naive {accuracy.naive_mean_error_seconds:.0f} s), "
            f"coverage {accuracy.coverage:.1%}",
            flush=True,
        )
    cpu = sorted(result.cpu_seconds)
    print(f"  CPU of a prediction: median {cpu[len(cpu) // 2]:.2f} s, most {cpu[-1]:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", choices=LOGS, action="append")
    parser.add_argument("--waits", choices=("recorded", "simulated"), default="recorded")
    parser.add_argument("--every", type=int, default=0, help="ask at every n-th submission")
    parser.add_argument("--limit", type=int, default=0, help="only the first so many jobs of a log")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="predictions at once")
    options = parser.parse_args()
    for name in options.log or LOGS:
        every = options.every or EVERY[name]
        show(measure(name, options.waits, every, options.draws, options.limit, options.processes))


if __name__ == "__main__":
    main()
