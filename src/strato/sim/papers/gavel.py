"""Gavel (OSDI'20): jobs on 36 V100, 36 P100 and 36 K80 GPUs, their mean completion time and the makespan.

The authors' simulation is repeated with rounds of six minutes and their measured throughputs. Their jobs were drawn
with Python's generator, so the same jobs are drawn here. Allocation and rounds are those of the plugin ``gavel``. The
published numbers are printed in the artefact's notebooks: mean completion of jobs 4,000 to 4,999 by jobs per hour
(trace continuous-single, seed 0; ``continuous_jobs.ipynb``), and the makespan of static traces of jobs of one to eight
GPUs, mean of the seeds 0, 1 and 2 (``makespan.ipynb``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import numpy as np

from strato.errors import UsageError
from strato.scheduler.plugins.gavelrounds import OBJECTIVES, Account, Rounds
from strato.scheduler.plugins.throughputs import JobKind, Throughputs, read_throughputs
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions, each

FOLDER: Final = "gavel-throughputs"
FILE: Final = Path(FOLDER) / "simulation_throughputs.json.gz"
KINDS: Final = ("v100", "p100", "k80")
_MACHINES: Final = 36.0
_ROUND_SECONDS: Final = 360.0
_FIRST, _LAST = 4000, 5000
_TOLERANCE_RATIO: Final = 0.05
_SEEDS: Final = (0, 1, 2)

COMPLETION_HOURS: Final = {
    ("max-min", 2.0): 16.95,
    ("max-min", 3.2): 16.08,
    ("max-min", 4.0): 16.82,
    ("max-min", 4.8): 18.97,
    ("max-min", 5.2): 22.02,
    ("max-min-blind", 2.0): 23.47,
    ("max-min-blind", 4.0): 23.49,
}
"""Objective and jobs per hour → published mean completion time."""
MAKESPAN_HOURS: Final = {100: 161.163998, 300: 161.164303, 500: 169.422498, 700: 244.231470}
"""Number of jobs → published makespan, mean of the seeds."""
_SLICE: Final = (("max-min", 4.0), 100)
_NAMES: Final = {"max-min": "Gavel", "max-min-blind": "LAS, blind to speed"}

_BATCHES: Final = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
}
MODELS: Final = (
    *(f"{model} (batch size {size})" for model, sizes in _BATCHES.items() for size in sizes),
    "A3C",
    "CycleGAN",
)
"""Models that jobs train, in the order from which the authors' generator chooses."""
_DISTRIBUTED: Final = ("ResNet-18", "ResNet-50", "Transformer", "LM")


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    data: Path
    objective: str
    jobs_per_hour: float
    """Arrival rate; 0 submits all jobs at the beginning (a static trace)."""
    jobs: int
    """Number of jobs of a static trace; 0 submits jobs until those that are measured have ended."""
    seed: int


class GavelMeasures(NamedTuple):
    """The measures of a simulation."""

    completion_hours: float
    """Mean completion time of the measured jobs."""
    makespan_hours: float


class GeneratedJob(NamedTuple):
    """A job that the authors' generator draws."""

    kind: JobKind
    steps: float


def reproduce(work: ReproductionOptions) -> Reproduction:
    """Repeat the simulations, or for a slice those of one makespan.

    Raises:
        UsageError: The throughputs are missing or have problems.
    """
    completion = {} if work.is_slice else COMPLETION_HOURS
    counts = [_SLICE[1]] if work.is_slice else list(MAKESPAN_HOURS)
    cases = [Case(work.data, objective, rate, 0, 0) for objective, rate in completion]
    cases += [Case(work.data, "makespan", 0.0, count, seed) for count in counts for seed in _SEEDS]
    found = dict(zip(cases, each(work, simulate, cases), strict=True))
    cells = [
        _cell(_NAMES[case.objective], f"{case.jobs_per_hour:g} jobs/h", outcome.completion_hours, published)
        for (case, outcome), published in zip(found.items(), completion.values(), strict=False)
    ]
    for count in counts:
        ours = [outcome.makespan_hours for case, outcome in found.items() if case.jobs == count]
        cells.append(_cell("makespan", f"{count} jobs", statistics.fmean(ours), MAKESPAN_HOURS[count]))
    return Reproduction(
        name="gavel",
        title="Gavel on 36 V100, 36 P100 and 36 K80 GPUs (OSDI'20): mean completion time, and makespan",
        source="outputs of the artefact's notebooks, stanford-futuredata/gavel, commit c4fa400",
        unit="hours",
        cells=tuple(cells),
        notes=(
            "Allocations are the middle of the best ones, as those of the authors' solver; which one is not published.",
        ),
    )


