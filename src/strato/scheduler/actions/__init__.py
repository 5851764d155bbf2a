"""Actions: what a cycle does, in the order the configuration lists. Registered in one table."""

from __future__ import annotations

from strato.scheduler.actions.allocate import Allocate
from strato.scheduler.actions.backfill import Backfill
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.enqueue import Enqueue
from strato.scheduler.actions.gangevict import GangPreempt, GangReclaim
from strato.scheduler.actions.preempt import Preempt
from strato.scheduler.actions.reclaim import Reclaim
from strato.scheduler.actions.shuffle import Shuffle
from strato.scheduler.optimal.action import Flow

ACTIONS: dict[str, type[Action]] = {
    "allocate": Allocate,
    "backfill": Backfill,
    "enqueue": Enqueue,
    "flow": Flow,
    "gangpreempt": GangPreempt,
    "gangreclaim": GangReclaim,
    "preempt": Preempt,
    "reclaim": Reclaim,
    "shuffle": Shuffle,
}
"""Every action by its name in the configuration."""

__all__ = ["ACTIONS", "Action"]
