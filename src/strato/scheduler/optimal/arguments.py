"""The arguments of the action `flow`."""

from __future__ import annotations

from dataclasses import dataclass

from strato.scheduler.actions.base import CommonArgs
from strato.scheduler.framework.arguments import arg


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowArgs(CommonArgs):
    """Arguments of the action."""

    passes: int = arg("passes", 8, minimum=1)
    """Most networks built in a cycle; each places tasks for which nodes had no room in the last. Default 8."""
    preemption: bool = arg("preemption", False)
    """Whether pods of lower priority in the same queue may be evicted for starving jobs. Default false."""
    migration: bool = arg("migration", False)
    """Whether pods that their owner replaces may be evicted to run again elsewhere, which makes room. Default false."""
    min_gain: float = arg("minGain", 0.1, minimum=0.0)
    """Least gain of evictions for a job, in node-hours: an average node busy for an hour with work of priority 0 (see
    `strato.scheduler.optimal.gains`); only more than this counts. Default 0.1: six minutes of a node."""
