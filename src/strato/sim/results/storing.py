"""Writes a run's record to a file, whole or not at all; reads it back only if it is undamaged and of the same inputs.

The file does not hold the jobs, as its reader has the trace.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strato.decoding import UNDECODABLE
from strato.errors import StateError
from strato.sim.results.record import NodeColumns, RunRecord
from strato.sim.traces import TraceJob

VERSION: Final = 1
_COLUMNS: Final = {
    "start_seconds": np.float64,
    "finish_seconds": np.float64,
    "failed": np.bool_,
    "interval_job": np.int32,
    "interval_pod": np.int32,
    "interval_node": np.int32,
    "interval_begin": np.float64,
    "interval_end": np.float64,
    "interval_ending": np.int8,
    "interval_for": np.int32,
}
_PER_JOB: Final = ("start_seconds", "finish_seconds", "failed")
_MOST_BYTES: Final = 8 << 30
"""Most bytes of a record; a file that announces more is damaged."""


class _Stored(msgspec.Struct, frozen=True):
    version: int
    inputs: str
    jobs: int
    names: list[str]
    labels: list[dict[str, str]]
    capacity: dict[str, bytes]
    columns: dict[str, bytes]
    end_seconds: float
    reasons: dict[int, str]


def write_run(path: Path, record: RunRecord, inputs: str) -> None:
    """Write a run's record; an existing file is replaced once the new one is on the disk.

    Args:
        path: The file.
        record: The record.
        inputs: Digest of the run's inputs.

    Raises:
        StateError: The file cannot be written, for example because the disk is full.
    """
    replace_file(path, encode_run(record, inputs))


def replace_file(path: Path, data: bytes) -> None:
    """Write a file; an existing one is replaced once the new one is on the disk.

    Raises:
        StateError: The file cannot be written, for example because the disk is full.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise StateError(
            f"{path} cannot be written: {error.strerror}; runs that ended before are kept, continue with --resume"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def read_run(path: Path, jobs: Sequence[TraceJob], inputs: str) -> RunRecord | None:
    """Return a run's record; None if the file is missing, damaged, or of other inputs."""
    try:
        return decode_run(path.read_bytes(), jobs, inputs)
    except OSError:
        return None


def encode_run(record: RunRecord, inputs: str) -> bytes:
    """Return a run's record as bytes."""
    stored = _Stored(
        VERSION,
        inputs,
        len(record.jobs),
        list(record.nodes.names),
        [dict(labels) for labels in record.nodes.labels],
        {name: np.asarray(amounts, "<i8").tobytes() for name, amounts in record.nodes.capacity.items()},
        {name: _little(np.asarray(getattr(record, name), kind)).tobytes() for name, kind in _COLUMNS.items()},
        record.end_seconds,
        dict(record.reasons),
    )
    return zlib.compress(msgspec.msgpack.encode(stored), 1)


def decode_run(data: bytes, jobs: Sequence[TraceJob], inputs: str) -> RunRecord | None:
    """Return a run's record; None if the bytes are damaged or of other inputs."""
    try:
        inflate = zlib.decompressobj()
        plain = inflate.decompress(data, _MOST_BYTES)
        if not inflate.eof:
            return None
        stored = msgspec.msgpack.decode(plain, type=_Stored)
        if (stored.version, stored.inputs, stored.jobs) != (VERSION, inputs, len(jobs)):
            return None
        columns: dict[str, Any] = {
            name: np.frombuffer(stored.columns[name], kind).copy() for name, kind in _COLUMNS.items()
        }
        capacity = {name: np.frombuffer(amounts, "<i8").astype(np.int64) for name, amounts in stored.capacity.items()}
    except (*UNDECODABLE, zlib.error, ValueError, KeyError, MemoryError):
        return None
    nodes = NodeColumns(names=tuple(stored.names), capacity=capacity, labels=tuple(stored.labels))
    if not _is_whole(columns, nodes, len(jobs)):
        return None
    return RunRecord(jobs=tuple(jobs), nodes=nodes, end_seconds=stored.end_seconds, reasons=stored.reasons, **columns)


def _is_whole(columns: Mapping[str, Any], nodes: NodeColumns, jobs: int) -> bool:
    """Whether the columns have the right lengths, and the rows in them exist."""
    lengths = {len(column) for name, column in columns.items() if name not in _PER_JOB}
    whole = len(lengths) == 1 and all(len(columns[name]) == jobs for name in _PER_JOB)
    whole = whole and all(len(amounts) == len(nodes.names) for amounts in nodes.capacity.values())
    if not whole or not lengths.pop():
        return whole
    bounds = {"interval_job": (0, jobs), "interval_node": (0, len(nodes.names)), "interval_for": (-1, jobs)}
    return all(
        low <= int(columns[name].min()) and int(columns[name].max()) < high for name, (low, high) in bounds.items()
    )


def _little(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
