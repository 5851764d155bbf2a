"""Rules of ``securityContext`` of pods and containers, in Kubernetes' wording."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strato.api.meta import Json
from strato.api.status import duplicate, forbidden_field, invalid_value, not_supported, required, too_long
from strato.api.validation.volumes import check_descending
from strato.errors import Cause

SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
"""Annotations; the second one is followed by a container's name."""
_SECCOMP = "seccomp.security.alpha.kubernetes.io/"
SECCOMP_ANNOTATIONS = (SECCOMP_OF_POD, SECCOMP_OF_CONTAINER)
_LARGEST_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_PATTERN = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL_SEGMENT = re.compile(r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?")
_SYSCTL_LENGTH = 253
_APPARMOR_LENGTH = 4095
_IPC_PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def validate_pod_security(spec: Json, field: str, causes: list[Cause]) -> None:
    """Check the security members of a pod spec, without those of containers; appends to ``causes``."""
    security = spec.get("securityContext")
    if security:
        _validate_pod_context(spec, security, f"{field}.securityContext", causes)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid_value(f"{field}.securityContext.shareProcessNamespace", True, text))
    if spec.get("hostUsers") is False:
        _validate_user_namespace(spec, field, causes)


def validate_container_security(security: Json, field: str, host_users: bool, causes: list[Cause]) -> None:
    """Check a container's ``securityContext``; appends to ``causes``.

    Args:
        security: The container's ``securityContext``.
        field: Its path.
        host_users: Whether the pod shares the machine's user namespace.
        causes: Gets the problems.
    """
    _validate_ids(security, ("runAsUser", "runAsGroup"), field, causes)
    mount = security.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        causes.append(not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    elif mount == "Unmasked" and host_users:
        causes.append(invalid_value(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    _validate_profiles(security, field, causes)
    if security.get("allowPrivilegeEscalation") is False:
        if security.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(invalid_value(field, security, text))
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            causes.append(invalid_value(field, security, text))


def _validate_pod_context(spec: Json, security: Json, field: str, causes: list[Cause]) -> None:
    _validate_ids(security, ("fsGroup", "runAsUser", "runAsGroup"), field, causes)
    for index, group in enumerate(security.get("supplementalGroups") or ()):
        _validate_id(group, f"{field}.supplementalGroups[{index}]", causes)
    if security.get("sysctls"):
        _validate_sysctls(spec, security["sysctls"], f"{field}.sysctls", causes)
    for member, known in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("Recursive",)),
    ):
        value = security.get(member)
        if value is not None and value not in known:
            causes.append(not_supported(f"{field}.{member}", value, known))
    _validate_profiles(security, field, causes)


def _validate_user_namespace(spec: Json, field: str, causes: list[Cause]) -> None:
    shared = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    for member, name in shared:
        if spec.get(member):
            causes.append(forbidden_field(f"{field}.{name}", "when `hostUsers` is false"))
    for member in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(member) or ()):
            if container.get("volumeDevices"):
                place = f"{field}.{member}[{index}].volumeDevices"
                causes.append(forbidden_field(place, "when `hostUsers` is false"))


def _validate_ids(security: Json, members: Sequence[str], field: str, causes: list[Cause]) -> None:
    for member in members:
        value = security.get(member)
        if value is not None:
            _validate_id(value, f"{field}.{member}", causes)


def _validate_id(value: int, field: str, causes: list[Cause]) -> None:
    if not 0 <= value <= _LARGEST_ID:
        causes.append(invalid_value(field, value, f"must be between 0 and {_LARGEST_ID}, inclusive"))


def _validate_sysctls(spec: Json, sysctls: Sequence[Json], field: str, causes: list[Cause]) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, place = sysctl.get("name") or "", f"{field}[{index}].name"
        if not name:
            causes.append(required(place))
        elif not _is_sysctl(name):
            text = f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL_PATTERN}"
            causes.append(invalid_value(place, name, text))
        elif name in seen:
            causes.append(duplicate(place, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            causes.append(invalid_value(place, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_PREFIXES) or dotted == "kernel.sem"):
            causes.append(invalid_value(place, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)


def _is_sysctl(name: str) -> bool:
    # segment by segment, because one pattern for the whole name would backtrack
    return len(name) <= _SYSCTL_LENGTH and all(_SYSCTL_SEGMENT.fullmatch(part) for part in re.split(r"[./]", name))


def _validate_profiles(security: Json, field: str, causes: list[Cause]) -> None:
    seccomp, apparmor = security.get("seccompProfile"), security.get("appArmorProfile")
    if seccomp is not None:
        place = f"{field}.seccompProfile"
        _validate_profile_type(seccomp, place, "seccompProfile", causes)
        path = seccomp.get("localhostProfile")
        if seccomp.get("type") != "Localhost":
            if path is not None:
                text = "can only be set when seccomp type is Localhost"
                causes.append(invalid_value(f"{place}.localhostProfile", seccomp, text))
        elif path is None:
            causes.append(required(f"{place}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            check_descending(path, f"{place}.localhostProfile", causes)
    if apparmor is not None:
        place = f"{field}.appArmorProfile"
        _validate_profile_type(apparmor, place, "appArmorProfile", causes)
        _validate_apparmor_name(apparmor, f"{place}.localhostProfile", causes)


def validate_seccomp_annotations(annotations: Json, field: str, causes: list[Cause]) -> None:
    """Check the annotations that named profiles before there were fields for them; they have no effect."""
    if _SECCOMP not in "".join(annotations):  # on the path of every pod: one search for all of them
        return
    for key, profile in annotations.items():
        if key == SECCOMP_OF_POD or key.startswith(SECCOMP_OF_CONTAINER):
            at = f"{field}.{key}"
            if profile.startswith("localhost/"):
                check_descending(profile.removeprefix("localhost/"), at, causes)
            elif profile not in ("runtime/default", "docker/default", "unconfined"):
                causes.append(invalid_value(at, profile, "must be a valid seccomp profile"))


def _validate_profile_type(profile: Json, field: str, member: str, causes: list[Cause]) -> None:
    kind = profile.get("type")
    if not kind:
        causes.append(required(f"{field}.type", f"type is required when {member} is set"))
    elif kind not in _PROFILES:
        causes.append(not_supported(f"{field}.type", kind, _PROFILES))


def _validate_apparmor_name(profile: Json, field: str, causes: list[Cause]) -> None:
    name, kind = profile.get("localhostProfile"), profile.get("type")
    if kind == "Localhost":
        if not name:
            causes.append(required(field, "must be set when AppArmor type is Localhost"))
        elif name != name.strip():
            causes.append(invalid_value(field, name, "must not be padded with whitespace"))
        if name and len(name) > _APPARMOR_LENGTH:
            causes.append(too_long(field, _APPARMOR_LENGTH))
    elif name is not None and kind in _PROFILES:
        causes.append(invalid_value(field, name, "can only be set when AppArmor type is Localhost"))
