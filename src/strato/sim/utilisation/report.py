"""`UtilisationReport`: measures of each variant of an experiment, as table and JSON; equal runs give equal bytes."""

from __future__ import annotations

import msgspec

from strato.history.statistics import HostStatistics, RunStatistics
from strato.sim.report import aligned
from strato.sim.utilisation.recording import WorkloadCounts

_HOUR: float = 3600.0
_COLUMNS = (
    "VARIANT",
    "RUNS",
    "MEAN RUN",
    "MEAN WAIT",
    "GIVEN UP",
    "CPU MEAN",
    "CPU P90",
    "HELD CORE-H",
    "ONLINE SHORT",
    "UNSERVED",
    "ON HOT NODES",
    "CUTS",
    "BURSTS",
    "EVICTIONS",
)


class TrainingReport(msgspec.Struct, frozen=True):
    """The CPU of the trainings' containers."""

    used_core_hours: float
    unserved_core_hours: float
    """Demand that was not served."""
    limited_hours: float
    """Container hours in which a quota limited the container."""
    held_core_hours: float
    """Core-hours that containers requested while they waited for the other pods of their training."""

    @staticmethod
    def of(counts: WorkloadCounts) -> TrainingReport:
        """Sum up."""
        total = counts.total
        return TrainingReport(
            used_core_hours=_rounded(total.used_core_seconds / _HOUR),
            unserved_core_hours=_rounded(total.unserved_core_seconds / _HOUR),
            limited_hours=_rounded(total.limited_seconds / _HOUR),
            held_core_hours=_rounded(counts.held_core_seconds / _HOUR),
        )


class OnlineReport(msgspec.Struct, frozen=True):
    """The CPU of the services' containers."""

    used_core_hours: float
    short_ratio: float
    """Share of their running time in which a container did not get all the CPU that it demanded: requests queue."""
    limited_ratio: float
    """Share of their running time in which the container's own limit was the reason."""
    unserved_ratio: float
    """Share of all demanded CPU that was not served."""
    overloaded_ratio: float
    """Share of their running time on nodes at 90 % or more of their CPU, where threads wait for a free core."""

    @staticmethod
    def of(counts: WorkloadCounts) -> OnlineReport:
        """Sum up."""
        total = counts.total
        seconds = total.seconds or 1.0
        wanted = total.used_core_seconds + total.unserved_core_seconds
        return OnlineReport(
            used_core_hours=_rounded(total.used_core_seconds / _HOUR),
            short_ratio=_rounded(total.short_seconds / seconds),
            limited_ratio=_rounded(total.limited_seconds / seconds),
            unserved_ratio=_rounded(total.unserved_core_seconds / wanted) if wanted else 0.0,
            overloaded_ratio=_rounded(total.overloaded_seconds / seconds),
        )


class VariantReport(msgspec.Struct, frozen=True):
    """The measures of one variant."""

    name: str
    gang: bool
    overcommit: bool
    suppression: bool
    burst: bool
    runs: RunStatistics
    """Statistics of trainings. A training is ready when all its pods are bound, with and without gangs."""
    given_up: int
    """Number of trainings that were deleted because they had not begun in time."""
    hosts: HostStatistics
    allocated: float | None
    """Share of the CPU offered by the nodes that trainings requested."""
    training: TrainingReport
    online: OnlineReport
    suppressions: int
    bursts: int
    evictions: int
    cut_cores: float
    """Sum over all suppressions: cores used before, less the limit."""
    rounds: int
    """Rounds that agents took part in."""
    skipped_rounds: int
    """Rounds that agents skipped, as they could not have decided anything."""
    series: list[float]
    """CPU utilisation of all nodes together, in steps of five minutes."""


class UtilisationReport(msgspec.Struct, frozen=True):
    """The measures of all variants of an experiment."""

    experiment: str
    seed: int
    hours: float
    variants: list[VariantReport]

    def to_json(self) -> bytes:
        """Write as JSON: the same run gives the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_table(self) -> str:
        """Write for a terminal."""
        return "\n".join(aligned([_COLUMNS, *(_row(one) for one in self.variants)])) + "\n"


def _row(one: VariantReport) -> tuple[str, ...]:
    runs, hosts, online = one.runs, one.hosts, one.online
    return (
        one.name,
        str(runs.runs),
        "-" if runs.mean_run is None else f"{runs.mean_run / 60:.0f}m",
        "-" if runs.mean_wait is None else f"{runs.mean_wait:.0f}s",
        str(one.given_up),
        _percent(hosts.mean, 0),
        _percent(hosts.p90, 0),
        f"{one.training.held_core_hours:.0f}",
        _percent(online.short_ratio, 2),
        _percent(online.unserved_ratio, 2),
        _percent(online.overloaded_ratio, 2),
        str(one.suppressions),
        str(one.bursts),
        str(one.evictions),
    )


def _percent(ratio: float | None, digits: int) -> str:
    return "-" if ratio is None else f"{ratio * 100:.{digits}f}%"


def _rounded(value: float) -> float:
    return round(value, 6)
