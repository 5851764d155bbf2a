"""`ParquetFiles`: writes runs as Parquet, a row for each run, each job of a run, each interval in which a pod ran."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from strato.errors import StateError, UsageError
from strato.sim.results.columns import RunColumns
from strato.sim.results.record import Ending, RunRecord

RUNS, JOBS, INTERVALS = "runs", "jobs", "intervals"
_ENDINGS: Final = np.array([ending.name.lower() for ending in Ending])


def check_pyarrow() -> None:
    """Check that Parquet can be written.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as _  # noqa: F401 -- only whether it is there
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow: pip install 'strato[report]'") from error


class ParquetFiles:
    """Writes ``runs.parquet``, ``jobs.parquet`` and ``intervals.parquet`` run by run; a context manager.

    Each file is written under a temporary name and renamed at the end.

    Raises:
        StateError: A file cannot be written.
        UsageError: pyarrow is not installed.
    """

    def __init__(self, folder: Path) -> None:
        check_pyarrow()
        self._folder = folder
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"{self._folder} cannot be made: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, writer in self._writers.items():
            draft = self._draft(name)
            try:
                writer.close()
                if kind is None:
                    draft.replace(self._folder / f"{name}.parquet")
            except OSError as failure:
                raise self._refused(failure) from failure
            finally:
                draft.unlink(missing_ok=True)

    def add(self, keys: Mapping[str, str | int], metrics: Mapping[str, float], record: RunRecord) -> None:
        """Write one run.

        Args:
            keys: Policy, variant and seed; in a sweep its parameters too.
            metrics: The metrics of its report.
            record: Its record.
        """
        run = RunColumns(record)
        self._write(RUNS, {**{key: [value] for key, value in keys.items()}, **{n: [v] for n, v in metrics.items()}})
        self._write(JOBS, _jobs(keys, run))
        self._write(INTERVALS, _intervals(keys, run))

    def _write(self, name: str, columns: Mapping[str, Any]) -> None:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table(dict(columns))
        try:
            if name not in self._writers:
                self._writers[name] = parquet.ParquetWriter(self._draft(name), table.schema, compression="zstd")
            self._writers[name].write_table(table.cast(self._writers[name].schema))
        except OSError as error:
            raise self._refused(error) from error

    def _draft(self, name: str) -> Path:
        return self._folder / f".{name}.parquet.new"

    def _refused(self, error: OSError) -> StateError:
        return StateError(f"Parquet files cannot be written to {self._folder}: {error.strerror or error}")


def _jobs(keys: Mapping[str, str | int], run: RunColumns) -> dict[str, Any]:
    record, jobs = run.record, run.record.jobs
    return {
        **_constant(keys, len(jobs)),
        "job": [job.name for job in jobs],
        "queue": _named(run.queues.names, run.queues.of_job),
        "user": [job.user for job in jobs],
        "replicas": run.replicas,
        "submit_seconds": run.submit_seconds,
        "start_seconds": _or_none(record.start_seconds),
        "finish_seconds": _or_none(record.finish_seconds),
        "wait_seconds": _or_none(run.wait_seconds),
        "bounded_slowdown": _or_none(run.slowdown),
        "failed": record.failed,
        "reason": [record.reasons.get(row, "") for row in range(len(jobs))],
        **{f"{name}_request": run.requests[name] for name in run.resources},
    }


def _intervals(keys: Mapping[str, str | int], run: RunColumns) -> dict[str, Any]:
    record = run.record
    names = tuple(job.name for job in record.jobs)
    beneficiary = _named((*names, ""), np.where(record.interval_for >= 0, record.interval_for, len(names)))
    return {
        **_constant(keys, len(record.interval_job)),
        "job": _named(names, record.interval_job),
        "pod": record.interval_pod,
        "node": _named(record.nodes.names, record.interval_node),
        "begin_seconds": record.interval_begin,
        "end_seconds": record.interval_end,
        "ending": _ENDINGS[record.interval_ending],
        "evicted_for": beneficiary,
    }


def _constant(keys: Mapping[str, str | int], rows: int) -> dict[str, Any]:
    return {key: [value] * rows for key, value in keys.items()}


def _named(names: tuple[str, ...], rows: np.ndarray[Any, Any]) -> Any:
    """Return the name of each row as a dictionary column, so that the file holds each name once."""
    import pyarrow

    numbers = pyarrow.array(np.asarray(rows, np.int32))
    return pyarrow.DictionaryArray.from_arrays(
        numbers, pyarrow.array(list(names), pyarrow.string())
    ).dictionary_decode()


def _or_none(values: np.ndarray[Any, Any]) -> Any:
    import pyarrow

    return pyarrow.array(values, mask=np.isnan(values))
