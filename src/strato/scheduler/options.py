"""`SchedulerOptions`: what a scheduler needs besides its configuration; from flags and the environment."""

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
    """Time between looks at the clock: time-based plugins, the configuration file, mere counters."""
    rest: Callable[[], Awaitable[None]] | None = None
    """Waits before a cycle, in virtual time, until nothing else is left to do at this instant; None gathers changes for
    some milliseconds."""
    workers: int = 64
    """Writes under way at once."""
    shard_mode: str = NONE
    """How the own NodeShard is used, one of `strato.scheduler.cache.shards.MODES`."""
    shard_name: str = "volcano"
    """Name of the own NodeShard; pods of the agent scheduler have one of that name, beside others."""
    node_labels: frozenset[tuple[str, str]] = frozenset()
    """Only nodes with one of these labels are used; empty is all nodes."""
    replicas: Replicas | None = None
    """The other active schedulers; None when there is one."""
    journal: Journal = NO_JOURNAL
    """Notes what the scheduler knows and decides; None without one."""
    shadow: ShadowOptions | None = None
    """A second policy that decides too, and of which nothing is applied; None without one."""
    audit_seconds: float = 0.0
    """Time between looks of the self-audit (see `strato.scheduler.cache.audit`); 0 does without."""

    @property
    def name(self) -> str:
        """What a scheduler of these names is called: by its only one, else volcano."""
        return self.names[0] if len(self.names) == 1 else "volcano"

    @property
    def full_name(self) -> str:
        """What it is called among its replicas."""
        return self.name if self.replicas is None else f"{self.name}-{self.replicas.name}"
