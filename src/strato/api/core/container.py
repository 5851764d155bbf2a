"""A container: its spec and its status."""

from __future__ import annotations

import msgspec

from strato.api.core.volumes import ObjectFieldSelector, ResourceFieldSelector, VolumeMount
from strato.api.meta import View
from strato.api.shapes import EMPTY, IntOrString, ResourceList


class ContainerPort(View, frozen=True, kw_only=True):
    """``ports[]``."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class KeySelector(View, frozen=True, kw_only=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class EnvVarSource(View, frozen=True, kw_only=True):
    """``valueFrom``."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(View, frozen=True, kw_only=True):
    """One environment variable."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvSourceRef(View, frozen=True, kw_only=True):
    """An object all of whose keys become variables."""

    name: str = ""
    optional: bool = False


class EnvFromSource(View, frozen=True, kw_only=True):
    """``envFrom[]``."""

    prefix: str = ""
    config_map_ref: EnvSourceRef | None = None
    secret_ref: EnvSourceRef | None = None


class ResourceClaimName(View, frozen=True, kw_only=True):
    """A claim of ``spec.resourceClaims`` that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(View, frozen=True, kw_only=True):
    """``resources``."""

    requests: ResourceList = EMPTY
    limits: ResourceList = EMPTY
    claims: tuple[ResourceClaimName, ...] = ()


class ContainerResizePolicy(View, frozen=True, kw_only=True):
    """``resizePolicy[]``: whether a container is restarted when a resource of it changes."""

    resource_name: str = ""
    restart_policy: str = ""


class ExecAction(View, frozen=True, kw_only=True):
    """A command run in the container."""

    command: tuple[str, ...] = ()


class HTTPHeader(View, frozen=True, kw_only=True):
    """One header."""

    name: str = ""
    value: str = ""


class HTTPGetAction(View, frozen=True, kw_only=True):
    """An HTTP request that should succeed."""

    path: str = "/"
    port: IntOrString = 0
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(View, frozen=True, kw_only=True):
    """A port that should accept a connection."""

    port: IntOrString = 0
    host: str = ""


class SleepAction(View, frozen=True, kw_only=True):
    """Waiting before the container is stopped."""

    seconds: int = 0


class LifecycleHandler(View, frozen=True, kw_only=True):
    """A hook."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(View, frozen=True, kw_only=True):
    """``lifecycle``."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None


class GRPCAction(View, frozen=True, kw_only=True):
    """A health check of a gRPC service."""

    port: int = 0
    service: str = ""


class Probe(View, frozen=True, kw_only=True):
    """A probe; times in seconds."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Capabilities(View, frozen=True, kw_only=True):
    """Linux capabilities to add and drop."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(View, frozen=True, kw_only=True):
    """Which system calls are allowed: ``RuntimeDefault``, ``Unconfined`` or ``Localhost`` with a file."""

    type: str = ""
    localhost_profile: str = ""


class AppArmorProfile(View, frozen=True, kw_only=True):
    """An AppArmor profile: ``RuntimeDefault``, ``Unconfined`` or ``Localhost`` with a name."""

    type: str = ""
    localhost_profile: str = ""


class SecurityContext(View, frozen=True, kw_only=True):
    """``securityContext`` of a container."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    privileged: bool = False
    read_only_root_filesystem: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    proc_mount: str = ""


class Container(View, frozen=True, kw_only=True):
    """A container or init container (``restartPolicy: Always`` makes the latter a sidecar)."""

    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    restart_policy: str = ""
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    security_context: SecurityContext | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container, frozen=True, kw_only=True):
    """A container that is started in a running pod for debugging; it never restarts."""

    target_container_name: str = ""
    """Container whose process namespace it joins; empty for its own."""


class StateWaiting(View, frozen=True, kw_only=True):
    """Not started yet."""

    reason: str = ""
    message: str = ""


class StateRunning(View, frozen=True, kw_only=True):
    """Running since."""

    started_at: str | None = None


class StateTerminated(View, frozen=True, kw_only=True):
    """Ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(View, frozen=True, kw_only=True):
    """At most one of the three; none means waiting."""

    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    """``containerStatuses[]``, ``initContainerStatuses[]`` and ``ephemeralContainerStatuses[]``."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    allocated_resources: ResourceList = EMPTY
    resources: ResourceRequirements | None = None
