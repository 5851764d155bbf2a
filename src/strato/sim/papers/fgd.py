"""FGD (ATC'23): six policies fill the openb cluster with 17 workloads; compares the GPUs allocated as pods arrive.

The 1,020 published runs are repeated one by one, as the paper's artefact makes them. It shuffles the pods of a list and
adds drawn ones, or removes some, until they request 1.3 times the cluster's GPUs. It puts the nodes with GPUs into a
random order; of nodes with equal scores the first one wins. The artefact used Go's random generator; `gorandom` draws
the same numbers. Only the choices of the policy Random cannot be repeated: they depended on the order in which threads
ended.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from strato.api import quantity
from strato.errors import UsageError
from strato.node.shapes import NodeShape
from strato.scheduler.plugins import gpushare
from strato.scheduler.plugins.fgd import POPULARITY_PERCENT, USE_MODELS
from strato.scheduler.plugins.fgdkernels import WHOLE
from strato.scheduler.plugins.fgdworkload import Typical, most_frequent
from strato.sim.papers.arrivals import ArrivingPod, FillingCluster, config_of
from strato.sim.papers.gorandom import GoRandom
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions, each
from strato.sim.traces import ReadOptions, TraceJob, read_files, trace_text

FOLDER: Final = "alibaba-gpu-2023-openb"
POLICIES: Final = {
    "01-Random": "random",
    "02-DotProd": "dot-product",
    "03-GpuClustering": "clustering",
    "04-GpuPacking": "packing",
    "05-BestFit": "best-fit",
    "06-FGD": "fragmentation",
}
"""Name of a policy in the artefact → its name in the plugin ``fgd``."""
_PREFIX: Final = "openb_pod_list_"
_DEMAND: Final = 1.3
"""GPUs that all arriving pods request, as a ratio of the cluster's GPUs."""
_DRAWN_BY_OTHERS: Final = 10
"""How many numbers the artefact's informers draw, for time-outs, after the pods and before the order of nodes."""
_TOLERANCE: Final = 0.3
_AT_PERCENT: Final = 100
_OPENB: Final = ReadOptions(format="openb", strict=True)

Curve = tuple[float, ...]
"""Allocated GPUs in percent of the cluster's; the index is the GPUs that pods have requested so far, in percent."""


@dataclass(frozen=True, slots=True)
class FgdRun:
    """One run of the paper: a workload, a policy and a seed."""

    data: Path
    workload: str
    policy: str
    """The policy's name in the artefact."""
    seed: int


def reproduce(work: ReproductionOptions) -> Reproduction:
    """Repeat the published runs, or for a slice one seed of one workload, and compare the allocated GPUs.

    Raises:
        UsageError: The data is missing.
        InvalidInput: The data has problems.
    """
    published = read_published(work.data / FOLDER / "fgd-reference" / "analysis_allo_discrete.csv.gz")
    wanted = [  # seed by seed, so that the runs done so far cover every workload and policy
        FgdRun(work.data, *key)
        for key in sorted(published, key=itemgetter(2))
        if not work.is_slice or (key[0] == "default" and key[2] == min(seed for _, _, seed in published))
    ]
    curves = dict(zip(wanted, each(work, allocated, wanted), strict=True))
    return compared(curves, published)


def compared(curves: Mapping[FgdRun, Curve], published: Mapping[tuple[str, str, int], Curve]) -> Reproduction:
    """Compare the curves of our runs with the published ones."""
    groups: dict[tuple[str, str], list[FgdRun]] = {}
    for run in curves:
        groups.setdefault((run.workload, run.policy), []).append(run)
    cells, equal, farthest = [], 0, 0.0
    for (workload, policy), runs in groups.items():
        theirs = [published[run.workload, run.policy, run.seed] for run in runs]
        ours = [100.0 - curves[run][_AT_PERCENT] for run in runs]
        cells.append(
            Cell(
                row=workload,
                column=policy.partition("-")[2],
                ours=round(statistics.fmean(ours), 4),
                reference=round(statistics.fmean(100.0 - curve[_AT_PERCENT] for curve in theirs), 4),
                tolerance=_TOLERANCE,
                spread=statistics.stdev(ours) if len(ours) > 1 else None,
            )
        )
        for run, curve in zip(runs, theirs, strict=True):
            apart = max(abs(a - b) for a, b in zip(curves[run], curve, strict=True) if b == b)
            equal += apart < 0.015
            farthest = max(farthest, apart)
    note = (
        f"{equal} of {len(curves)} runs have the published curve at every percent of arrivals, to the last digit; "
        f"the farthest apart anywhere are {farthest:.2f} points."
    )
    return Reproduction(
        name="fgd",
        title="Unallocated GPUs when pods asking for 100 % of them have arrived (FGD, ATC'23, figures 9 and 11 to 14)",
        source="1,020 runs of hkust-adsl/kubernetes-scheduler-simulator, tag atc23; mean over seeds",
        unit="percent of the cluster's GPUs",
        cells=tuple(sorted(cells, key=lambda cell: cell.row)),
        notes=(note,),
        details={"runs": len(curves), "equal_runs": equal, "farthest_points": farthest},
    )


