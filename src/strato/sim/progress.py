"""Where a running simulation is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a simulation is."""

    virtual_seconds: float
    """After the start of the trace."""
    submitted: int
    finished: int
    total: int
    running_pods: int
