"""Pods: spec and status."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.core.affinity import Affinity, Toleration, TopologySpreadConstraint
from strato.api.core.container import (
    AppArmorProfile,
    Container,
    ContainerStatus,
    EphemeralContainer,
    ResourceRequirements,
    SeccompProfile,
)
from strato.api.core.volumes import Volume
from strato.api.meta import Condition, Object, ObjectMeta, View
from strato.api.shapes import EMPTY, LocalObjectReference, ObjectReference, ResourceList


class PodSchedulingGate(View, frozen=True, kw_only=True):
    """A name that keeps the pod from being scheduled."""

    name: str = ""


class PodReadinessGate(View, frozen=True, kw_only=True):
    """A condition, written by another component, that must be True for the pod to be Ready."""

    condition_type: str = ""


class PodResourceClaim(View, frozen=True, kw_only=True):
    """``spec.resourceClaims[]``: a claim by name, or one made from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodResourceClaimStatus(View, frozen=True, kw_only=True):
    """Which claim was made for an entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str = ""


class HostAlias(View, frozen=True, kw_only=True):
    """A line of ``/etc/hosts``."""

    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(View, frozen=True, kw_only=True):
    """An option of ``resolv.conf``."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(View, frozen=True, kw_only=True):
    """``spec.dnsConfig``."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class Sysctl(View, frozen=True, kw_only=True):
    """A setting of the kernel's."""

    name: str = ""
    value: str = ""


class PodSecurityContext(View, frozen=True, kw_only=True):
    """``spec.securityContext``."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = ""
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    sysctls: tuple[Sysctl, ...] = ()


class PodSpec(View, frozen=True, kw_only=True):
    """``spec`` of a pod or a pod template."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = "Always"
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    overhead: ResourceList = EMPTY
    resources: ResourceRequirements | None = None
    """Pod-level resources."""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    host_users: bool | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    dns_policy: str = ""
    dns_config: PodDNSConfig | None = None
    set_hostname_as_fqdn: bool = msgspec.field(default=False, name="setHostnameAsFQDN")
    share_process_namespace: bool = False
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    enable_service_links: bool = True
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    runtime_class_name: str = ""
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, main containers, and ephemeral containers."""
        return (*self.init_containers, *self.containers, *self.ephemeral_containers)


class PodIP(View, frozen=True, kw_only=True):
    """One address."""

    ip: str = ""


class PodStatus(View, frozen=True, kw_only=True):
    """``status``."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    """Pod-level resources that it has."""
    allocated_resources: ResourceList = EMPTY
    qos_class: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    observed_generation: int = 0

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        for condition in self.conditions:
            if condition.type == type_:
                return condition
        return None


class Pod(Object, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_finished(self) -> bool:
        """Whether its phase is final."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_awaited(self) -> bool:
        """Whether a finalizer keeps the deleted pod whose final phase is not known yet."""
        return bool(self.metadata.finalizers) and not self.is_finished

    @property
    def is_ready(self) -> bool:
        """Whether its Ready condition is True."""
        condition = self.status.condition("Ready")
        return condition is not None and condition.status == "True"


class PodTemplateSpec(View, frozen=True, kw_only=True):
    """A pod to be made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Object, frozen=True, kw_only=True):
    """``v1.PodTemplate``."""

    template: PodTemplateSpec = PodTemplateSpec()


class Binding(Object, frozen=True, kw_only=True):
    """The body that puts a pod on a node."""

    target: ObjectReference = ObjectReference()
