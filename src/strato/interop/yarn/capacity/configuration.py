"""The Capacity Scheduler's configuration, as read and checked: a tree of queues, and the settings common to all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from strato.interop.yarn.capacity.arithmetic import BY_DOMINANT_SHARE, BY_MEMORY, Arithmetic
from strato.interop.yarn.capacity.notation import Capacity
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION, PreemptionSettings
from strato.interop.yarn.resources import LEAST, MOST_INT, Amounts, ResourceTypes

ROOT = "root"
ANY_LABEL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCreation:
    """Which queues placement may create below a parent."""

    is_managed: bool = False
    """`auto-create-child-queue.enabled` (version 1): one level of leaves, each with the template's capacity."""
    is_flexible: bool = False
    """`auto-queue-creation-v2.enabled`: parents and leaves, by weight."""
    most_queues: int = 1000
    most_levels: int = 2
    """Levels of created queues below a parent that was configured (version 2)."""
    removes_idle: bool = True
    fails_beyond_parent: bool = False
    """Whether version 1 refuses a queue for which the parent has no capacity left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfiguration:
    """One queue."""

    path: str
    children: tuple[QueueConfiguration, ...] = ()
    is_parent: bool = False
    """Whether the queue has children, or may get some; a parent takes no applications, even without children."""
    is_dynamic: bool = False
    """Whether it was created by placement (version 2)."""
    is_auto_created: bool = False
    """Whether it was created by placement below a managed parent (version 1)."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """Capacities by node label; the empty label is the default partition."""
    maximums: Mapping[str, Capacity] = field(default_factory=dict)
    user_limit_percent: float = 100.0
    user_limit_factor: float = 1.0
    user_weights: Mapping[str, float] = field(default_factory=dict)
    maximum_applications: int | None = None
    am_percents: Mapping[str, float] = field(default_factory=dict)
    max_parallel_apps: int = MOST_INT
    max_parallel_apps_per_user: int = MOST_INT
    max_parallel_apps_of: Mapping[str, int] = field(default_factory=dict)
    ordering_policy: str = "fifo"
    size_based_weight: bool = False
    exclusive_partitions: frozenset[str] = frozenset()
    """Partitions whose applications are ordered separately, under the policy `fifo-with-partitions`."""
    priority: int = 0
    default_application_priority: int = 0
    is_running: bool = True
    submit_acl: str = " "
    administer_acl: str = " "
    preemption_disabled: bool = True
    intra_queue_preemption_disabled: bool = True
    maximum_lifetime_seconds: int = -1
    default_lifetime_seconds: int = -1
    labels: frozenset[str] = frozenset()
    """Labels of the nodes that the queue may use; ``*`` is all."""
    default_label: str = DEFAULT_PARTITION
    auto_creation: AutoCreation = AutoCreation()
    allows_zero_sum: bool = False
    line: int = 0
    """Line of the queue's capacity in the file; 0 if the file does not have it."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def parent_path(self) -> str:
        """The path of its parent; empty for the root."""
        return self.path.rpartition(".")[0]

    def accesses(self, label: str) -> bool:
        """Return whether its applications may use nodes of a label."""
        return label == DEFAULT_PARTITION or ANY_LABEL in self.labels or label in self.labels

    def walk(self) -> Iterator[QueueConfiguration]:
        """Yield it and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityConfiguration:
    """The whole configuration."""

    root: QueueConfiguration
    types: ResourceTypes = field(default_factory=ResourceTypes)
    is_legacy: bool = True
    """`legacy-queue-mode`: whether siblings must all use one unit of capacity; else types may differ (vectors)."""
    is_dominant: bool = False
    minimum_allocation: Amounts = LEAST
    maximum_allocation: Amounts = (8192, 4)
    maximum_applications: int = 10000
    queue_maximum_applications: int | None = None
    """`global-queue-max-application`: the maximum of queues without their own."""
    looks_on_with_reservation: bool = True
    """`reservations-continue-look-all-nodes`: whether a container with a reserved node may start on another one."""
    node_locality_delay: int | None = None
    """Scheduling opportunities that a request skips before it takes other nodes of a rack; None if not set."""
    rack_locality_delay: int = -1
    """Further opportunities before it takes nodes of other racks; -1: the number depends on the size of the request."""
    preemption_enabled: bool = False
    preemption: PreemptionSettings = field(default_factory=PreemptionSettings)
    by_path: Mapping[str, QueueConfiguration] = field(default_factory=dict)

    @property
    def arithmetic(self) -> Arithmetic:
        """How amounts are compared and rounded."""
        return BY_DOMINANT_SHARE if self.is_dominant else BY_MEMORY
