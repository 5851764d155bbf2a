"""`LoadResult`: the result of a load as a table, as JSON, as a picture, and as the measures that expectations bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from strato.sim.load.latencies import ENDED, PERCENTILES, RUNNING, STAGES, Latency, LatencyTracker, rate_of
from strato.sim.pictures.canvas import PALETTE, Picture, durations_along

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAILED_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Counts, latencies and rates of a load that has ended."""

    submissions: int
    pods: int
    """Number of pods of the submissions that the server did not refuse."""
    seconds: float
    """Time from the first submission to the end of the load."""
    late: int
    latest_seconds: float
    not_sent: int
    """Submissions that were not sent because too many others were unanswered."""
    errors: Mapping[str, int]
    failed_pods: int
    latencies: Mapping[str, Latency]
    per_second: Mapping[str, float]
    """Stage → pods that reached it per second, between the first and the last; ``due`` counts submissions."""
    reached: Mapping[str, int]
    interrupted: bool = False
    left_behind: str = ""
    """The objects that could not be removed, as text; empty if all were."""

    def measures(self) -> dict[str, float]:
        """Return the measures that an expectation may bound, by name, without those of stages that no pod reached."""
        found = {
            "submissions": float(self.submissions),
            "latePercent": 100.0 * self.late / max(1, self.submissions),
            "notSent": float(self.not_sent),
            "failedRequests": float(sum(self.errors.values())),
            "failedPods": float(self.failed_pods),
            "seconds": self.seconds,
        }
        for stage in STAGES:
            found[f"{stage}Pods"] = float(self.reached.get(stage, 0))
            found[f"{stage}Percent"] = 100.0 * self.reached.get(stage, 0) / max(1, self.pods)
            if stage in self.per_second:
                found[f"{stage}PerSecond"] = self.per_second[stage]
            latency = self.latencies.get(stage)
            if latency is not None:
                found[f"{stage}MeanSeconds"] = latency.mean
                found |= {f"{stage}{_title(name)}Seconds": value for name, value in latency.percentiles.items()}
        return found

    def to_json(self) -> bytes:
        """Return the result as JSON, with camelCase keys."""
        document = {
            "submissions": self.submissions,
            "pods": self.pods,
            "seconds": self.seconds,
            "late": self.late,
            "latestSeconds": self.latest_seconds,
            "notSent": self.not_sent,
            "errors": self.errors,
            "failedPods": self.failed_pods,
            "reached": self.reached,
            "perSecond": self.per_second,
            "latencySeconds": {
                name: {"count": one.count, "mean": one.mean, **one.percentiles} for name, one in self.latencies.items()
            },
            "interrupted": self.interrupted,
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"

    def to_table(self) -> str:
        """Return the result as text for a terminal; latencies are in seconds after a pod was due."""
        columns = ("PODS", "PER S", "MEAN", *(name.upper() for name in PERCENTILES))
        lines = [f"{'STAGE':<14}" + "".join(f"{title:>9}" for title in columns)]
        for stage in STAGES:
            latency = self.latencies.get(stage)
            cells = [f"{self.reached.get(stage, 0):,}", f"{self.per_second.get(stage, 0.0):.1f}"]
            if latency is not None:
                cells += [f"{value:.3f}" for value in (latency.mean, *latency.percentiles.values())]
            lines.append(f"{stage:<14}" + "".join(f"{cell:>9}" for cell in cells))
        lines.append(
            f"{self.submissions:,} submissions of {self.pods:,} pods in {self.seconds:.1f}s"
            f"; {self.late:,} begun late, the latest by {self.latest_seconds:.3f}s"
        )
        if self.not_sent:
            lines.append(f"{self.not_sent:,} were not sent: too many unanswered")
        if self.failed_pods:
            lines.append(f"{self.failed_pods:,} pods failed")
        lines += [f"{count:,} refused: {reason}" for reason, count in list(self.errors.items())[:_FAILED_SHOWN]]
        if self.interrupted:
            lines.append("interrupted before its end")
        return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    return name[0].upper() + name[1:]


def result_of(
    latencies: LatencyTracker,
    submissions: int,
    seconds: float,
    not_sent: int,
    *,
    interrupted: bool = False,
    left: str = "",
) -> LoadResult:
    """Return the result of a load from the stages of its pods."""
    rates = {"due": rate_of(latencies.due_instants())}
    rates |= {name: rate_of(latencies.instants(stage)) for stage, name in enumerate(STAGES)}
    return LoadResult(
        submissions=submissions,
        pods=latencies.due_pods,
        seconds=round(seconds, 3),
        late=latencies.late,
        latest_seconds=round(latencies.latest_seconds, 6),
        not_sent=not_sent,
        errors=dict(latencies.errors.most_common()),
        failed_pods=latencies.failed_pods,
        latencies=latencies.by_stage(),
        per_second={name: round(rate, 3) for name, rate in rates.items()},
        reached={name: latencies.reached(stage) for stage, name in enumerate(STAGES)},
        interrupted=interrupted,
        left_behind=left,
    )


def picture_of(latencies: LatencyTracker) -> Picture:
    """Return curves of the latencies, and the pods per second over time."""
    return Picture(
        "load",
        "Load",
        "Left: part of the pods that had got so far after so many seconds. Right: pods per second over time.",
        lambda figure: _draw(figure, latencies),
    )


def _draw(figure: Figure, latencies: LatencyTracker) -> None:
    left, right = figure.subplots(1, 2)
    for stage, name in enumerate(STAGES):
        values = np.sort(latencies.after(stage))
        if len(values) and stage != ENDED:
            left.step(
                np.maximum(values, 1e-4), np.arange(1, len(values) + 1) / len(values), color=PALETTE[stage], label=name
            )
    left.set_xscale("log")
    durations_along(left, "x")
    left.set_xlabel("from when it was due")
    left.set_ylabel("part of the pods")
    left.legend()
    begin = float(latencies.due_instants()[0]) if len(latencies.due_instants()) else 0.0
    for stage, name in enumerate(STAGES):
        instants = latencies.instants(stage) - begin
        if len(instants) and stage >= RUNNING - 1:
            counts = np.bincount(np.maximum(instants, 0).astype(int))
            right.plot(np.arange(len(counts)), counts, color=PALETTE[stage], label=name)
    right.set_xlabel("seconds")
    right.set_ylabel("pods per second")
    right.legend()
