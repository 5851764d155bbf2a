"""What a Volcano Job that leaves something out means; admission writes it, the controller reads jobs so.

Source: volcano-api 16.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

DEFAULT_QUEUE = "default"
DEFAULT_RETRIES = 3
DEFAULT_SCHEDULER = "volcano"

_DISTRIBUTED = frozenset({"tensorflow", "mpi", "pytorch", "ray"})
"""Plugins whose pods find each other by name, and so need ``svc``."""


def task_name(index: int) -> str:
    """Return the name of a task that has none."""
    return f"default{index}"


def task_minimum(replicas: int, min_partitions: int, partition_size: int) -> int:
    """Return a task's ``minAvailable``: its least number of whole partitions, or all its pods."""
    return min_partitions * partition_size if min_partitions > 0 else replicas


def missing_plugins(plugins: Collection[str]) -> list[str]:
    """Return the plugins that others need and that are not named."""
    wanted = [] if _DISTRIBUTED.isdisjoint(plugins) else ["svc"]
    wanted += ["ssh"] if "mpi" in plugins else []
    return [name for name in wanted if name not in plugins]


def first_status(job: Mapping[str, Any], time: str) -> dict[str, Any] | None:
    """Return the status a job begins with; None when admission did not complete it: then its controller writes it.

    Args:
        job: As it is stored, at least its spec.
        time: Of its creation, as it is written.
    """
    minimum = (job.get("spec") or {}).get("minAvailable")
    if not minimum:
        return None
    return {
        "minAvailable": minimum,
        "state": {"phase": "Pending", "lastTransitionTime": time},
        "conditions": [{"status": "Pending", "lastTransitionTime": time}],
    }
