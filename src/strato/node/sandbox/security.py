"""Apply a pod's ``securityContext`` on this machine as a kubelet does, or refuse the pod. Pure.

`refusal` returns why a pod cannot run here at all; `decide` returns what one container may do.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from strato.api.core import Container, Pod, SeccompProfile
from strato.node.predicates import PodRejection
from strato.node.sandbox import capabilities, seccomp
from strato.node.sandbox.container import RUNTIME_DEFAULT
from strato.node.sandbox.environment import ConfigProblem

UNSUPPORTED = "UnsupportedSecurityContext"
"""Reason of a pod whose security context this machine's isolation cannot provide."""
SYSCTL_FORBIDDEN, APP_ARMOR = "SysctlForbidden", "AppArmor"
_SAFE_SYSCTLS = frozenset(
    str.split(
        "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports "
        "net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range net.ipv4.tcp_fin_timeout "
        "net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_keepalive_time net.ipv4.tcp_rmem "
        "net.ipv4.tcp_syncookies net.ipv4.tcp_wmem"
    )
)
"""Kubernetes' safe sysctls, which affect only the pod."""
_MAX_PROFILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    """The isolation and rights that this machine gives the node."""

    isolation: str
    """``root``, ``user`` or ``plain``."""
    uid: int
    """User that the node runs as."""
    gid: int
    own_network: bool = True
    """Whether pods have their own network namespace."""
    held: frozenset[str] = capabilities.ALL
    """Capabilities that the node can give."""


@dataclass(frozen=True, slots=True)
class Security:
    """What one container may do, as `container.become` applies it."""

    uid: int | None = None
    """User; None for the node's own."""
    gid: int | None = None
    groups: tuple[int, ...] = ()
    set_groups: bool = True
    merge_groups: bool = False
    """Whether to add the user's groups in the image's ``/etc/group``."""
    capabilities: tuple[int, ...] | None = ()
    """Numbers of its capabilities; None leaves them unchanged, if the node itself has none."""
    no_new_privileges: bool = True
    seccomp: str = RUNTIME_DEFAULT
    """``RuntimeDefault``, a program in base64, or empty for none."""
    masked_paths: bool = True
    privileged: bool = False
    read_only_root: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the part of a container's specification that `container` reads."""
        return {
            "uid": self.uid,
            "gid": self.gid,
            "groups": list(self.groups),
            "setGroups": self.set_groups,
            "mergeGroups": self.merge_groups,
            "capabilities": None if self.capabilities is None else list(self.capabilities),
            "noNewPrivileges": self.no_new_privileges,
            "seccomp": self.seccomp,
        }


def refusal(pod: Pod, level: IsolationLevel) -> PodRejection | None:
    """Return why a pod cannot run here, None when it can."""
    sysctl = _forbidden_sysctl(pod)
    if sysctl:
        return PodRejection(SYSCTL_FORBIDDEN, f"forbidden sysctl: {sysctl}")
    if any(_app_armor_types(pod)):
        return PodRejection(APP_ARMOR, "Cannot enforce AppArmor: AppArmor is not enabled on the host")
    fields = [*_unsupported_of_pod(pod, level), *_unsupported_of_containers(pod, level)]
    if not fields:
        return None
    what = {
        "root": "the node lacks the right to",
        "user": "the node runs as an ordinary user",
        "plain": "this machine allows the node no namespaces",
    }[level.isolation]
    return PodRejection(UNSUPPORTED, f"{', '.join(fields)}: not possible here, because {what}")


def _forbidden_sysctl(pod: Pod) -> str:
    security, spec = pod.spec.security_context, pod.spec
    for sysctl in security.sysctls if security is not None else ():
        name = sysctl.name.replace("/", ".")
        if name.startswith("net.") and spec.host_network:
            return f'"{name}" not allowed with host net enabled'
        if name.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")) and spec.host_ipc:
            return f'"{name}" not allowed with host ipc enabled'
        if name not in _SAFE_SYSCTLS:
            return f'"{name}" not allowlisted'
    return ""


