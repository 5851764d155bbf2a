"""The workload model of Lublin and Feitelson: rigid jobs of a parallel machine, batch and interactive.

Symbols are the paper's. A job is serial with probability ``serial``; else the logarithm (base 2) of its nodes is drawn
from a two-stage uniform distribution, [low, medium] with probability ``prob``, else [medium, high], and rounded to a
whole number with probability ``pow2``. The logarithm of its run time is hyper-gamma: Gamma(a1, b1) with probability p
= pa × nodes + pb, else Gamma(a2, b2), not above e^12 s. Arrivals are a renewal process in points: a gap is e^g / 1800
points with g from Gamma(aarr × arar, barr), not above e^13; each of the 48 half hours of a day costs points in
proportion to the jobs that come in it, the bins of Gamma(anum, bnum) with a day that begins at half past five.

Source: U. Lublin, D. G. Feitelson, "The Workload on Parallel Supercomputers: Modeling the Characteristics of Rigid
Jobs", J. Parallel Distrib. Comput. 63(11), 2003; the parameters are those of the model as published by its authors.
For machines of another size than 128 nodes the stages move with its logarithm, as they advise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.node.shapes import NodeShape
from strato.sim.workloads.jobs import Trace, TraceJob, from_zero

_BUCKETS: Final = 48
_BUCKET_SECONDS: Final = 1800.0
_DAY_START: Final = 11
"""Half hour of the day, counted from one, with which the model's day of arrivals begins."""
_LONGEST_RUN_LOG: Final = 12.0
_LONGEST_GAP_LOG: Final = 13.0
_PUBLISHED_HIGH: Final = 7.0
"""Logarithm of the 128 nodes of the published parameters."""
_MOST_DRAWS: Final = 100
_LOAD_STEPS: Final = 8
"""Corrections of the gaps until a load is reached; few suffice, as load is almost proportional to 1 / gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """The parameters of a kind of jobs, as in the paper."""

    name: str
    serial: float
    pow2: float
    low: float
    medium: float
    high: float
    prob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float


BATCH: Final = JobClass(
    name="batch",
    serial=0.2927,
    pow2=0.6686,
    low=1.2,
    medium=5.0,
    high=7.0,
    prob=0.875,
    a1=6.57,
    b1=0.823,
    a2=639.1,
    b2=0.0156,
    pa=-0.003,
    pb=0.6986,
    aarr=6.0415,
    barr=0.8531,
    anum=6.1271,
    bnum=5.2740,
    arar=1.0519,
)  # fmt: skip -- a table
INTERACTIVE: Final = JobClass(
    name="interactive",
    serial=0.1541,
    pow2=0.625,
    low=1.0,
    medium=3.0,
    high=5.5,
    prob=0.705,
    a1=3.8351,
    b1=0.6605,
    a2=7.073,
    b2=0.6856,
    pa=-0.0118,
    pb=0.9156,
    aarr=6.5510,
    barr=0.6621,
    anum=8.9186,
    bnum=3.6680,
    arar=0.9797,
)  # fmt: skip -- a table
ALL: Final = JobClass(
    name="all",
    serial=0.244,
    pow2=0.576,
    low=0.8,
    medium=4.5,
    high=7.0,
    prob=0.86,
    a1=4.2,
    b1=0.94,
    a2=312.0,
    b2=0.03,
    pa=-0.0054,
    pb=0.78,
    aarr=10.2303,
    barr=0.4871,
    anum=8.1737,
    bnum=3.9631,
    arar=1.0225,
)  # fmt: skip -- a table
KINDS: Final = {"typed": (BATCH, INTERACTIVE), "batch": (BATCH,), "interactive": (INTERACTIVE,), "all": (ALL,)}
"""Value of the parameter ``kind`` → the kinds of jobs in the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LublinOptions:
    """The parameters of a workload."""

    jobs: int = 10_000
    nodes: int = 128
    """Number of nodes of the machine; the widest job requests all of them."""
    load: float = 0.0
    """Offered load in [0.01, 10], reached by stretching or compressing the arrivals; 0 leaves them as drawn."""
    kind: str = "typed"
    """``typed`` is batch and interactive jobs, each with its own parameters; ``all`` those of both together."""
    cpus: int = 1
    """CPUs that a pod requests and a node has."""
    start_hour: int = 0
    """Hour of the day at which the workload begins."""
    users: int = 1
    seed: int = 0


def make(options: LublinOptions) -> Trace:
    """Draw a workload.

    To reach a load, the gaps are stretched before the daily cycle is applied to them, so that a day keeps its length.
    """
    rng = np.random.default_rng(options.seed)
    streams = [_Stream(kind, options, rng) for kind in KINDS[options.kind]]
    stretch = 1.0
    comes, rows = _merged(streams, stretch, options)
    for _ in range(_LOAD_STEPS if options.load else 0):
        stretch *= _load(streams, comes, rows, options) / options.load
        comes, rows = _merged(streams, stretch, options)
    users = _users(len(rows), options.users, rng)
    jobs = [
        streams[stream].job(row, float(at), number, user, options)
        for number, (at, (stream, row), user) in enumerate(zip(comes, rows, users, strict=True), start=1)
    ]
    machine = {"cpu": str(options.cpus), "memory": f"{4 * options.cpus}Gi", "pods": "110"}
    return Trace(from_zero(jobs), nodes=(NodeShape(options.nodes, machine),), format="lublin")


