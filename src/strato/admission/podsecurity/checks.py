"""The pod security standards: what ``baseline`` and ``restricted`` forbid, by Kubernetes version.

Each check is a pure function of a pod's metadata and spec that returns a violation or None. `CHECKS` gives the level of
each, the version from which on it applies, and the baseline check that it replaces.

Source: Kubernetes' Pod Security Standards; messages are those of its admission plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strato.admission.podsecurity.policy import PodSecurityLevel, Standard
from strato.admission.podsecurity.subjects import Json, containers, named, plural, quoted, security, who_sets


class Violation(NamedTuple):
    """Why a check refuses a pod."""

    reason: str
    detail: str


Check = Callable[[Json, Json], Violation | None]
"""Judges a pod by its metadata and its spec."""

APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"

_DEFAULT_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_VOLUME_TYPES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_CONFINED = frozenset(("RuntimeDefault", "Localhost"))


def _unless_windows(check: Check) -> Check:
    """Exempt Windows pods from a check, because their specs cannot have these fields."""

    def checked(metadata: Json, spec: Json) -> Violation | None:
        return None if (spec.get("os") or {}).get("name") == "windows" else check(metadata, spec)

    return checked


def _unless_user_namespace(check: Check) -> Check:
    """Exempt pods with a user namespace from a check, because their root user has no rights outside of it."""

    def checked(metadata: Json, spec: Json) -> Violation | None:
        return None if spec.get("hostUsers") is False else check(metadata, spec)

    return checked


# Baseline


def _apparmor(metadata: Json, spec: Json) -> Violation | None:
    def bad(subject: Json) -> str | None:
        profile = security(subject).get("appArmorProfile")
        kind = None if profile is None else str(profile.get("type", ""))
        return kind if kind is not None and kind not in _CONFINED else None

    in_pod = bad(spec)
    by_container = {c["name"]: value for c in containers(spec) if (value := bad(c)) is not None}
    values = sorted({*by_container.values(), *([in_pod] if in_pod is not None else ())})
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(APPARMOR_ANNOTATION)
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    setters = [text for text in (who_sets(in_pod is not None, list(by_container)),) if text]
    if annotations:
        setters.append(plural("annotation", annotations))
        values += annotations
    if not setters:
        return None
    reason = plural("forbidden AppArmor profile", values)
    return Violation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}")


def _baseline_capabilities(metadata: Json, spec: Json) -> Violation | None:
    added = {c["name"]: _added(c) - _DEFAULT_CAPABILITIES for c in containers(spec)}
    bad = [name for name, extra in added.items() if extra]
    if not bad:
        return None
    extra = quoted(sorted(frozenset[str]().union(*added.values())))
    detail = f"{named('container', bad)} must not include {extra} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def _added(container: Json) -> frozenset[str]:
    return frozenset((security(container).get("capabilities") or {}).get("add") or ())


def _host_namespaces(metadata: Json, spec: Json) -> Violation | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(metadata: Json, spec: Json) -> Violation | None:
    bad = [volume["name"] for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", bad)) if bad else None


def _host_ports(metadata: Json, spec: Json) -> Violation | None:
    ports = {c["name"]: [p["hostPort"] for p in c.get("ports") or () if p.get("hostPort")] for c in containers(spec)}
    bad = [name for name, taken in ports.items() if taken]
    if not bad:
        return None
    taken = sorted({str(port) for found in ports.values() for port in found})
    verb, noun = plural("uses", bad, "use"), plural("hostPort", taken)
    return Violation("hostPort", f"{named('container', bad)} {verb} {noun} {', '.join(taken)}")


def _probe_hosts(metadata: Json, spec: Json) -> Violation | None:
    hosts = {container["name"]: set(_hosts(container)) for container in containers(spec)}
    bad = sorted(name for name, found in hosts.items() if found)
    if not bad:
        return None
    found = sorted(set[str]().union(*hosts.values()))
    verb = plural("uses", bad, "use")
    detail = f"{named('container', bad)} {verb} {named('probe or lifecycle host', found)}"
    return Violation("probe or lifecycle host", detail)


def _hosts(container: Json) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for kind in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(kind) or {}).get("host")
            if host:
                yield host


def _privileged(metadata: Json, spec: Json) -> Violation | None:
    bad = [c["name"] for c in containers(spec) if security(c).get("privileged")]
    detail = f"{named('container', bad)} must not set securityContext.privileged=true"
    return Violation("privileged", detail) if bad else None


def _proc_mount(metadata: Json, spec: Json) -> Violation | None:
    kinds = {c["name"]: security(c).get("procMount") for c in containers(spec)}
    bad = {name: kind for name, kind in kinds.items() if kind not in (None, "Default")}
    values = quoted(sorted(set(map(str, bad.values()))))
    detail = f"{named('container', list(bad))} must not set securityContext.procMount to {values}"
    return Violation("procMount", detail) if bad else None


def _selinux(types: frozenset[str]) -> Check:
    def check(metadata: Json, spec: Json) -> Violation | None:
        bad_types: set[str] = set()
        flags: dict[str, bool] = {"user": False, "role": False}

        def is_bad(subject: Json) -> bool:
            options = security(subject).get("seLinuxOptions")
            if options is None:
                return False
            found = [name for name in flags if options.get(name)]
            flags.update(dict.fromkeys(found, True))
            if (kind := options.get("type") or "") not in types:
                bad_types.add(kind)
                return True
            return bool(found)

        in_pod = is_bad(spec)
        bad = [c["name"] for c in containers(spec) if is_bad(c)]
        if not (in_pod or bad):
            return None
        data = [named("type", sorted(bad_types))] if bad_types else []
        data += [f"{name} may not be set" for name, is_set in flags.items() if is_set]
        detail = f"{who_sets(in_pod, bad)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", detail)

    return check


def _seccomp_annotations(metadata: Json, spec: Json) -> Violation | None:
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    keys = [SECCOMP_POD_ANNOTATION, *(SECCOMP_CONTAINER_ANNOTATION + c["name"] for c in containers(spec))]
    bad = sorted(
        f'{key}="{value}"'
        for key in keys
        if (value := annotations.get(key)) is not None
        and value not in ("runtime/default", "docker/default")
        and not value.startswith("localhost/")
    )
    detail = f"forbidden {plural('annotation', bad)} {', '.join(bad)}"
    return Violation("seccompProfile", detail) if bad else None


def _seccomp_type(subject: Json) -> str | None:
    profile = security(subject).get("seccompProfile")
    return None if profile is None else str(profile.get("type", ""))


def _seccomp(metadata: Json, spec: Json) -> Violation | None:
    in_pod = _seccomp_type(spec)
    by_container = {c["name"]: kind for c in containers(spec) if (kind := _seccomp_type(c)) not in (None, *_CONFINED)}
    is_pod_bad = in_pod is not None and in_pod not in _CONFINED
    if not (is_pod_bad or by_container):
        return None
    values = quoted(sorted({*map(str, by_container.values()), *([str(in_pod)] if is_pod_bad else ())}))
    setters = who_sets(is_pod_bad, list(by_container))
    return Violation("seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {values}")


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(metadata: Json, spec: Json) -> Violation | None:
        bad = [s["name"] for s in security(spec).get("sysctls") or () if s["name"] not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _windows_host_process(metadata: Json, spec: Json) -> Violation | None:
    def is_host_process(subject: Json) -> bool:
        return bool((security(subject).get("windowsOptions") or {}).get("hostProcess"))

    bad = [c["name"] for c in containers(spec) if is_host_process(c)]
    setters = who_sets(is_host_process(spec), bad)
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail) if setters else None


# Restricted


def _privilege_escalation(metadata: Json, spec: Json) -> Violation | None:
    bad = [c["name"] for c in containers(spec) if security(c).get("allowPrivilegeEscalation") is not False]
    detail = f"{named('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail) if bad else None


def _restricted_capabilities(metadata: Json, spec: Json) -> Violation | None:
    keeping: list[str] = []
    adding: list[str] = []
    forbidden: set[str] = set()
    for container in containers(spec):
        if "ALL" not in ((security(container).get("capabilities") or {}).get("drop") or ()):
            keeping.append(container["name"])
        extra = _added(container) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(container["name"])
            forbidden |= extra
    details = []
    if keeping:
        details.append(f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        extra_names = quoted(sorted(forbidden))
        details.append(
            f"{named('container', adding)} must not include {extra_names} in securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _restricted_volumes(metadata: Json, spec: Json) -> Violation | None:
    bad: dict[str, str] = {}
    for volume in spec.get("volumes") or ():
        sources = [name for name, source in volume.items() if name != "name" and source is not None]
        if not _VOLUME_TYPES.intersection(sources):
            bad[volume["name"]] = sources[0] if sources else "unknown"
    if not bad:
        return None
    kinds = sorted(set(bad.values()))
    detail = f"{named('volume', list(bad))} {plural('uses', bad, 'use')} {named('restricted volume type', kinds)}"
    return Violation("restricted volume types", detail)


def _non_root(metadata: Json, spec: Json) -> Violation | None:
    in_pod = security(spec).get("runAsNonRoot")
    values = {c["name"]: security(c).get("runAsNonRoot") for c in containers(spec)}
    setters = who_sets(in_pod is False, [name for name, value in values.items() if value is False])
    if setters:
        return Violation("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    missing = [] if in_pod else [name for name, value in values.items() if value is None]
    detail = f"pod or {named('container', missing)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail) if missing else None


def _non_root_user(metadata: Json, spec: Json) -> Violation | None:
    def is_root(subject: Json) -> bool:
        user = security(subject).get("runAsUser")
        return user is not None and user == 0

    setters = who_sets(is_root(spec), [c["name"] for c in containers(spec) if is_root(c)])
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _restricted_seccomp(metadata: Json, spec: Json) -> Violation | None:
    bad = _seccomp(metadata, spec)
    if bad is not None:
        return bad
    missing = [] if _seccomp_type(spec) else [c["name"] for c in containers(spec) if _seccomp_type(c) is None]
    detail = (
        f"pod or {named('container', missing)} must set "
        'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    )
    return Violation("seccompProfile", detail) if missing else None


@dataclass(frozen=True, slots=True)
class VersionedCheck:
    """A check, by version."""

    id: str
    level: PodSecurityLevel
    versions: tuple[tuple[int, Check], ...]
    """Forms of the check with the minor version from which on each applies, ascending."""
    overrides: str = ""
    """Id of the baseline check that it replaces."""

    def at(self, minor: int) -> Check | None:
        """Return the form that applies in a version; None when there is none yet."""
        found = None
        for since, check in self.versions:
            if since <= minor:
                found = check
        return found


_BASELINE, _RESTRICTED = PodSecurityLevel.BASELINE, PodSecurityLevel.RESTRICTED

CHECKS: tuple[VersionedCheck, ...] = (
    VersionedCheck("appArmorProfile", _BASELINE, ((0, _apparmor),)),
    VersionedCheck("capabilities_baseline", _BASELINE, ((0, _baseline_capabilities),)),
    VersionedCheck("hostNamespaces", _BASELINE, ((0, _host_namespaces),)),
    VersionedCheck("hostPathVolumes", _BASELINE, ((0, _host_paths),)),
    VersionedCheck("hostPorts", _BASELINE, ((0, _host_ports),)),
    VersionedCheck("hostProbesAndHostLifecycle", _BASELINE, ((34, _probe_hosts),)),
    VersionedCheck("privileged", _BASELINE, ((0, _privileged),)),
    VersionedCheck("procMount", _BASELINE, ((0, _proc_mount), (35, _unless_user_namespace(_proc_mount)))),
    VersionedCheck(
        "seLinuxOptions",
        _BASELINE,
        ((0, _selinux(_SELINUX_TYPES)), (31, _selinux(_SELINUX_TYPES | {"container_engine_t"}))),
    ),
    VersionedCheck("seccompProfile_baseline", _BASELINE, ((0, _seccomp_annotations), (19, _seccomp))),
    VersionedCheck(
        "sysctls",
        _BASELINE,
        (
            (0, _sysctls(_SYSCTLS)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    VersionedCheck("windowsHostProcess", _BASELINE, ((0, _windows_host_process),)),
    VersionedCheck(
        "allowPrivilegeEscalation",
        _RESTRICTED,
        ((8, _privilege_escalation), (25, _unless_windows(_privilege_escalation))),
    ),
    VersionedCheck(
        "capabilities_restricted",
        _RESTRICTED,
        ((22, _restricted_capabilities), (25, _unless_windows(_restricted_capabilities))),
        overrides="capabilities_baseline",
    ),
    VersionedCheck("procMount_restricted", _RESTRICTED, ((35, _proc_mount),), overrides="procMount"),
    VersionedCheck("restrictedVolumes", _RESTRICTED, ((0, _restricted_volumes),), overrides="hostPathVolumes"),
    VersionedCheck("runAsNonRoot", _RESTRICTED, ((0, _non_root), (35, _unless_user_namespace(_non_root)))),
    VersionedCheck("runAsUser", _RESTRICTED, ((23, _non_root_user), (35, _unless_user_namespace(_non_root_user)))),
    VersionedCheck(
        "seccompProfile_restricted",
        _RESTRICTED,
        ((19, _restricted_seccomp), (25, _unless_windows(_restricted_seccomp))),
        overrides="seccompProfile_baseline",
    ),
)
"""Baseline checks by id, then restricted ones: the order in which violations are listed."""


def violations(standard: Standard, metadata: Json, spec: Json) -> list[Violation]:
    """Return all violations of a standard by a pod."""
    if standard.level is PodSecurityLevel.PRIVILEGED:
        return []
    held = [(entry, check) for entry in CHECKS if entry.level <= standard.level and (check := entry.at(standard.minor))]
    overridden = {entry.overrides for entry, _ in held}
    found = (check(metadata, spec) for entry, check in held if entry.id not in overridden)
    return [violation for violation in found if violation is not None]


def describe(found: Sequence[Violation]) -> str:
    """Return violations as one line, with their details."""
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)
