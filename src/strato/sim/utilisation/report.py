"""The result of an experiment: what each variant came to, as a table for people and as JSON that never differs."""

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
    """The containers of trainings."""

    used_core_hours: float
    unserved_core_hours: float
    """Wanted and not got."""
    limited_hours: float
    """Container hours in which a quota held one back."""
    held_core_hours: float
    """Requested by containers that waited for the rest of their training."""

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
    """The containers of services. Shares are of their running time."""

    used_core_hours: float
    short_ratio: float
    """In which one did not get all the CPU that it wanted: requests queue."""
    limited_ratio: float
    """In which that was for its limit."""
    unserved_ratio: float
    """Of what they wanted in all: CPU that they did not get."""
    overloaded_ratio: float
    """On nodes at 90 % and more of their CPU, where work waits for a free one."""

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
    """One variant."""

    name: str
    gang: bool
    overcommit: bool
    suppression: bool
    burst: bool
    runs: RunStatistics
    """Of trainings; all pods of one count as what it needs, with and without gangs."""
    given_up: int
    """Trainings that were deleted because they had not begun for too long."""
    hosts: HostStatistics
    allocated: float | None
    """Of the CPU that nodes offer: what trainings requested."""
    training: TrainingReport
    online: OnlineReport
    suppressions: int
    bursts: int
    evictions: int
    cut_cores: float
    """Sum over all suppressions."""
    rounds: int
    """That agents decided."""
    skipped_rounds: int
    """That could not have decided anything."""
    series: list[float]
    """Use of all nodes together, in steps of five minutes."""


class Report(msgspec.Struct, frozen=True):
    """Everything an experiment says."""

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