def _cell(row: str, column: str, ours: float, published: float) -> Cell:
    tolerance = _TOLERANCE_RATIO * published
    return Cell(row=row, column=column, ours=ours, reference=published, tolerance=tolerance)


# -- the workload ------------------------------------------------------------------------------------------------------


def generated(random: Random, throughputs: Throughputs, *, several_gpus: bool) -> Iterator[GeneratedJob]:
    """Yield jobs as the authors' generator draws them: it draws the run time on a V100, which gives the steps."""
    while True:
        gpus = _gpus(random.uniform(0, 1))
        is_long = random.random() >= 0.8
        seconds = 60 * 10 ** (random.uniform(3, 4) if is_long else random.uniform(1.5, 3))
        gpus = gpus if several_gpus else 1
        model = random.choice(MODELS)
        while gpus > 1 and model.partition(" ")[0] not in _DISTRIBUTED:
            model = random.choice(MODELS)
        kind = JobKind(model, gpus)
        yield GeneratedJob(kind, seconds * throughputs.on("v100", kind))


def _gpus(drawn: float) -> int:
    for limit, gpus in ((0.7, 1), (0.8, 2), (0.95, 4)):
        if drawn < limit or (drawn == limit and gpus > 1):
            return gpus
    return 8


# -- the simulation ----------------------------------------------------------------------------------------------------


class _Running(NamedTuple):
    kind: int
    ends_at: float
    steps: float


class _Simulation:
    """Simulates rounds until the measured jobs have ended."""

    def __init__(self, case: Case, throughputs: Throughputs) -> None:
        self._case = case
        self._throughputs = throughputs
        self._jobs = generated(Random(case.seed + 2), throughputs, several_gpus=bool(case.jobs))
        self._between = Random(case.seed + 3)
        self._shuffle = Random(case.seed + 5)
        self._rounds = Rounds(np.full(len(KINDS), _MACHINES), OBJECTIVES[case.objective], _ROUND_SECONDS)
        self._arrived: list[float] = []
        self._next_at = 0.0
        self.now = 0.0
        self.completion: dict[int, float] = {}

    def run(self) -> GavelMeasures:
        """Run until the measured jobs have ended."""
        case = self._case
        measured = range(case.jobs) if case.jobs else range(_FIRST, _LAST)
        running: dict[int, _Running] = {}
        while not all(job in self.completion for job in measured):
            self._end(running)
            self._arrive()
            self._rounds.allocate(self.now)
            running = self._next_round()
        mean = statistics.fmean(self.completion[job] for job in measured)
        return GavelMeasures(mean / 3600, self.now / 3600)

    def _end(self, running: dict[int, _Running]) -> None:
        if not running:
            self.now = max(self.now, self._next_at)
            return
        for job, ran in running.items():
            account = self._rounds.account(job)
            self._rounds.ran(job, ran.kind, ran.ends_at - self.now)
            account.steps_left -= ran.steps
            if account.steps_left <= 0:
                self.completion[job] = ran.ends_at - self._arrived[job]
                self._rounds.remove(job)
        self.now = max(ran.ends_at for ran in running.values())

    def _arrive(self) -> None:
        case = self._case
        while self._next_at <= self.now and (not case.jobs or len(self._arrived) < case.jobs):
            drawn = next(self._jobs)
            speed = np.array([self._throughputs.on(kind, drawn.kind) for kind in KINDS])
            self._rounds.add(len(self._arrived), Account(speed, drawn.kind.gpus, 1.0, drawn.steps))
            self._arrived.append(self._next_at)
            if case.jobs_per_hour:
                self._next_at -= math.log(1.0 - self._between.random()) * 3600 / case.jobs_per_hour

    def _next_round(self) -> dict[int, _Running]:
        order = list(range(len(KINDS)))
        if self._case.objective == "max-min-blind":
            self._shuffle.shuffle(order)
        running = {}
        for job, kind in self._rounds.next_round(order).items():
            assert isinstance(job, int)
            account = self._rounds.account(job)
            speed = float(account.speed[kind])
            steps = min(float(int(speed * _ROUND_SECONDS)), account.steps_left)
            running[job] = _Running(kind, self.now + steps / speed, steps)
        return running


def simulate(case: Case) -> GavelMeasures:
    """Run one simulation.

    Raises:
        UsageError: The throughputs are not there, or have problems.
    """
    try:
        throughputs = read_throughputs(case.data / FILE)
    except ValueError as error:
        raise UsageError(str(error)) from error
    unknown = [m for m in MODELS if not all(throughputs.on(kind, JobKind(m, 1)) for kind in KINDS)]
    if unknown:
        raise UsageError(f"{case.data / FILE} has no throughput of {unknown[0]} on every one of {', '.join(KINDS)}")
    return _Simulation(case, throughputs).run()
