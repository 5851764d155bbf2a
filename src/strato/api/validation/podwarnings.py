"""Warnings about accepted pods and templates of pods that are hardly meant so; see `strato.api.validation.warnings`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import canonical, milli
from strato.api.validation.addresses import ip_warning, quoted
from strato.api.validation.overlaps import overlapping_paths
from strato.api.validation.podspec import HARD, SOFT
from strato.api.validation.security import SECCOMP_OF_CONTAINER, SECCOMP_OF_POD

_BYTES = ("memory", "ephemeral-storage")
_FRACTIONAL = "mun"
"""Suffixes of a canonical quantity that may be no whole number."""
_NOTHING: Json = {}
NODE_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
POD_ANNOTATIONS: Mapping[str, str] = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NO_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
OLD_VOLUMES: Mapping[str, str] = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
SPELLED = {"storageos": "storageOS"}
"""Members that the warnings spell in another way."""


def of_template(template: Json, at: str) -> Iterator[str]:
    """Yield the warnings about a pod, or a template; ``at`` is the path to it with a dot, or empty.

    On the path of every new pod: what the usual pod lacks is not looked at further.
    """
    spec = template.get("spec") or {}
    get, path = spec.get, f"{at}spec"
    if get("nodeSelector") or get("affinity") or get("topologySpreadConstraints"):
        yield from _of_placement(spec, path)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    if annotations:
        yield from of_annotations(annotations, POD_ANNOTATIONS, at)
    if get("volumes"):
        yield from _of_volumes(spec["volumes"], path)
    if get("hostAliases") or get("imagePullSecrets"):
        yield from _of_repeated(spec, path)
    if get("overhead"):
        for name in _BYTES:
            if text := _fraction(spec["overhead"], name):
                yield f"{path}.overhead{text}"
    if SECCOMP_OF_POD in annotations and not (get("securityContext") or {}).get("seccompProfile"):
        yield f"{at}metadata.annotations[{SECCOMP_OF_POD}]: {_NO_SECCOMP}"
    ports = 0
    for container, place in _containers(spec, path):
        for port in container.get("ports") or ():
            ports += 2 if "hostIP" in port else 1
        yield from _of_container(container, place, annotations, at)
    if ports > 1:
        yield from _of_ports(spec, path)
    grace = get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    if get("affinity"):
        yield from _of_pod_affinity(spec["affinity"], f"{path}.affinity")
    for index, server in enumerate((get("dnsConfig") or {}).get("nameservers") or ()):
        yield from ip_warning(f"{path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(get("hostAliases") or ()):
        yield from ip_warning(f"{path}.hostAliases[{index}].ip", alias.get("ip") or "")


def of_annotations(annotations: Json, old: Mapping[str, str], at: str = "") -> Iterator[str]:
    """Yield what is said of those annotations that are old."""
    for key, text in old.items():
        if key in annotations:
            yield f"{at}metadata.annotations[{key}]: {text}"


def _of_container(container: Json, place: str, annotations: Json, at: str) -> Iterator[str]:
    if annotations:
        key = SECCOMP_OF_CONTAINER + container["name"]
        if key in annotations and not (container.get("securityContext") or {}).get("seccompProfile"):
            yield f"{at}metadata.annotations[{key}]: {_NO_SECCOMP}"
    resources = container.get("resources")
    if resources:
        limits, requests = resources.get("limits") or _NOTHING, resources.get("requests") or _NOTHING
        for name in _BYTES:
            for member, amounts in (("limits", limits), ("requests", requests)):
                if text := _fraction(amounts, name):
                    yield f"{place}.resources.{member}{text}"
    variables = container.get("env")
    if variables and len({variable.get("name") for variable in variables}) < len(variables):
        yield from _hidden_variables(variables, place)


def _containers(spec: Json, path: str) -> Iterator[tuple[Json, str]]:
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            yield container, f"{path}.{member}[{index}]"


def _of_placement(spec: Json, path: str) -> Iterator[str]:
    for label in sorted(spec.get("nodeSelector") or ()):
        if label in NODE_LABELS:
            yield f"{path}.nodeSelector[{label}]: {NODE_LABELS[label]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(HARD) or {}).get("nodeSelectorTerms") or ()):
        yield from of_term(term, f"{at}.{HARD}.nodeSelectorTerms[{index}]", checks_values=False)
    for index, term in enumerate(affinity.get(SOFT) or ()):
        yield from of_term(term.get("preference") or {}, f"{at}.{SOFT}[{index}].preference", checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey") or ""
        if key in NODE_LABELS:
            yield f"{where}.topologyKey: {key} is {NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_MATCHES_NONE}"


_MATCHES_NONE = "a null labelSelector results in matching no pod"


def of_term(term: Json, at: str, *, checks_values: bool) -> Iterator[str]:
    """Yield the warnings about a term of a node selector; ``at`` is the path to it."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, key = f"{at}.matchExpressions[{index}]", expression.get("key") or ""
        if key in NODE_LABELS:
            yield f"{where}.key: {key} is {NODE_LABELS[key]}"
        if checks_values:
            for number, value in enumerate(expression.get("values") or ()):
                for text in names.check_label_value(value):
                    yield f"{where}.values[{number}]: {value} is invalid, {text}"


