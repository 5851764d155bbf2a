"""Asks cases of the Capacity Scheduler (formats: the collection's README)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from strato.interop.yarn.capacity.arithmetic import BY_DOMINANT_SHARE, BY_MEMORY
from strato.interop.yarn.capacity.userlimits import UserLimitInputs, user_limit
from tests.cases.yarnpreemption import proportional_preemption

Json = dict[str, Any]

_FOLDER = Path(os.environ.get("STRATO_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases") / "yarn"


@functools.cache
def _preemption_cases() -> tuple[Json, ...]:
    """Return all cases of preemption: later steps of a test recorded the events of earlier ones too."""
    found: list[Json] = []
    for path in sorted(_FOLDER.glob("*.json")):
        cases = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
        found += [case for case in cases if case["fn"] == "proportionalPreemption"]
    return tuple(found)


def check_preemption(case: Json) -> list[str]:
    """Compare one round of preemption."""
    return proportional_preemption(case, _preemption_cases())


def check_user_limit(case: Json) -> list[str]:
    """Compare the limits of a user of weight 1, among active and among all users."""
    given, want = case["input"], case["expect"]["result"]
    numbers = UserLimitInputs(
        partition=tuple(given["cluster"]),
        minimum_allocation=tuple(given["minimumAllocation"]),
        queue_capacity=tuple(given["queueCapacity"]),
        queue_maximum=tuple(given["queueMax"]),
        usage_ratio=given["usageRatio"],
        minimum_user_limit_percent=given["minimumUserLimitPercent"],
        user_limit_factor=given["userLimitFactor"],
        ignores_exclusivity=given.get("mode") == "IGNORE_PARTITION_EXCLUSIVITY",
    )
    arithmetic = BY_DOMINANT_SHARE if given.get("calculator") == "dominant" else BY_MEMORY
    used = tuple(given["usedByActiveUsers"])
    got = {
        "activeUsers": user_limit(numbers, arithmetic, used=used, weights=given["activeUsersWeightSum"]),
        "allUsers": user_limit(numbers, arithmetic, used=None, weights=given["allUsersWeightSum"]),
    }
    return [f"{name}: {got[name]}, expected {value}" for name, value in want.items() if got[name] != tuple(value)]


CHECKS: dict[str, Callable[[Json], list[str]]] = {
    "proportionalPreemption": check_preemption,
    "userLimit": check_user_limit,
}
"""By ``fn`` of a case what compares it."""