def read_published(path: Path) -> dict[tuple[str, str, int], Curve]:
    """Read the published runs: (workload, policy, seed) → curve, with NaN for percents at which no pod arrived.

    Raises:
        UsageError: The file cannot be read, or holds no runs.
    """
    found = {}
    reader = csv.DictReader(io.StringIO(trace_text(path)))
    try:
        for row in reader:
            key = row["workload"].removeprefix(_PREFIX), row["sc_policy"], int(row["seed"])
            found[key] = tuple(float(row[str(at)] or "nan") for at in range(131))
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: line {reader.line_num} is no published run: {error!r}") from error
    if not found:
        raise UsageError(f"{path} holds no runs")
    return found


# -- one run -----------------------------------------------------------------------------------------------------------


def allocated(run: FgdRun, most_pods: int | None = None) -> Curve:
    """Fill the cluster with a run's pods, or the first ``most_pods`` of them; return the curve of allocated GPUs."""
    folder = run.data / FOLDER
    pods = _pods(folder / "pods" / f"{_PREFIX}{run.workload}.csv.gz")
    nodes = _nodes(folder / "openb_node_list_gpu_node.csv")
    gpu_milli = sum(int(node.resources.get(gpushare.NUMBER, "0")) for node in nodes) * WHOLE
    random = GoRandom(run.seed)
    random.int63()
    arriving = drawn(pods, gpu_milli, random)[:most_pods]
    for _ in range(_DRAWN_BY_OTHERS):
        random.int63()
    ordered = [node for _, node in sorted(zip(random.permutation(len(nodes)), nodes, strict=True), key=_by_number)]
    arrivals = FillingCluster(ordered, config_of([_plugin(run.policy, pods), {"name": "gang"}]), run.seed)
    bound = arrivals.arrive([ArrivingPod(job.requests, job.annotations) for job in arriving])
    return curve_of([(gpu_milli_of(job), bool(node)) for job, node in zip(arriving, bound, strict=True)], gpu_milli)


def drawn(pods: Sequence[TraceJob], gpu_milli: int, random: GoRandom) -> list[TraceJob]:
    """Return the pods that arrive, in order: the list shuffled, with pods added or removed to reach the demand."""
    arriving = list(pods)
    random.shuffle(arriving)
    demand, most = sum(map(gpu_milli_of, arriving)), _DEMAND * gpu_milli
    if demand > most:
        while demand > most:
            demand -= gpu_milli_of(arriving.pop(random.intn(len(arriving))))
        return arriving
    while True:
        pod = pods[random.intn(len(pods))]
        if demand + share_of(pod) > most:
            return arriving
        demand += gpu_milli_of(pod)
        arriving.append(pod)


def curve_of(pods: Sequence[tuple[int, bool]], gpu_milli: int) -> Curve:
    """Return for each percent of requested GPUs the mean of the allocated percent, rounded as in the artefact.

    Args:
        pods: For each pod the thousandths of GPUs that it requests, and whether it was bound.
        gpu_milli: Thousandths of GPUs of the cluster.
    """
    at: dict[int, list[float]] = {}
    arrived = used = 0
    for asked, bound in pods:
        arrived += asked
        used += asked if bound else 0
        at.setdefault(round(arrived / gpu_milli * 100), []).append(round(used / gpu_milli * 100, 2))
    means = {percent: round(statistics.fmean(values), 2) for percent, values in at.items()}
    return tuple(means.get(percent, float("nan")) for percent in range(131))


def share_of(pod: TraceJob) -> int:
    """Return how many thousandths of each of its GPUs a pod requests."""
    return int(pod.requests.get(gpushare.MEMORY, "0")) or (WHOLE if gpushare.NUMBER in pod.requests else 0)


def gpu_milli_of(pod: TraceJob) -> int:
    """Return how many thousandths of GPUs a pod requests in all."""
    return share_of(pod) * int(pod.requests.get(gpushare.NUMBER, "1"))


def typical_of(pod: TraceJob) -> Typical:
    """Return a pod as a typical pod of the workload, by which the plugin measures fragmentation."""
    share = share_of(pod)
    cards = int(pod.requests.get(gpushare.NUMBER, "1")) if share else 0
    models = pod.annotations.get(USE_MODELS, "")
    return Typical(cpu_millicores=quantity.milli(pod.requests["cpu"]), cards=cards, share=share or WHOLE, models=models)


def _plugin(policy: str, pods: Sequence[TraceJob]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"fgd.policy": POLICIES[policy]}
    if arguments["fgd.policy"] == "fragmentation":
        arguments["fgd.workload"] = [written(pod) for pod in most_frequent(map(typical_of, pods), POPULARITY_PERCENT)]
    return {"name": "fgd", "arguments": arguments}


def written(pod: Typical) -> dict[str, Any]:
    """Return a typical pod as an argument of the plugin."""
    found: dict[str, Any] = {"cpu": f"{pod.cpu_millicores}m", "count": pod.count}
    if pod.cards:
        found |= {"gpus": pod.cards, "share": pod.share}
    return found | ({"models": pod.models} if pod.models else {})


def _by_number(pair: tuple[int, NodeShape]) -> int:
    return pair[0]


@lru_cache(maxsize=4)
def _pods(path: Path) -> tuple[TraceJob, ...]:
    """Return the pods of a list sorted by name, with a request of no cpu where the list has none."""
    jobs = read_files([path], _OPENB).jobs
    return tuple(sorted((replace(j, requests={"cpu": "0", **j.requests}) for j in jobs), key=lambda job: job.name))


@lru_cache(maxsize=4)
def _nodes(path: Path) -> tuple[NodeShape, ...]:
    return tuple(sorted(read_files([path], _OPENB).nodes, key=lambda node: node.name))
