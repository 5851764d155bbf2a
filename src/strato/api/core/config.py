"""Namespaces, configuration, identities, quotas and events of the core group."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.core.pod import PodTemplateSpec
from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, LocalObjectReference, ObjectReference, ResourceList


class NamespaceSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True, kw_only=True):
    """``status``."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object, frozen=True, kw_only=True):
    """Configuration; binary values are base64 text."""

    data: Mapping[str, str] = EMPTY
    binary_data: Mapping[str, str] = EMPTY
    immutable: bool = False


class Secret(Object, frozen=True, kw_only=True):
    """A secret; all values are base64 text."""

    data: Mapping[str, str] = EMPTY
    type: str = ""
    immutable: bool = False


class ServiceAccount(Object, frozen=True, kw_only=True):
    """An identity of pods."""

    secrets: tuple[ObjectReference, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class EventSource(View, frozen=True, kw_only=True):
    """The component that reported it."""

    component: str = ""
    host: str = ""


class EventSeries(View, frozen=True, kw_only=True):
    """How often a repeated event has occurred."""

    count: int = 0
    last_observed_time: str | None = None


class Event(Object, frozen=True, kw_only=True):
    """``v1.Event``."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


class ScopeSelector(View, frozen=True, kw_only=True):
    """Which pods a quota counts."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class ScopeRequirement(View, frozen=True, kw_only=True):
    """One requirement of a quota's scope."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ResourceQuotaSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    hard: ResourceList = EMPTY
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(View, frozen=True, kw_only=True):
    """``status``."""

    hard: ResourceList = EMPTY
    used: ResourceList = EMPTY


class ResourceQuota(Object, frozen=True, kw_only=True):
    """A quota of a namespace."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(View, frozen=True, kw_only=True):
    """Bounds and defaults for one type: Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    max: ResourceList = EMPTY
    min: ResourceList = EMPTY
    default: ResourceList = EMPTY
    default_request: ResourceList = EMPTY
    max_limit_request_ratio: ResourceList = EMPTY


class LimitRangeSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object, frozen=True, kw_only=True):
    """Bounds and defaults of the resources of pods in a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class ReplicationControllerSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicas: int = 1
    selector: Mapping[str, str] = EMPTY
    template: PodTemplateSpec | None = None
    min_ready_seconds: int = 0


class ReplicationControllerStatus(View, frozen=True, kw_only=True):
    """``status``."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Object, frozen=True, kw_only=True):
    """The predecessor of ReplicaSet."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class ComponentStatus(Object, frozen=True, kw_only=True):
    """Health of a component; deprecated upstream, but old clients still read it."""

    conditions: tuple[Condition, ...] = ()
