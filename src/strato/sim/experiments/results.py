"""`Results`: the report of every run, the metrics of each policy over seeds, and waits compared job by job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from strato.sim.experiments.execute import nodes_name
from strato.sim.experiments.plan import Experiment
from strato.sim.experiments.pool import EndedRuns
from strato.sim.pictures.digest import RunDigest, digest_run
from strato.sim.report import SimulationReport, aligned, short_duration
from strato.sim.results.record import RunRecord
from strato.sim.results.statistics import Estimate, PairedDifference, over_seeds, paired

METRICS: Final[dict[str, Callable[[SimulationReport], float]]] = {
    "mean wait, s": lambda report: report.wait_seconds.mean,
    "95 % wait, s": lambda report: report.wait_seconds.p95,
    "mean bounded slowdown": lambda report: report.bounded_slowdown.mean,
    "makespan, s": lambda report: report.makespan_seconds,
    "cpu use": lambda report: report.utilisation.get("cpu", 0.0),
    "cpu fragmented": lambda report: report.fragmentation.get("cpu", 0.0),
    "fairness of slowdown": lambda report: report.slowdown_fairness,
    "fairness of DRF shares": lambda report: report.drf_fairness,
    "pods evicted": lambda report: float(report.evictions.pods),
    "jobs that never started": lambda report: float(report.never_started),
}
"""The metrics by which policies are compared: name → its value in a report."""
_MOST_QUEUES: Final = 12
"""Most queues that have a column in the table."""


class RunResult(msgspec.Struct, frozen=True):
    """The report of one run."""

    policy: str
    variant: str
    seed: int
    parameters: dict[str, str]
    """In a sweep: parameter → its value in this run."""
    report: SimulationReport


Sink = Callable[[RunResult, RunRecord], None]


class Summary(msgspec.Struct, frozen=True):
    """The metrics of one policy under one variant, over its seeds."""

    policy: str
    variant: str
    parameters: dict[str, str]
    seeds: int
    metrics: dict[str, Estimate]
    """Mean of each metric, with Student's interval of 95 %."""


class WaitDifference(msgspec.Struct, frozen=True):
    """The waits of the same jobs in two runs: of a policy and the first one, or of a variant and the first one."""

    variant: str
    """The variant of both policies; empty if two variants are compared."""
    seed: int
    waits: PairedDifference


