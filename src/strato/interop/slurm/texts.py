"""Format times, limits and lists of hosts as Slurm does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from strato.clock import parse_time


def elapsed(seconds: float) -> str:
    """Return a time as squeue shows it: ``0:05``, ``1:02:03``, ``2-00:00:00``."""
    days, hours, minutes, rest = _parts(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def elapsed_full(seconds: float) -> str:
    """Return a time as sacct and scontrol show it: ``00:00:05``, ``2-00:00:00``."""
    days, hours, minutes, rest = _parts(seconds)
    return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:{rest:02}"


def _parts(seconds: float) -> tuple[int, int, int, int]:
    whole = max(0, int(seconds))
    return whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60


def moment(timestamp: str | None, unknown: str = "N/A") -> str:
    """Return an instant in local time without a zone, as all of Slurm's commands do."""
    if not timestamp:
        return unknown
    return datetime.fromtimestamp(parse_time(timestamp)).strftime("%Y-%m-%dT%H:%M:%S")


def hostlist(names: Iterable[str]) -> str:
    """Return names as one expression: ``node-[0-2,7],other``; sorted and without duplicates."""
    groups: dict[str, list[str]] = {}
    plain = []
    for name in sorted(set(names)):
        prefix = name.rstrip("0123456789")
        if prefix == name:
            plain.append(name)
        else:
            groups.setdefault(prefix, []).append(name[len(prefix) :])
    parts = [_group(prefix, numbers) for prefix, numbers in groups.items()]
    return ",".join([*parts, *plain])


def _group(prefix: str, numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return prefix + numbers[0]
    return f"{prefix}[{ranges(sorted(numbers, key=lambda text: (len(text), int(text))))}]"


def ranges(numbers: Sequence[str]) -> str:
    """Return sorted numbers as ranges: ``0-2,7``. Leading zeros are kept."""
    runs: list[tuple[str, str]] = []
    for text in numbers:
        if runs and int(text) == int(runs[-1][1]) + 1 and _follows(runs[-1][1], text):
            runs[-1] = (runs[-1][0], text)
        else:
            runs.append((text, text))
    return ",".join(first if first == last else f"{first}-{last}" for first, last in runs)


def _follows(before: str, text: str) -> bool:
    """Whether two texts may be neighbours in a range: 9 and 10, or 09 and 10, but not 9 and 010."""
    return len(before) == len(text) or not (before.startswith("0") or text.startswith("0"))