class _Stream:
    """Sizes, run times and gaps drawn for one kind of jobs."""

    def __init__(self, kind: JobClass, options: LublinOptions, rng: np.random.Generator) -> None:
        fitted = scaled(kind, options.nodes)
        self.kind = kind
        self.nodes = np.minimum(sizes(fitted, options.jobs, rng), options.nodes)
        self.runs = run_times(fitted, self.nodes, rng)
        self.gaps = gaps(fitted, options.jobs, rng)

    def job(self, row: int, at: float, number: int, user: str, options: LublinOptions) -> TraceJob:
        """Return the job of a row."""
        return TraceJob(
            name=f"job-{number}",
            submit_seconds=at,
            run_seconds=float(self.runs[row]),
            replicas=int(self.nodes[row]),
            requests={"cpu": str(options.cpus)},
            queue="" if self.kind is ALL else self.kind.name,
            user=user,
        )


_Rows = list[tuple[int, int]]
"""For each job the number of its stream and its row there."""


def _merged(streams: Sequence[_Stream], stretch: float, options: LublinOptions) -> tuple[NDArray[np.float64], _Rows]:
    """Merge the streams by time; return the instants and rows of the first ``options.jobs`` jobs."""
    instants = [instants_of(stream.kind, stream.gaps * stretch, options.start_hour) for stream in streams]
    comes = np.concatenate(instants)
    order = np.argsort(comes, kind="stable")[: options.jobs]
    return comes[order], [divmod(int(place), options.jobs) for place in order]


def _load(streams: Sequence[_Stream], comes: NDArray[np.float64], rows: _Rows, options: LublinOptions) -> float:
    work = sum(float(streams[stream].nodes[row]) * float(streams[stream].runs[row]) for stream, row in rows)
    return work / (options.nodes * max(1.0, float(comes[-1] - comes[0])))


def scaled(kind: JobClass, nodes: int) -> JobClass:
    """Return the parameters for a machine of another size: ``medium`` and ``high`` are shifted by its logarithm."""
    shift = math.log2(nodes) - _PUBLISHED_HIGH
    high = max(kind.low, kind.high + shift)
    return replace(kind, high=high, medium=min(high, max(kind.low, kind.medium + shift)))


def sizes(kind: JobClass, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the numbers of nodes of jobs."""
    draw = rng.random(count)
    is_low = rng.random(count) <= kind.prob
    logs = np.where(is_low, rng.uniform(kind.low, kind.medium, count), rng.uniform(kind.medium, kind.high, count))
    logs = np.where(draw <= kind.serial + kind.pow2, np.floor(logs + 0.5), logs)
    nodes = np.minimum(np.floor(2.0**logs + 0.5), math.floor(2.0**kind.high + 0.5))
    return np.where(draw <= kind.serial, 1, np.maximum(nodes, 1)).astype(np.int64)


def run_times(kind: JobClass, nodes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the run times of jobs of these sizes, in whole seconds."""
    is_first = rng.random(len(nodes)) <= np.clip(kind.pa * nodes + kind.pb, 0.0, 1.0)
    shape, scale = np.where(is_first, kind.a1, kind.a2), np.where(is_first, kind.b1, kind.b2)
    return np.maximum(1.0, np.floor(np.exp(_gamma_below(shape, scale, _LONGEST_RUN_LOG, rng))))


def gaps(kind: JobClass, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the gaps between jobs, in the model's points."""
    shape, scale = np.full(count, kind.aarr * kind.arar), np.full(count, kind.barr)
    drawn: NDArray[np.float64] = np.exp(_gamma_below(shape, scale, _LONGEST_GAP_LOG, rng)) / _BUCKET_SECONDS
    return drawn


def instants_of(kind: JobClass, points: NDArray[np.float64], start_hour: int) -> NDArray[np.float64]:
    """Return when jobs arrive, in seconds after the start, from the gaps between them in points."""
    costs = weights(kind)
    first = start_hour * _BUCKETS // 24
    cumulated = np.concatenate([[0.0], np.cumsum(np.roll(costs, -first))])
    days, rest = np.divmod(np.cumsum(points), cumulated[-1])
    instants: NDArray[np.float64] = days * _BUCKETS + np.interp(rest, cumulated, np.arange(_BUCKETS + 1))
    return instants * _BUCKET_SECONDS


def weights(kind: JobClass) -> NDArray[np.float64]:
    """Return how many points each half hour of the day has, from midnight on; the mean is one."""
    found = np.zeros(_BUCKETS)
    for number in range(_DAY_START, _DAY_START + _BUCKETS):
        upper, lower = ((number + half) / kind.bnum for half in (0.5, -0.5))
        found[(number - 1) % _BUCKETS] = gamma_cdf(upper, kind.anum) - gamma_cdf(lower, kind.anum)
    mean: float = found.mean()
    return found / mean


def gamma_cdf(x: float, shape: float) -> float:
    """Return P(shape, x), the distribution function of Gamma(shape, 1), by its series; for x up to about 100."""
    term = total = 1.0 / shape
    denominator = shape
    while term > total * 1e-15:
        denominator += 1.0
        term *= x / denominator
        total += term
    return min(1.0, total * math.exp(-x + shape * math.log(x) - math.lgamma(shape))) if x > 0 else 0.0


def _gamma_below(
    shape: NDArray[np.float64], scale: NDArray[np.float64], most: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw from gamma distributions; values above the limit are drawn again."""
    drawn = rng.gamma(shape, scale)
    for _ in range(_MOST_DRAWS):
        above = np.flatnonzero(drawn > most)
        if not len(above):
            break
        drawn[above] = rng.gamma(shape[above], scale[above])
    return np.minimum(drawn, most)


def _users(count: int, users: int, rng: np.random.Generator) -> list[str]:
    """Draw the user of each job: the k-th most active user has 1/k as many jobs as the first."""
    if users <= 1:
        return [""] * count
    shares = 1.0 / np.arange(1, users + 1)
    return [f"user-{number + 1}" for number in rng.choice(users, count, p=shares / shares.sum())]