class Results(msgspec.Struct, frozen=True):
    """The results of an experiment. They hold no wall-clock time, so equal inputs give equal bytes."""

    experiment: str
    trace: str
    fidelity: str
    runs_planned: int
    runs: list[RunResult]
    summaries: list[Summary]
    differences: list[WaitDifference]
    failures: dict[str, str]
    """Label of a run → why it failed."""

    def to_json(self) -> bytes:
        """Write as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_table(self) -> str:
        """Write for a terminal."""
        if len(self.runs) == 1:
            return self.runs[0].report.to_table()
        if not self.runs:
            return "no run has ended\n"
        return "\n".join([*_by_policy(self), *_by_queue(self), *_by_pair(self)]) + "\n"


def results_of(experiment: Experiment, outcome: EndedRuns, sink: Sink | None = None) -> tuple[Results, list[RunDigest]]:
    """Compute the results of an experiment, reading one record after the other to hold only one in memory.

    Args:
        experiment: The experiment.
        outcome: Its ended runs.
        sink: Called with each run's result and record.

    Raises:
        StateError: A record was damaged after it was written.
    """
    digests, runs = [], []
    for work in outcome.finished:
        run, trace = work.run, outcome.traces[work.run.trace]
        record = outcome.record(work)
        digest = digest_run(
            record,
            policy=run.policy.name,
            variant=run.variant.name,
            seed=run.seed,
            trace=run.trace.name,
            nodes=nodes_name(run, trace),
            skipped=trace.skipped,
            queues=run.variant.queues,
        )
        digests.append(digest)
        found = RunResult(digest.policy, digest.variant, digest.seed, dict(run.variant.values), digest.report)
        runs.append(found)
        if sink is not None:
            sink(found, record)
    results = Results(
        experiment=experiment.name,
        trace=experiment.variants[0].trace.name,
        fidelity=experiment.fidelity,
        runs_planned=outcome.total,
        runs=runs,
        summaries=summaries(runs),
        differences=differences(digests),
        failures=dict(outcome.failures),
    )
    return results, digests


def summaries(runs: Sequence[RunResult]) -> list[Summary]:
    """Return the metrics of each policy under each variant, over its seeds."""
    grouped: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        grouped.setdefault((run.variant, run.policy), []).append(run)
    return [
        Summary(
            policy,
            variant,
            some[0].parameters,
            len(some),
            {name: over_seeds([metric(run.report) for run in some]) for name, metric in METRICS.items()},
        )
        for (variant, policy), some in grouped.items()
    ]


def differences(digests: Sequence[RunDigest]) -> list[WaitDifference]:
    """Return how each policy's waits differ from those of the first policy, by variant and seed.

    If there is only one policy, its variants with the same jobs are compared with the first variant.
    """
    is_one = len({digest.policy for digest in digests}) == 1
    grouped: dict[tuple[str, int], list[RunDigest]] = {}
    for digest in digests:
        grouped.setdefault(("" if is_one else digest.variant, digest.seed), []).append(digest)
    found = []
    for (variant, seed), (first, *others) in grouped.items():
        for other in others:
            if [job.submit_seconds for job in first.report.job_list] != [
                job.submit_seconds for job in other.report.job_list
            ]:
                continue  # the variants have different traces
            names = [one.variant if is_one else one.policy for one in (first, other)]
            waits = paired(names[0], first.waits, names[1], other.waits)
            if waits is not None:
                found.append(WaitDifference(variant, seed, waits))
    return found


def _by_policy(results: Results) -> list[str]:
    header = ["POLICY", "DONE", "MAKESPAN", "CPU", "WAIT MEAN", "P50", "P95", "SLOWDOWN MEAN", "P95", "FAIRNESS"]
    by_group: dict[tuple[str, str], list[SimulationReport]] = {}
    for run in results.runs:
        by_group.setdefault((run.variant, run.policy), []).append(run.report)
    rows = []
    has_variants, has_seeds = _has_variants(results), any(len(reports) > 1 for reports in by_group.values())
    for (variant, policy), reports in by_group.items():
        wait = over_seeds([report.wait_seconds.mean for report in reports])
        rows.append(
            [
                policy,
                *([variant] if has_variants else []),
                *([str(len(reports))] if has_seeds else []),
                f"{sum(report.finished for report in reports)}/{sum(report.jobs for report in reports)}",
                short_duration(_mean(reports, lambda report: report.makespan_seconds)),
                f"{_mean(reports, lambda report: report.utilisation.get('cpu', 0.0)):.1%}",
                short_duration(wait.mean) + ("" if wait.high is None else f" ±{short_duration(wait.high - wait.mean)}"),
                short_duration(_mean(reports, lambda report: report.wait_seconds.p50)),
                short_duration(_mean(reports, lambda report: report.wait_seconds.p95)),
                f"{_mean(reports, lambda report: report.bounded_slowdown.mean):.2f}",
                f"{_mean(reports, lambda report: report.bounded_slowdown.p95):.2f}",
                f"{_mean(reports, lambda report: report.slowdown_fairness):.3f}",
            ]
        )
    header[1:1] = [*(["VARIANT"] if has_variants else []), *(["SEEDS"] if has_seeds else [])]
    note = ["± is Student's interval of 95 % over seeds"] if has_seeds else []
    return [*aligned([header, *rows]), *note]


def _by_queue(results: Results) -> list[str]:
    queues = sorted({queue for run in results.runs for queue in run.report.queues})[:_MOST_QUEUES]
    if len(queues) < 2:
        return []
    rows = []
    for summary in results.summaries:
        reports = [run.report for run in results.runs if (run.policy, run.variant) == (summary.policy, summary.variant)]
        waits = [[one.queues[name].wait_seconds.mean for one in reports if name in one.queues] for name in queues]
        name = ", ".join(part for part in (summary.policy, summary.variant) if part)
        rows.append((name, *(short_duration(sum(some) / len(some)) if some else "-" for some in waits)))
    return ["", *aligned([("MEAN WAIT IN", *queues), *rows])]


def _by_pair(results: Results) -> list[str]:
    """Return the table of waits compared job by job; empty with several seeds, where the intervals over seeds count."""
    if not results.differences or len({run.seed for run in results.runs}) > 1:
        return []
    rows = []
    for difference in results.differences:
        waits, mean = difference.waits, difference.waits.mean_wait_difference
        names = f"{waits.second} against {waits.first}" + (f", {difference.variant}" if difference.variant else "")
        low, high = (mean.mean if end is None else end for end in (mean.low, mean.high))
        rows.append(
            (
                names,
                short_duration(mean.mean),
                f"{short_duration(low)} … {short_duration(high)}",
                str(waits.shorter),
                str(waits.longer),
            )
        )
    return ["", *aligned([("JOB BY JOB", "WAIT DIFFERS BY", "95 % (BOOTSTRAP)", "SHORTER", "LONGER"), *rows])]


def _has_variants(results: Results) -> bool:
    return any(run.variant for run in results.runs)


def _mean(reports: Sequence[SimulationReport], metric: Callable[[SimulationReport], float]) -> float:
    return sum(map(metric, reports)) / len(reports)


def sweep_table(results: Results) -> str:
    """Return the table of a sweep: a row for each point and policy."""
    if not results.summaries:
        return "no run has ended\n"
    names = list(results.summaries[0].parameters)
    header = (*(name.upper() for name in names), "POLICY", "WAIT MEAN", "P95", "SLOWDOWN MEAN", "MAKESPAN", "CPU")
    rows = []
    for summary in results.summaries:
        mean = {name: estimate.mean for name, estimate in summary.metrics.items()}
        rows.append(
            (
                *summary.parameters.values(),
                summary.policy or "built-in",
                *(short_duration(mean[name]) for name in ("mean wait, s", "95 % wait, s")),
                f"{mean['mean bounded slowdown']:.2f}",
                short_duration(mean["makespan, s"]),
                f"{mean['cpu use']:.1%}",
            )
        )
    return "\n".join(aligned([header, *rows])) + "\n"


def row_of(run: RunResult) -> tuple[dict[str, str | int], dict[str, float]]:
    """Return the keys and the metrics of a run as columns of a table of runs."""
    keys: dict[str, str | int] = {"policy": run.policy, "variant": run.variant, "seed": run.seed, **run.parameters}
    return keys, {name: metric(run.report) for name, metric in METRICS.items()}
