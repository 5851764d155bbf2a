"""Print a benchmark's rows as a table and write them as JSON with commit and hardware."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def hardware() -> dict[str, object]:
    """Describe the machine: figures of different machines do not compare."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory_kib / 2**20, 1)}


def commit() -> str:
    """Return the checkout's commit, with a mark when the tree has changes."""
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def check_writable() -> None:
    """Raise OSError when `publish` could not write; to be called before hours of work."""
    RESULTS.mkdir(exist_ok=True)
    probe = RESULTS / f".probe-{os.getpid()}"
    probe.touch()
    probe.unlink()


def publish(name: str, rows: Sequence[Mapping[str, object]], notes: str = "") -> None:
    """Print ``rows`` (equal keys) as a table and write ``results/NAME.json``."""
    headers = list(rows[0])
    table = [headers, *([_cell(row[header]) for header in headers] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(headers))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if notes:
        print(notes)
    RESULTS.mkdir(exist_ok=True)
    body = {"benchmark": name, "commit": commit(), "hardware": hardware(), "rows": list(rows), "notes": notes}
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=2) + "\n")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
