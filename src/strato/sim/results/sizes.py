"""Groups jobs by size: by number of pods if jobs differ in it, else by the GPUs or cores that they request."""

from __future__ import annotations

from typing import Final

import numpy as np

from strato.sim.results.columns import JobGroups, Numbers, RunColumns

_BOUNDS: Final = (1, 4, 16, 64, 256)
"""Largest size of each class except the last, which has no bound."""


def jobs_by_size(run: RunColumns) -> tuple[str, JobGroups]:
    """Return the unit of sizes, and the jobs grouped by size, the smallest first."""
    unit, sizes = _sizes(run)
    number = np.searchsorted(np.array(_BOUNDS), sizes, side="left")
    used = np.unique(number)
    names = tuple(_class_name(int(one)) for one in used)
    return unit, JobGroups(names, np.searchsorted(used, number).astype(np.int32))


def _sizes(run: RunColumns) -> tuple[str, Numbers]:
    if len(np.unique(run.replicas)) > 1:
        return "pods", run.replicas
    for name in run.resources:
        if name.rpartition("/")[2] == "gpu" and run.requests[name].any():
            return "GPUs", run.requests[name] * run.replicas
    if "cpu" in run.requests:
        return "cores", -(-run.requests["cpu"] * run.replicas // 1000)
    return "pods", run.replicas


def _class_name(number: int) -> str:
    low = 1 if number == 0 else _BOUNDS[number - 1] + 1
    if number == len(_BOUNDS):
        return f"≥ {low}"
    high = _BOUNDS[number]
    return str(high) if number == 0 else f"{low}–{high}"
