"""Defaults of Volcano Jobs: admission writes them, and the controller applies them where admission has not.

Source: volcano-api 16.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

DEFAULT_QUEUE = "default"
DEFAULT_RETRIES = 3
DEFAULT_SCHEDULER = "volcano"

_DISTRIBUTED = frozenset({"tensorflow", "mpi", "pytorch", "ray"})
"""Plugins whose pods reach each other by DNS name, and therefore need the plugin ``svc``."""


def task_name(index: int) -> str:
    """Return the name of a task that has none."""
    return f"default{index}"


def task_minimum(replicas: int, min_partitions: int, partition_size: int) -> int:
    """Return the default of a task's ``minAvailable``: its fewest partitions as pods, or all its pods."""
    return min_partitions * partition_size if min_partitions > 0 else replicas


def missing_plugins(plugins: Collection[str]) -> list[str]:
    """Return the plugins that named plugins need and that are not named themselves."""
    wanted = [] if _DISTRIBUTED.isdisjoint(plugins) else ["svc"]
    wanted += ["ssh"] if "mpi" in plugins else []
    return [name for name in wanted if name not in plugins]


def first_status(job: Mapping[str, Any], time: str) -> dict[str, Any] | None:
    """Return the first status of a job; None if admission has not set its defaults, as its controller writes it then.

    Args:
        job: The job to be stored, at least its spec.
        time: Its creation time, as text.
    """
    minimum = (job.get("spec") or {}).get("minAvailable")
    if not minimum:
        return None
    return {
        "minAvailable": minimum,
        "state": {"phase": "Pending", "lastTransitionTime": time},
        "conditions": [{"status": "Pending", "lastTransitionTime": time}],
    }
