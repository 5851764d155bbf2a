"""When will a job start: predictions at submission against what came of them, on logs of two HPC systems.

The logs run under EASY backfilling (decisions only). At each submission that is asked about, the state is what a
snapshot of the cluster would show at that instant; run times are predicted from the jobs that had ended by then, their
users' estimates, and nothing else; the scheduler's own cycle is run forward with drawn run times. The naive prediction
is the mean of the waits known by then.

    python -m benchmarks.when [--log NAME] [--every N] [--draws N] [--most N]
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from strato.api import catalog
from strato.clock import format_time
from strato.history.prediction import RunTimePredictor, RunTimes, Submission
from strato.history.predictionintervals import AT_ONCE_SECONDS, Accuracy, Calibration, Interval
from strato.node.hollow.runplan import RUN_SECONDS
from strato.scheduler.cache import kinds
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.run import Decoded
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Job, Task
from strato.sim.decisions.beginning import stored_before
from strato.sim.decisions.lives import Life, PodForms
from strato.sim.decisions.run import simulate_decisions
from strato.sim.decisions.templates import Templates
from strato.sim.foresight.when import Starts, starts
from strato.sim.machines import node_objects
from strato.sim.rest import START
from strato.sim.results.record import RunRecord
from strato.sim.traces import Trace, TraceJob, read_trace

EVERY = {"hpc2n-2002-head": 2, "metacentrum-wagap-2013": 20}
LOGS = tuple(EVERY)
EASY = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: easy}]
- plugins: [{name: predicates}, {name: binpack}]
"""
DATA = Path(os.environ.get("STRATO_DATA") or Path(__file__).parents[2] / "shared" / "data") / "hpc-swf"


class Snapshots:
    """The state of a simulated cluster at any instant, as its API would show it."""

    def __init__(self, trace: Trace, record: RunRecord, config: Config) -> None:
        self._trace, self._record, self._config = trace, record, config
        stored = stored_before(trace.jobs, (), START)
        self._templates, self._forms = Templates(stored), PodForms()
        self._fixed = [Decoded("", kinds.of(catalog.NODE), node) for node in node_objects(trace.nodes, START)]
        for known in kinds.KINDS:
            for body in stored.objects.get(known.kind, {}).values():
                view = kinds_view(known, body)
                self._fixed.append(Decoded("", known, view))
        self._pods: dict[int, list[tuple[int, int]]] = {}
        for row, job in enumerate(record.interval_job.tolist()):
            self._pods.setdefault(job, []).append((int(record.interval_pod[row]), int(record.interval_node[row])))
        self._made: dict[tuple[int, bool], list[Decoded]] = {}

    def at(self, instant: float, running: Sequence[int], waiting: Sequence[int]) -> Copy:
        objects = list(self._fixed)
        for rows, runs in ((running, True), (waiting, False)):
            for row in rows:
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
        life = Life(row, job, template, group, uid)
        nodes = dict(self._pods.get(row, ())) if runs else {}
        names = self._record.nodes.names
        status = self._forms.started(format_time(START + float(self._record.start_seconds[row])), is_running=True)
        uids = iter([f"{uid}-{number}" for number in range(job.replicas)])
        for number, pod in enumerate(life.pods(range(job.replicas), uids, created)):
            notes = {k: v for k, v in (pod.metadata.annotations or {}).items() if k != RUN_SECONDS}
            pod = replace(pod, metadata=replace(pod.metadata, annotations=notes))
            if runs:
                pod = self._forms.on_node(pod, names[nodes[number]], status)
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


def submission(job: TraceJob) -> Submission:
    size = job.replicas * float(job.requests.get("cpu", "1"))
    return Submission(user=job.user, name=job.application, size=size, estimate_seconds=job.estimate_seconds)


def measure(name: str, every: int, draws: int, limit: int) -> Result:
    """Run a log, ask at every n-th submission, and compare with what came."""
    trace = read_trace(DATA / f"{name}.swf.gz", limit=limit)
    jobs = {job.name: job for job in trace.jobs}
    config = parse_config(EASY)
    began = time.process_time()
    record = simulate_decisions(trace, trace.nodes, config)
    print(f"{name}: {len(trace.jobs)} jobs simulated in {time.process_time() - began:.1f} s of CPU", flush=True)
    snapshots = Snapshots(trace, record, config)
    submit = np.array([job.submit_seconds for job in trace.jobs])
    wait = record.start_seconds - submit
    predictor, calibration = RunTimePredictor(), Calibration()
    result = Result(name, 0, Accuracy(), Accuracy(), [])
    running: dict[int, None] = {}
    waiting: dict[int, None] = {}
    events: list[tuple[float, int, int]] = []  # instant, 0 end / 1 start, row
    asked: dict[int, tuple[Interval, Interval, float]] = {}
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
                raw, given, naive = asked.pop(other)
                settle(result, calibration, raw, given, naive, float(wait[other]))
        waiting[row] = None
        heapq.heappush(events, (float(record.start_seconds[row]), 1, row))
        heapq.heappush(events, (float(record.finish_seconds[row]), 0, row))
        if row % every == 0 and row >= 50:
            begun = time.process_time()
            copy = snapshots.at(now, list(running), list(waiting))
            raw = predict(jobs, copy, snapshots.key_of(row), predictor, draws)
            result.cpu_seconds.append(time.process_time() - begun)
            given = calibration.calibrated(raw)
            result.asked += 1
            asked[row] = raw, given, waits_sum / max(waits_count, 1)
            if result.asked % 100 == 0:
                show(result)
    for other, (raw, given, naive) in asked.items():
        settle(result, calibration, raw, given, naive, float(wait[other]))
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
    parser.add_argument("--every", type=int, default=0, help="ask at every n-th submission")
    parser.add_argument("--limit", type=int, default=0, help="only the first so many jobs of a log")
    parser.add_argument("--draws", type=int, default=7)
    options = parser.parse_args()
    for name in options.log or LOGS:
        show(measure(name, options.every or EVERY[name], options.draws, options.limit))


if __name__ == "__main__":
    main()
