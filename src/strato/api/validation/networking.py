"""Rules of Ingresses, IngressClasses and NetworkPolicies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from strato.api import names
from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value, invalid_values, not_supported, required, too_long
from strato.api.validation.addresses import Network, read_address, read_range
from strato.api.validation.metadata import immutable
from strato.api.validation.selectors import label_selector_problems
from strato.errors import Cause

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_END = ("/..", "/.")
_LONGEST_CONTROLLER_BYTES = 250
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_SCOPES = ("Cluster", "Namespace")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")


def validate_ingress(obj: Json) -> list[Cause]:
    """Check a new Ingress."""
    spec = obj.get("spec") or {}
    given = ((obj.get("metadata") or {}).get("annotations") or {}).get(_CLASS_ANNOTATION)
    causes = list(_ingress_problems(spec))
    if given is not None and spec.get("ingressClassName") not in (None, given):
        text = "must match `ingressClassName` when both are specified"
        causes.append(invalid_value(f"annotations.{_CLASS_ANNOTATION}", given, text))
    return causes


def validate_ingress_update(obj: Json, old: Json) -> list[Cause]:
    """Check an Ingress whose spec has changed."""
    return [] if obj.get("spec") == old.get("spec") else list(_ingress_problems(obj.get("spec") or {}))


def _ingress_problems(spec: Json) -> Iterator[Cause]:
    rules, backend = spec.get("rules"), spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid_value("spec", rules, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend_problems(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules or ()):
        yield from _rule_problems(rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.get("tls") or ()):
        place, secret = f"spec.tls[{index}]", entry.get("secretName")
        for at, host in enumerate(entry.get("hosts") or ()):
            yield from invalid_values(f"{place}.hosts[{at}]", host, _host_problems(host))
        if secret:
            yield from invalid_values(f"{place}.secretName", secret, names.check_subdomain(secret))
    name = spec.get("ingressClassName")
    if name is not None:
        yield from invalid_values("spec.ingressClassName", name, names.check_subdomain(name))


def _rule_problems(rule: Json, field: str) -> Iterator[Cause]:
    host, http = rule.get("host") or "", rule.get("http")
    if host:
        if read_address(host)[0] is not None:
            yield invalid_value(f"{field}.host", host, "must be a DNS name, not an IP address")
        yield from invalid_values(f"{field}.host", host, _host_problems(host))
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{field}.http.paths")
    for index, path in enumerate(http.get("paths") or ()):
        place = f"{field}.http.paths[{index}]"
        yield from _path_problems(path.get("path") or "", path.get("pathType"), place)
        yield from _backend_problems(path.get("backend") or {}, f"{place}.backend")


def _host_problems(host: str) -> list[str]:
    if "*" not in host:
        return names.check_subdomain(host)
    return names.check_wildcard_subdomain(host)


def _path_problems(path: str, kind: str | None, field: str) -> Iterator[Cause]:
    place = f"{field}.path"
    if kind is None:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{field}.pathType", kind, _PATH_TYPES)
        return
    is_free = kind == "ImplementationSpecific"
    if not path.startswith("/") and (path or not is_free):
        yield invalid_value(place, path, "must be an absolute path")
    if not is_free:
        for part in _NOT_WITHIN:
            if part in path:
                yield invalid_value(place, path, f"must not contain '{part}'")
        for end in _NOT_AT_END:
            if path.endswith(end):
                yield invalid_value(place, path, f"cannot end with '{end}'")


def _backend_problems(backend: Json, field: str) -> Iterator[Cause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid_value(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference_problems(resource, f"{field}.resource")
    elif service is not None:
        yield from _service_problems(service, field)
    else:
        yield invalid_value(field, "", "resource or service backend is required")


def _service_problems(service: Json, field: str) -> Iterator[Cause]:
    name, port = service.get("name"), service.get("port") or {}
    if not name:
        yield required(f"{field}.service.name")
    else:
        yield from invalid_values(f"{field}.service.name", name, names.check_label(name))
    number, port_name = port.get("number") or 0, port.get("name") or ""
    if number and port_name:
        yield invalid_value(field, "", "cannot set both port name & port number")
    elif port_name:
        yield from invalid_values(f"{field}.service.port.name", port_name, names.check_port_name(port_name))
    elif number:
        yield from invalid_values(f"{field}.service.port.number", number, names.check_port_number(number))
    else:
        yield required(field, "port name or number is required")


def _reference_problems(reference: Json, field: str) -> Iterator[Cause]:
    group = reference.get("apiGroup")
    if group is not None:
        yield from invalid_values(f"{field}.apiGroup", group, names.check_subdomain(group))
    for member in ("kind", "name"):
        value = reference.get(member)
        if not value:
            yield required(f"{field}.{member}")
        else:
            yield from invalid_values(f"{field}.{member}", value, names.check_path_segment(value))


def validate_ingress_class(obj: Json) -> list[Cause]:
    """Check the controller and the parameters of an IngressClass."""
    return list(_class_problems(obj.get("spec") or {}))


def validate_ingress_class_update(obj: Json, old: Json) -> list[Cause]:
    """Check an IngressClass, whose controller may not change."""
    new, before = ((one.get("spec") or {}).get("controller") or "" for one in (obj, old))
    return [*([immutable("spec.controller", new)] if new != before else []), *validate_ingress_class(obj)]


def _class_problems(spec: Json) -> Iterator[Cause]:
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller.encode()) > _LONGEST_CONTROLLER_BYTES:
        yield too_long("spec.controller", _LONGEST_CONTROLLER_BYTES)
    yield from _domain_path_problems(controller, "spec.controller")
    if parameters is None:
        return
    field, scope, namespace = "spec.parameters", parameters.get("scope"), parameters.get("namespace")
    yield from _reference_problems(parameters, field)
    if scope not in _SCOPES:
        yield not_supported(f"{field}.scope", scope, _SCOPES)
    elif scope == "Cluster" and namespace is not None:
        yield forbidden_field(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        yield required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from invalid_values(f"{field}.namespace", namespace, names.check_label(namespace))


def _domain_path_problems(text: str, field: str) -> Iterator[Cause]:
    host, _, path = text.partition("/")
    if not text:
        yield required(field)
    elif not host or not path:
        yield invalid_value(field, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from invalid_values(field, host, names.check_subdomain(host))
        if not _PATH.fullmatch(path):
            yield invalid_value(field, path, f"Invalid path (regex used for validation is '{_PATH.pattern}')")


def validate_network_policy(obj: Json) -> list[Cause]:
    """Check the selectors, peers and ports of a NetworkPolicy."""
    return list(_policy_problems(obj.get("spec") or {}))


def _policy_problems(spec: Json) -> Iterator[Cause]:
    yield from label_selector_problems(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            place = f"spec.{direction}[{index}]"
            yield from _each(rule.get("ports"), f"{place}.ports", _port_problems)
            yield from _each(rule.get(peers), f"{place}.{peers}", _peer_problems)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_POLICY_TYPES):
        yield invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _POLICY_TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", kind or "", _POLICY_TYPES)


def _each(
    items: Sequence[Json] | None, field: str, problems: Callable[[Json, str], Iterator[Cause]]
) -> Iterator[Cause]:
    for index, item in enumerate(items or ()):
        yield from problems(item, f"{field}[{index}]")


def _port_problems(port: Json, field: str) -> Iterator[Cause]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    place = f"{field}.endPort"
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{field}.protocol", protocol, _PROTOCOLS)
    if number is None and end is not None:
        yield invalid_value(place, end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        yield from invalid_values(f"{field}.port", number, names.check_port_number(number))
        if end is not None:
            if end < number:
                yield invalid_value(place, number, "must be greater than or equal to `port`")
            yield from invalid_values(place, end, names.check_port_number(end))
    elif number is not None:
        if end is not None:
            yield invalid_value(place, end, "may not be specified when `port` is non-numeric")
        yield from invalid_values(f"{field}.port", number, names.check_port_name(number))


def _peer_problems(peer: Json, field: str) -> Iterator[Cause]:
    selectors = [member for member in ("podSelector", "namespaceSelector") if peer.get(member) is not None]
    for member in selectors:
        yield from label_selector_problems(peer[member], f"{field}.{member}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block_problems(block, f"{field}.ipBlock")
    if block is None and not selectors:
        yield required(field, "must specify a peer")
    elif block is not None and selectors:
        yield forbidden_field(field, "may not specify both ipBlock and another peer")


def _block_problems(block: Json, field: str) -> Iterator[Cause]:
    text = block.get("cidr") or ""
    if not text:
        yield required(f"{field}.cidr")
        return
    network, problem = read_range(text)
    if problem:
        yield invalid_value(f"{field}.cidr", text, problem)
    if network is None:
        return
    for index, part in enumerate(block.get("except") or ()):
        place = f"{field}.except[{index}]"
        inner, problem = read_range(part)
        if problem:
            yield invalid_value(place, part, problem)
        if inner is not None and not _is_within(inner, network):
            yield invalid_value(place, part, "must be a strict subset of `cidr`")


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.network_address in outer and inner.prefixlen > outer.prefixlen