def _of_pod_affinity(affinity: Json, at: str) -> Iterator[str]:
    for member in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(member) or {}
        for index, term in enumerate(terms.get(HARD) or ()):
            if term.get("labelSelector") is None:
                yield f"{at}.{member}.{HARD}[{index}].labelSelector: {_MATCHES_NONE}"
        for index, weighted in enumerate(terms.get(SOFT) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{at}.{member}.{SOFT}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NONE}"


def _of_volumes(volumes: Sequence[Json], path: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for member, text in OLD_VOLUMES.items():
            if volume.get(member) is not None:
                yield f"{path}.volumes[{index}].{SPELLED.get(member, member)}: {text}"
        if volume.get("ephemeral") is not None:
            claim = volume["ephemeral"].get("volumeClaimTemplate") or {}
            at = f"{path}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from of_claim_spec(claim.get("spec") or {}, at)
    yield from overlapping_paths(volumes)


def _of_repeated(spec: Json, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        address = alias.get("ip") or ""
        if address in seen:
            yield f"{path}.hostAliases[{index}].ip: duplicate ip {quoted(address)}"
        seen.add(address)
    secrets = [secret.get("name") or "" for secret in spec.get("imagePullSecrets") or ()]
    seen = set()
    for index, name in enumerate(secrets):
        if name in seen:
            yield f"{path}.imagePullSecrets[{index}].name: duplicate name {quoted(name)}"
        seen.add(name)
    for index, name in enumerate(secrets):
        if not name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _fraction(amounts: Json, name: str) -> str:
    """Return what is to be said behind the path of the amounts if one of bytes is no whole number, else nothing."""
    amount = amounts.get(name)
    if amount is None or str(amount)[-1:] not in _FRACTIONAL or milli(amount) % 1000 == 0:
        return ""
    return f"[{name}]: fractional byte value {quoted(canonical(amount))} is invalid, must be an integer"


def _hidden_variables(variables: Sequence[Json], place: str) -> Iterator[str]:
    """Yield which variables replace one of the same name without using its value."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        extends = variable.get("valueFrom") is None and reference in value and value != reference
        if name in seen and not extends:
            text = f"hides previous definition of {quoted(name)}, which may be dropped when using apply"
            yield f"{place}.env[{index}]: {text}"
        seen.add(name)


class _Ports:
    """The ports of a pod with one number and protocol, found without a look at all those that are no conflict."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}
        self._by_place: dict[tuple[str, int], list[str]] = {}
        self._addresses: dict[int, list[str]] = {}
        """The addresses that are used with each port of the host."""

    def add(self, at: str, host_ip: str, host_port: int) -> Iterator[str]:
        """Yield what is odd about a further port beside those before it."""
        found = dict.fromkeys(self._by_place.get((host_ip, host_port), ()), "duplicate")
        for port in list(self._addresses) if not host_port else (0,):
            for address in self._addresses.get(port, ()):
                if (address, port) != (host_ip, host_port):
                    found |= dict.fromkeys(self._by_place[address, port], "overlapping")
        if host_port:
            others = ("",) if host_ip else (one for one in self._addresses.get(host_port, ()) if one)
            for address in others:
                found |= dict.fromkeys(self._by_place.get((address, host_port), ()), "dangerously ambiguous")
        for other in sorted(found, key=self._order.__getitem__):
            yield f"{at}: {found[other]} port definition with {other}"
        self._order[at] = len(self._order)
        if (host_ip, host_port) not in self._by_place:
            self._addresses.setdefault(host_port, []).append(host_ip)
        self._by_place.setdefault((host_ip, host_port), []).append(at)


def _of_ports(spec: Json, path: str) -> Iterator[str]:
    known: dict[tuple[int, str], _Ports] = {}
    for container, place in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            at, host_ip, host_port = f"{place}.ports[{index}]", port.get("hostIP") or "", port.get("hostPort") or 0
            number, protocol = port.get("containerPort") or 0, port.get("protocol") or ""
            if host_ip and not host_port:
                shown = f"{{Name:{port.get('name') or ''} HostPort:0 ContainerPort:{number} Protocol:{protocol}"
                yield f"{at}: hostIP set without hostPort: {shown} HostIP:{host_ip}}}"
            yield from known.setdefault((number, protocol), _Ports()).add(at, host_ip, host_port)
    named: dict[str, str] = {}
    for container, place in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            name, at = port.get("name") or "", f"{place}.ports[{index}]"
            other = named.setdefault(name, at) if name else at
            if other != at:
                text = f"services and probes that select ports by name will use {other}"
                yield f"{at}: duplicate port name {quoted(name)} with {other}, {text}"


def of_claim_spec(spec: Json, at: str) -> Iterator[str]:
    """Yield the warnings about the spec of a claim; ``at`` is the path to it."""
    resources = spec.get("resources") or {}
    for member in ("requests", "limits"):
        if text := _fraction(resources.get(member) or _NOTHING, "storage"):
            yield f"{at}.resources.{member}{text}"
