"""`Progress`: how far a running simulation has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Time and counts of jobs and pods at one instant of a simulation."""

    virtual_seconds: float
    """Since the start of the trace."""
    submitted: int
    finished: int
    total: int
    running_pods: int
