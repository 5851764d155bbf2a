"""`SchedulerOptions`: settings of a scheduler that are no policy, from flags and the environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from strato.scheduler.cache.accounts import DEFAULT_QUEUE, DEFAULT_SCHEDULER, FLOW_SCHEDULER
from strato.scheduler.cache.journal import NO_JOURNAL, Journal
from strato.scheduler.cache.replicas import Replicas
from strato.scheduler.cache.shards import NONE
from strato.scheduler.model.tasks import AGENT_SCHEDULER
from strato.scheduler.shadow.service import ShadowOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Options of a scheduler."""

    names: Sequence[str] = ("volcano", DEFAULT_SCHEDULER, FLOW_SCHEDULER, AGENT_SCHEDULER)
    """Values of ``spec.schedulerName`` served."""
    default_queue: str = DEFAULT_QUEUE
    """Queue of PodGroups that name none; made, with ``root``, at start."""
    period_seconds: float = 1.0
    """Period of what depends on time: time-based plugins, the configuration file, statuses that only change counts."""
    rest: Callable[[], Awaitable[None]] | None = None
    """In virtual time, awaited before each cycle: returns when nothing else is to be done at this instant. None gathers
    changes for some milliseconds instead."""
    workers: int = 64
    """Number of writes in flight at a time."""
    shard_mode: str = NONE
    """How the own NodeShard is used, one of `strato.scheduler.cache.shards.MODES`."""
    shard_name: str = "volcano"
    """Name of the own NodeShard; pods of the agent scheduler, if served beside others, have one of that name."""
    node_labels: frozenset[tuple[str, str]] = frozenset()
    """Only nodes with one of these labels are used; empty is all nodes."""
    replicas: Replicas | None = None
    """The other active schedulers; None when there is one."""
    journal: Journal = NO_JOURNAL
    """Records the inputs and decisions of cycles; `NO_JOURNAL` records nothing."""
    shadow: ShadowOptions | None = None
    """A second policy whose decisions are compared and never applied; None without one."""
    audit_seconds: float = 0.0
    """Period of the self-audit (see `strato.scheduler.cache.audit`); 0 turns it off."""

    @property
    def name(self) -> str:
        """Name of the scheduler: its only scheduler name, or volcano when it serves several."""
        return self.names[0] if len(self.names) == 1 else "volcano"

    @property
    def full_name(self) -> str:
        """Its name, with that of the replica where there are several."""
        return self.name if self.replicas is None else f"{self.name}-{self.replicas.name}"
