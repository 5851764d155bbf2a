"""Views of apps/v1."""

from __future__ import annotations

import msgspec

from strato.api.core.pod import PodTemplateSpec
from strato.api.core.volumes import PersistentVolumeClaim
from strato.api.meta import Condition, Object, View
from strato.api.shapes import IntOrString, LabelSelector


class RollingUpdate(View, frozen=True, kw_only=True):
    """How many pods may be missing or surplus while updating."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: int = 0


class UpdateStrategy(View, frozen=True, kw_only=True):
    """``strategy`` of a Deployment, ``updateStrategy`` of the others."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int = 600


class DeploymentCondition(Condition, frozen=True, kw_only=True):
    """``status.conditions[]``; a rollout's progress deadline counts from ``lastUpdateTime``."""

    last_update_time: str | None = None


class DeploymentStatus(View, frozen=True, kw_only=True):
    """``status``."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(Object, frozen=True, kw_only=True):
    """A deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: int = 0


class ReplicaSetStatus(View, frozen=True, kw_only=True):
    """``status``."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object, frozen=True, kw_only=True):
    """A replica set."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class Ordinals(View, frozen=True, kw_only=True):
    """Numbers of the pods."""

    start: int = 0


class ClaimRetention(View, frozen=True, kw_only=True):
    """What happens to claims when the set is deleted or scaled down: ``Retain`` or ``Delete``."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    ordinals: Ordinals | None = None
    claim_retention: ClaimRetention = msgspec.field(
        default=ClaimRetention(), name="persistentVolumeClaimRetentionPolicy"
    )


class StatefulSetStatus(View, frozen=True, kw_only=True):
    """``status``."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(Object, frozen=True, kw_only=True):
    """A stateful set."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(View, frozen=True, kw_only=True):
    """``status``."""

    observed_generation: int = 0
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(Object, frozen=True, kw_only=True):
    """A daemon set."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(Object, frozen=True, kw_only=True):
    """A stored previous template; its ``data`` is any JSON, which the controllers of workloads read themselves."""

    revision: int = 0
