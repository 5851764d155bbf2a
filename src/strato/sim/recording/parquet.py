"""The decisions of a log as a Parquet file: one row for each bind and eviction."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from strato.errors import UsageError, one_line
from strato.sim.recording import entries as e
from strato.sim.recording.log import Log

_ROWS: Final = 100_000
"""Rows of a row group, which are in memory together."""
_COLUMNS: Final = ("cycle", "at", "decision", "pod", "node", "beneficiary", "action", "reason")


def write_decisions(log: Log, path: Path) -> int:
    """Write the decisions of a log to a file; return their number.

    Raises:
        BadLog: The log is damaged.
        UsageError: pyarrow is missing, or the file cannot be written.
    """
    try:
        pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError("Parquet needs: pip install 'strato[report]'") from error
    text = pa.dictionary(pa.int32(), pa.string())
    types = (pa.int64(), pa.timestamp("us", tz="UTC"), text, pa.string(), text, pa.string(), text, pa.string())
    schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
    rows: list[tuple[Any, ...]] = []
    written = 0

    def flush(writer: Any) -> None:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(_COLUMNS)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        rows.clear()

    try:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for entry in log.entries():
                if isinstance(entry, e.Cycle):
                    rows += rows_of(entry)
                if len(rows) >= _ROWS:
                    written += len(rows)
                    flush(writer)
            written += len(rows)
            flush(writer)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {one_line(error)}") from error
    return written


def rows_of(cycle: e.Cycle) -> list[tuple[Any, ...]]:
    """Return the rows of a cycle; instants in microseconds."""
    at = round(cycle.at * 1e6)
    binds = [(cycle.number, at, "bind", pod, node, "", "", "") for pod, node in cycle.binds]
    return binds + [
        (cycle.number, at, "evict", one.pod, one.moves_to, one.beneficiary, one.action, one.reason)
        for one in cycle.evictions
    ]
