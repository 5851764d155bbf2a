"""The arguments of the action `flow`."""

from __future__ import annotations

from dataclasses import dataclass

from strato.scheduler.actions.base import CommonArgs
from strato.scheduler.framework.arguments import arg


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowArgs(CommonArgs):
    """Arguments of the action."""

    passes: int = arg("passes", 8, minimum=1)
    """Most networks solved from new in a cycle; each places what the last one's vectors refused. Default 8."""
    preemption: bool = arg("preemption", False)
    """Whether starving jobs may take the places of less important ones of their queue. Default false."""
    migration: bool = arg("migration", False)
    """Whether pods that their owner replaces may be started again elsewhere to make room. Default false."""
    min_gain: float = arg("minGain", 0.1, minimum=0.0)
    """Least gain of evictions for a job, in node-hours: an average node busy for an hour with work of priority 0 (see
    `strato.scheduler.optimal.gains`); only more than this counts. Default 0.1: six minutes of a node."""