def _app_armor_types(pod: Pod) -> Iterator[bool]:
    """Yield for the pod and for each container whether it asks for a profile."""
    contexts = [pod.spec.security_context, *(c.security_context for c in _containers(pod))]
    for context in contexts:
        profile = context.app_armor_profile if context is not None else None
        yield profile is not None and profile.type not in ("", "Unconfined")


def _containers(pod: Pod) -> Sequence[Container]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _unsupported_of_pod(pod: Pod, level: IsolationLevel) -> Iterator[str]:
    security, spec, isolation = pod.spec.security_context, pod.spec, level.isolation
    if security is not None and security.sysctls:
        network = any(sysctl.name.startswith("net") for sysctl in security.sysctls)
        if isolation != "root" or (network and not level.own_network):
            yield "spec.securityContext.sysctls"
    if isolation == "root":
        return
    if security is not None and (isolation == "user" or level.uid != 0):
        if security.supplemental_groups:
            yield "spec.securityContext.supplementalGroups"
        if security.fs_group is not None:
            yield "spec.securityContext.fsGroup"
    if isolation == "user":
        if spec.host_pid:
            yield "spec.hostPID"
        if spec.share_process_namespace:
            yield "spec.shareProcessNamespace"
    elif spec.host_users is False:
        yield "spec.hostUsers"


def _unsupported_of_containers(pod: Pod, level: IsolationLevel) -> Iterator[str]:
    for kind, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers):
            for name in unsupported(pod, container, level):
                yield f"spec.{kind}[{index}].securityContext.{name}"


def unsupported(pod: Pod, container: Container, level: IsolationLevel) -> list[str]:
    """Return the fields of a container's security context that a node of this level does not support."""
    return list(_unsupported_of_container(pod, container, level))


def _unsupported_of_container(pod: Pod, container: Container, level: IsolationLevel) -> Iterator[str]:
    security = container.security_context
    has_root = level.uid == 0 and level.isolation != "user"
    if level.isolation == "plain" and not has_root:
        uid, gid = _user(pod, container)
        if uid not in (None, level.uid):
            yield "runAsUser"
        if gid not in (None, level.gid):
            yield "runAsGroup"
    if security is None:
        return
    if security.privileged and not has_root:
        yield "privileged"
    added = set(security.capabilities.add) if security.capabilities is not None else set()
    named = {name.upper().removeprefix("CAP_") for name in added} - {"ALL"}
    if has_root and (named & capabilities.ALL) - level.held:
        yield "capabilities.add"
    if added and not has_root and not (level.isolation == "user" and named <= capabilities.NAMESPACED):
        yield "capabilities.add"
    if security.read_only_root_filesystem and level.isolation == "plain":
        yield "readOnlyRootFilesystem"


