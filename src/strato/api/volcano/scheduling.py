"""Views of scheduling.volcano.sh/v1beta1: PodGroup and Queue (spec volcano-api 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import EMPTY, LabelSelector, ResourceList

QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
"""Annotation of a pod, of a job other than Volcano's, or of a namespace: the queue of its PodGroups."""
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
"""Annotation of a pod: the name of its PodGroup; our controllers write this one."""
POD_GROUP_ANNOTATIONS = (GROUP_ANNOTATION, "scheduling.volcano.sh/group-name")
"""The annotations that are read; the first one present counts."""
ELASTIC_ANNOTATION = "strato.io/elastic"
"""Annotation of a PodGroup, ``true``: its pods beyond ``minMember`` are evicted before pods of other groups."""
GROUP_NOT_ADMITTED = ("", "Pending")
"""Phases of a PodGroup that is not admitted to its queue."""
GROUP_NOT_STARTED = (*GROUP_NOT_ADMITTED, "Inqueue")
"""Phases of a PodGroup that waits for admission or for places."""


class NetworkTopologySpec(View, frozen=True, kw_only=True):
    """How far apart the pods may be (spec 2.1)."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicySpec(View, frozen=True, kw_only=True):
    """A secondary grouping."""

    name: str = ""
    network_topology: NetworkTopologySpec | None = None
    sub_group_size: int = 1
    min_sub_groups: int = 0
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(View, frozen=True, kw_only=True):
    """``spec``. Absent ``minResources`` (None) means that the group may always be enqueued."""

    min_member: int = 0
    min_task_member: Mapping[str, int] = EMPTY
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: tuple[SubGroupPolicySpec, ...] = ()


class PodGroupCondition(View, frozen=True, kw_only=True):
    """``status.conditions[]``."""

    type: str = ""
    status: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(View, frozen=True, kw_only=True):
    """``status``; written through the main resource, there is no status subresource."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(Object, frozen=True, kw_only=True):
    """A gang."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(View, frozen=True, kw_only=True):
    """Resources kept for the queue."""

    resource: ResourceList = EMPTY


class ExtendCluster(View, frozen=True, kw_only=True):
    """Another cluster that jobs of the queue may be forwarded to."""

    name: str = ""
    weight: int = 0
    capacity: ResourceList = EMPTY


class NodeGroupAffinity(View, frozen=True, kw_only=True):
    """Names of node groups."""

    required: tuple[str, ...] = msgspec.field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[str, ...] = msgspec.field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(View, frozen=True, kw_only=True):
    """Which node groups the queue uses."""

    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class QueueSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    weight: int = 1
    capability: ResourceList = EMPTY
    deserved: ResourceList = EMPTY
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    extend_clusters: tuple[ExtendCluster, ...] = ()
    affinity: QueueAffinity | None = None
    type: str = ""
    parent: str = ""
    priority: int = 0
    dequeue_strategy: str = "traverse"


class Reservation(View, frozen=True, kw_only=True):
    """``status.reservation``."""

    nodes: tuple[str, ...] = ()
    resource: ResourceList = EMPTY


class QueueStatus(View, frozen=True, kw_only=True):
    """``status``."""

    state: str = ""
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0
    reservation: Reservation = Reservation()
    allocated: ResourceList = EMPTY


class Queue(Object, frozen=True, kw_only=True):
    """A queue."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
