"""How fast kinds of jobs run on models of GPUs, alone and beside another: the table that Gavel's authors publish.

``{model: {"('kind', gpus)": {"null": steps per second, "('other kind', gpus)": [own, the other's], …}}}`` as JSON, gzip
or not; 0 where two do not fit together. Source: stanford-futuredata/gavel, ``simulation_throughputs.json`` (OSDI 2020).
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from strato.decoding import UNDECODABLE

_MOST_BYTES: Final = 64 << 20
"""Largest size of a table, unpacked; the published one has 1.2 MB."""
_MOST_PROBLEMS: Final = 20
_KEY: Final = re.compile(r"\('(.{1,200}?)', (\d{1,4})\)", re.DOTALL)
_ALONE: Final = "null"


class JobKind(NamedTuple):
    """A kind of jobs: what it trains, and on how many GPUs."""

    name: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Steps per second."""

    alone: Mapping[str, Mapping[JobKind, float]]
    """By model of GPUs and kind."""
    beside: Mapping[str, Mapping[tuple[JobKind, JobKind], float]] = field(default_factory=dict)
    """By model, the speed of the first kind while the second runs on the same GPUs; 0 if they do not fit together."""

    def on(self, model: str, kind: JobKind) -> float:
        """Return the steps per second of a job alone; 0 where nothing is known."""
        return self.alone.get(model, {}).get(kind, 0.0)


def read_throughputs(path: Path) -> Throughputs:
    """Read a table from a file.

    Raises:
        ValueError: It cannot be read or is none; one problem a line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            unpacking = zlib.decompressobj(wbits=31)
            data = unpacking.decompress(data, _MOST_BYTES + 1)
            if not unpacking.eof and len(data) <= _MOST_BYTES:
                raise ValueError(f"{path} is not whole gzip")
    except (OSError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path} holds more than {_MOST_BYTES >> 20} MiB, too much for a table of throughputs")
    try:
        return parse_throughputs(msgspec.json.decode(data), str(path))
    except UNDECODABLE as error:
        raise ValueError(f"{path} is not JSON ({error})") from error


def parse_throughputs(table: Any, where: str) -> Throughputs:
    """Read a table.

    Args:
        table: As JSON or YAML has it.
        where: Names the table in problems; may be empty.

    Raises:
        ValueError: What is wrong, one problem a line.
    """
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{where or table!r} is no mapping of models of GPUs to kinds of jobs")
    prefix = f"{where}: " if where else ""
    alone: dict[str, dict[JobKind, float]] = {}
    beside: dict[str, dict[tuple[JobKind, JobKind], float]] = {}
    wrong: list[str] = []
    for model, kinds in table.items():
        if not isinstance(kinds, dict):
            wrong.append(f"{prefix}{model}: is no mapping of kinds of jobs")
            continue
        alone[str(model)], beside[str(model)] = {}, {}
        for text, speeds in kinds.items():
            _read_kind(f"{prefix}{model}: {text}", text, speeds, alone[model], beside[model], wrong)
    if wrong:
        more = [f"{prefix}and {len(wrong) - _MOST_PROBLEMS} more problems"] if len(wrong) > _MOST_PROBLEMS else []
        raise ValueError("\n".join(wrong[:_MOST_PROBLEMS] + more))
    return Throughputs(alone, beside)


def _read_kind(
    where: str,
    text: Any,
    speeds: Any,
    alone: dict[JobKind, float],
    beside: dict[tuple[JobKind, JobKind], float],
    wrong: list[str],
) -> None:
    kind = kind_of(text)
    if kind is None:
        wrong.append(f"{where}: is no kind such as ('ResNet-18 (batch size 16)', 1)")
        return
    if not isinstance(speeds, dict):
        wrong.append(f"{where}: is no mapping of partners to steps per second")
        return
    for partner, speed in speeds.items():
        other = None if partner == _ALONE else kind_of(partner)
        if partner == _ALONE and _is_speed(speed):
            alone[kind] = float(speed)
        elif other is not None and speed == 0:
            beside[kind, other] = 0.0
        elif other is not None and _is_pair(speed):
            beside[kind, other] = float(speed[0])
        else:
            wrong.append(f"{where}: {partner}: {speed!r} is neither steps per second nor a pair of them")


def _is_speed(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(("own", "partner's")) and all(map(_is_speed, value))


def kind_of(text: Any) -> JobKind | None:
    """Read ``('kind', gpus)``; None when it is none."""
    match = _KEY.fullmatch(text) if isinstance(text, str) else None
    return JobKind(match[1], int(match[2])) if match is not None else None