def _user(pod: Pod, container: Container) -> tuple[int | None, int | None]:
    own, whole = container.security_context, pod.spec.security_context
    return (
        _first(own.run_as_user if own else None, whole.run_as_user if whole else None),
        _first(own.run_as_group if own else None, whole.run_as_group if whole else None),
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


@dataclass(frozen=True, slots=True)
class ImageUser:
    """The user of an image's containers, unless the pod's spec sets one."""

    uid: int | None = None
    gid: int | None = None
    name: str = ""
    """Name of the user in the image's configuration; empty if that is a number."""


def decide(
    pod: Pod, container: Container, level: IsolationLevel, profiles: str, image_user: ImageUser = ImageUser()
) -> Security:
    """Return what a container may do.

    Args:
        pod: The pod, which `refusal` has accepted.
        container: A container of the pod.
        level: The isolation and rights that this machine gives the node.
        profiles: Directory of the seccomp profiles that pods may name.
        image_user: User of the container's image.

    Raises:
        ConfigProblem: The security context contradicts itself, or names a profile that does not exist.
    """
    own, whole = container.security_context, pod.spec.security_context
    uid, gid = _user(pod, container)
    _check_non_root(pod, container, uid, image_user, level)
    if uid is None:
        uid, gid = image_user.uid, _first(gid, image_user.gid)
    privileged = bool(own and own.privileged)
    granted = _capabilities(container, privileged=privileged)
    escalates = bool(own and own.allow_privilege_escalation) or privileged or "SYS_ADMIN" in granted
    plain_user = level.isolation == "plain" and level.uid != 0
    profile = (own.seccomp_profile if own else None) or (whole.seccomp_profile if whole else None)
    groups = (*whole.supplemental_groups, *_fs_group(pod)) if whole else ()
    if level.isolation == "root" or (level.isolation == "plain" and level.uid == 0):
        uid = 0 if uid is None else uid
    if gid is None and uid is not None and not plain_user:
        gid = 0
    return Security(
        uid=uid,
        gid=gid,
        groups=groups,
        set_groups=level.isolation != "user" and not plain_user,
        merge_groups=whole is None or whole.supplemental_groups_policy != "Strict",
        capabilities=None if plain_user else tuple(sorted(capabilities.NUMBERS[name] for name in granted)),
        no_new_privileges=not escalates or plain_user,
        seccomp=_seccomp(profile, profiles, privileged=privileged),
        masked_paths=not privileged and (own is None or own.proc_mount != "Unmasked"),
        privileged=privileged,
        read_only_root=bool(own and own.read_only_root_filesystem),
    )


def _fs_group(pod: Pod) -> tuple[int, ...]:
    security = pod.spec.security_context
    return (security.fs_group,) if security is not None and security.fs_group is not None else ()


def _check_non_root(pod: Pod, container: Container, uid: int | None, image: ImageUser, level: IsolationLevel) -> None:
    own, whole = container.security_context, pod.spec.security_context
    wanted = own.run_as_non_root if own is not None else None
    if wanted is None:
        wanted = whole.run_as_non_root if whole is not None else None
    if not wanted:
        return
    meta = pod.metadata
    where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    if uid == 0:
        raise ConfigProblem(f"container's runAsUser breaks non-root policy {where}")
    if uid is None and image.name:
        message = f"container has runAsNonRoot and image has non-numeric user ({image.name}), cannot verify user is"
        raise ConfigProblem(f"{message} non-root {where}")
    if uid is None and not image.uid and not (level.isolation == "plain" and level.uid != 0):
        raise ConfigProblem(f"container has runAsNonRoot and image will run as root {where}")


def _capabilities(container: Container, *, privileged: bool) -> frozenset[str]:
    security = container.security_context
    if privileged:
        return capabilities.ALL
    if security is None or security.capabilities is None:
        return capabilities.DEFAULT
    try:
        return capabilities.choose(security.capabilities.add, security.capabilities.drop)
    except KeyError as err:
        raise ConfigProblem(f"container {container.name}: unknown capability {err.args[0]!r}") from None


def _seccomp(profile: SeccompProfile | None, profiles: str, *, privileged: bool) -> str:
    kind = profile.type if profile is not None else ""
    if privileged or kind == "Unconfined":
        return ""
    if profile is None or kind in ("", RUNTIME_DEFAULT):
        return RUNTIME_DEFAULT
    if kind != "Localhost":
        raise ConfigProblem(f"unknown seccomp profile type {kind!r}")
    return base64.b64encode(_localhost_program(profile.localhost_profile, profiles)).decode()


def _localhost_program(name: str, profiles: str) -> bytes:
    """Read and assemble a seccomp profile of the operator."""
    if not name or name.startswith("/") or ".." in name.split("/"):
        raise ConfigProblem(f"seccomp profile {name!r} must be a path below {profiles}")
    path = os.path.realpath(os.path.join(profiles, name))
    if not path.startswith(os.path.realpath(profiles) + os.sep):
        raise ConfigProblem(f"seccomp profile {name!r} leads out of {profiles}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigProblem(f"seccomp profile {path} is no regular file")
            found = json.loads(file.read(_MAX_PROFILE_BYTES))
    except OSError as err:
        raise ConfigProblem(f"cannot load seccomp profile {path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise ConfigProblem(f"seccomp profile {path} is no JSON: {err}") from None
    try:
        if not isinstance(found, dict):
            raise seccomp.ProfileProblem("it is no object")
        return seccomp.from_profile(found)
    except seccomp.ProfileProblem as err:
        raise ConfigProblem(f"seccomp profile {path}: {err}") from None
