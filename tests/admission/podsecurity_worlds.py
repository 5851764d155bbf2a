"""Random pods that say something about their security, for comparing decisions with Kubernetes'."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]

_ANNOTATIONS = (
    ("container.apparmor.security.beta.kubernetes.io/a", ("", "runtime/default", "localhost/x", "unconfined")),
    ("seccomp.security.alpha.kubernetes.io/pod", ("runtime/default", "docker/default", "localhost/x", "unconfined")),
    ("container.seccomp.security.alpha.kubernetes.io/b", ("runtime/default", "unconfined")),
    ("other", ("x",)),
)
_SOURCES: tuple[tuple[str, Json], ...] = (
    ("emptyDir", {}),
    ("hostPath", {"path": "/x"}),
    ("configMap", {"name": "x"}),
    ("secret", {"secretName": "x"}),
    ("nfs", {"server": "s", "path": "/"}),
    ("iscsi", {"targetPortal": "x", "iqn": "y", "lun": 0}),
    ("rbd", {"monitors": ["x"], "image": "y"}),
    ("persistentVolumeClaim", {"claimName": "x"}),
    ("storageos", {"volumeName": "x"}),
    ("projected", {"sources": []}),
    ("image", {"reference": "x"}),
)
_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_rmem", "kernel.msgmax")
_VERSIONS = ("latest", "v1.0", "v1.8", "v1.19", "v1.22", "v1.25", "v1.27", "v1.29", "v1.31", "v1.34", "v1.35", "v1.99")


def labels(rng: Random) -> dict[str, str]:
    """Return a namespace's labels, now and then such as cannot be read."""
    found = {}
    for mode in ("enforce", "audit", "warn"):
        if rng.random() < 0.7:
            found[mode] = rng.choice(("privileged", "baseline", "restricted", "restricted", "Baseline", "strict", ""))
        if rng.random() < 0.5:
            found[f"{mode}-version"] = rng.choice((*_VERSIONS, "v2.1", "1.20", "v1.20\n", ""))
    return {f"pod-security.kubernetes.io/{name}": value for name, value in found.items()}


def pod(rng: Random) -> Json:
    """Return a pod in which about half of what the standards look at is said."""
    rare = rng.random() * 0.5
    spec: Json = {"containers": [_container(rng, name, rare) for name in ("a", "b")[: rng.randint(1, 2)]]}
    if rng.random() < rare:
        spec["initContainers"] = [_container(rng, "i", rare)]
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if rng.random() < rare / 2:
            spec[name] = True
    if rng.random() < rare:
        spec["hostUsers"] = rng.random() < 0.5
    if rng.random() < rare / 2:
        spec["os"] = {"name": rng.choice(("linux", "windows"))}
    if rng.random() < rare * 2:
        spec["volumes"] = [
            {"name": f"v{number}", kind: dict(source)}
            for number, (kind, source) in enumerate(rng.sample(_SOURCES, rng.randint(1, 4)))
        ]
    security = _shared_security(rng, rare)
    if rng.random() < rare:
        security["sysctls"] = [{"name": name, "value": "1"} for name in rng.sample(_SYSCTLS, rng.randint(1, 3))]
    if security or rng.random() < 0.2:
        spec["securityContext"] = security
    annotations = {key: rng.choice(values) for key, values in _ANNOTATIONS if rng.random() < rare / 2}
    return {"metadata": {"name": "p", **({"annotations": annotations} if annotations else {})}, "spec": spec}


def _container(rng: Random, name: str, rare: float) -> Json:
    container: Json = {"name": name, "image": "x"}
    if rng.random() < rare:
        container["ports"] = [
            {"containerPort": 80 + n, **({"hostPort": 8000 + rng.randint(0, 9)} if rng.random() < 0.6 else {})}
            for n in range(rng.randint(1, 3))
        ]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if rng.random() < rare / 2:
            container[probe] = _handler(rng)
    if rng.random() < rare / 2:
        container["lifecycle"] = {rng.choice(("postStart", "preStop")): _handler(rng)}
    security = _shared_security(rng, rare)
    for member in ("privileged", "allowPrivilegeEscalation"):
        if rng.random() < rare * 2:
            security[member] = rng.random() < 0.3
    if rng.random() < rare:
        security["procMount"] = rng.choice(("Default", "Unmasked"))
    if rng.random() < rare * 2:
        security["capabilities"] = {
            "add": rng.sample(("CHOWN", "NET_BIND_SERVICE", "SYS_ADMIN", "NET_ADMIN"), rng.randint(0, 2)),
            "drop": rng.choice((["ALL"], ["all"], ["CHOWN"], [])),
        }
    if security or rng.random() < 0.2:
        container["securityContext"] = security
    return container


def _handler(rng: Random) -> Json:
    host = {"host": rng.choice(("10.0.0.1", "example.com"))} if rng.random() < 0.5 else {}
    return rng.choice(({"httpGet": {"port": 80, **host}}, {"tcpSocket": {"port": 80, **host}}, {"exec": {}}))


def _shared_security(rng: Random, rare: float) -> Json:
    """Return what pods and containers can both say."""
    security: Json = {}
    if rng.random() < rare * 2:
        security["runAsNonRoot"] = rng.random() < 0.8
    if rng.random() < rare:
        security["runAsUser"] = rng.choice((0, 1000))
    if rng.random() < rare * 2:
        security["seccompProfile"] = {"type": rng.choice(("RuntimeDefault", "Localhost", "Unconfined"))}
    if rng.random() < rare / 2:
        security["appArmorProfile"] = {"type": rng.choice(("RuntimeDefault", "Localhost", "Unconfined"))}
    if rng.random() < rare / 2:
        kind = rng.choice(("container_t", "container_engine_t", "spc_t", ""))
        security["seLinuxOptions"] = {
            "type": kind,
            **({rng.choice(("user", "role")): "x"} if rng.random() < 0.4 else {}),
        }
    if rng.random() < rare / 3:
        security["windowsOptions"] = {"hostProcess": rng.random() < 0.5}
    return security
