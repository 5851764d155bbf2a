"""Input of the preemption policy: queues with their numbers per partition, applications, containers and settings.

All of it is a snapshot, from which a round of preemption (`preemption.py`) chooses containers to take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from strato.interop.yarn.resources import Amounts

DEFAULT_PARTITION = ""


class IntraQueueOrder(StrEnum):
    """Order in which applications' demand is served within a queue."""

    USER_LIMIT_FIRST = "userlimit_first"
    PRIORITY_FIRST = "priority_first"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionSettings:
    """The policy's settings, under `yarn.resourcemanager.monitor.capacity.preemption.` unless said otherwise."""

    observe_only: bool = False
    monitoring_interval_ms: int = 3000
    max_wait_before_kill_ms: int = 15000
    total_preemption_per_round: float = 0.1
    """Share of the cluster that one round may take."""
    max_ignored_over_capacity: float = 0.1
    """Excess over the guarantee, as a share of it, up to which nothing is taken from a queue."""
    natural_termination_factor: float = 0.2
    """Share of the wanted amount that one round takes, as containers also end by themselves."""
    select_based_on_reserved_containers: bool = False
    additional_res_balance_based_on_reserved_containers: bool = False
    balance_after_satisfied: bool = False
    balance_max_wait_before_kill_ms: int = 300_000
    intra_queue: bool = False
    intra_queue_order: IntraQueueOrder = IntraQueueOrder.USER_LIMIT_FIRST
    intra_queue_minimum_threshold: float = 0.5
    intra_queue_max_allowable_limit: float = 0.2
    conservative_drf: bool = False
    intra_queue_conservative_drf: bool = True
    lazy: bool = False
    """`yarn.scheduler.capacity.lazy-preemption-enabled`: after the wait, containers become killable, and are killed
    only when their resources are allocated to another one.
    """
    priority_reservations: bool = False
    """`…ordering-policy.priority-utilization.underutilized-preemption.enabled`"""
    reserved_container_delay_ms: int = 60_000
    allow_move_reservation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """The numbers of one queue on one partition."""

    guaranteed: Amounts
    maximum: Amounts
    used: Amounts
    pending: Amounts
    """Pending requests, those of each user counted up to the user limit."""
    pending_without_reserved: Amounts
    """Pending requests without those that have reserved a node."""
    reserved: Amounts
    killable: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafNumbers:
    """Numbers that only leaf queues have."""

    absolute_capacity: float = 0.0
    am_percent: float = 0.0
    """Share of the guarantee up to which AMs are spared when AMs have to be preempted too."""
    minimum_allocation: Amounts
    used_capacity: Mapping[str, float] = field(default_factory=dict)
    """Used share of the guarantee, per partition."""
    orders_fairly: bool = False
    intra_queue_disabled: bool = False
    user_limits: Mapping[str, Mapping[str, Amounts]] = field(default_factory=dict)
    """User limits by partition and user, computed over all users."""
    user_used: Mapping[str, Mapping[str, Amounts]] = field(default_factory=dict)
    """Usage by partition and user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionQueue:
    """A queue, on all partitions."""

    path: str
    numbers: Mapping[str, QueueNumbers]
    children: tuple[PreemptionQueue, ...] = ()
    leaf: LeafNumbers | None = None
    priority: int = 0
    """Its priority beside its siblings; 0 where the parent does not order by priority."""
    disabled: bool = False
    """Whether preemption from this queue is disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A running container, or a node's reservation for one."""

    key: str
    sequence: int
    """Order of creation over all containers: the larger, the newer."""
    app: str
    queue: str
    node: str
    partition: str
    """The node's partition."""
    amounts: Amounts
    priority: int = 0
    """Priority of the request; the larger number is the less important."""
    is_am: bool = False
    is_reserved: bool = False
    is_killable: bool = False
    ignores_exclusivity: bool = False
    """Whether it runs on a shared (non-exclusive) partition that it did not request."""
    created_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application, with its containers and reservations."""

    key: str
    sequence: int
    """Order of submission."""
    queue: str
    user: str
    priority: int = 0
    """Priority of the application; the larger number is the more important."""
    containers: tuple[Container, ...] = ()
    pending: Mapping[str, Amounts] = field(default_factory=dict)
    """Pending requests by partition."""
    used: Mapping[str, Amounts] = field(default_factory=dict)
    am_used: Mapping[str, Amounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNumbers:
    """A node of the cluster."""

    name: str
    partition: str
    total: Amounts
    used: Amounts
    killable: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The input of one round."""

    total: Amounts
    """Total resources of all nodes."""
    partitions: Mapping[str, Amounts]
    root: PreemptionQueue
    applications: Mapping[str, tuple[Application, ...]]
    """Applications by leaf queue, in the queue's serving order."""
    nodes: tuple[NodeNumbers, ...] = ()
    now_ms: int = 0
