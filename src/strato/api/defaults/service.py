"""Defaults of services and endpoints, and members that a service keeps. The server allocates cluster IPs."""

from __future__ import annotations

from strato.api.defaults.members import fill, fill_empty
from strato.api.meta import Json

_FOR_CLUSTER_IPS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def default_service(obj: Json) -> None:
    """Default a service."""
    spec = obj.setdefault("spec", {})
    fill_empty(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    kind = spec["type"]
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        fill_empty(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})
    if kind != "ExternalName":
        fill_empty(spec, {"internalTrafficPolicy": "Cluster"})
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        fill_empty(spec, {"externalTrafficPolicy": "Cluster"})
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if kind != "ExternalName":
        # A headless service without a selector may get endpoints of either family.
        bare = spec.get("clusterIP") == "None" and not spec.get("selector")
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if bare else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if bare else ["IPv4"])


def keep_addresses(new: Json, old: Json) -> None:
    """Keep allocated addresses and ports that an update leaves out, and drop those that the new type does not use."""
    spec, before = new["spec"], old.get("spec") or {}
    if spec.get("type") == "ExternalName" != before.get("type"):
        if all(spec.get(member) == before.get(member) for member in ("clusterIP", "clusterIPs")):
            for member in _FOR_CLUSTER_IPS:
                if spec.get(member) == before.get(member):
                    spec.pop(member, None)
    elif before.get("clusterIP") and not spec.get("clusterIP") and spec.get("type") != "ExternalName":
        spec["clusterIP"], spec["clusterIPs"] = before["clusterIP"], list(before.get("clusterIPs") or ())
    ports = spec.get("ports") or ()
    given = {
        (port.get("protocol"), port.get("port")): port["nodePort"]
        for port in before.get("ports") or ()
        if port.get("nodePort")
    }
    if needs_node_ports(spec):
        asked = {(port.get("protocol"), port["nodePort"]) for port in ports if port.get("nodePort")}
        for port in ports:
            kept = given.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort") and (port.get("protocol"), kept) not in asked:
                port["nodePort"] = kept
    elif needs_node_ports(before) and {p["nodePort"] for p in ports if p.get("nodePort")} <= set(given.values()):
        for port in ports:
            port.pop("nodePort", None)
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        for member in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"):
            if spec.get(member) == before.get(member):
                spec.pop(member, None)


def needs_node_ports(spec: Json) -> bool:
    """Whether the ports of a service are opened on the nodes."""
    return spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def default_endpoint_slice(obj: Json) -> None:
    """Default a slice of endpoints."""
    for member in ("endpoints", "ports"):
        obj.setdefault(member, None)  # written also where there are none
    for endpoint in obj["endpoints"] or ():
        endpoint.setdefault("conditions", {})
    for port in obj["ports"] or ():
        fill(port, {"protocol": "TCP", "name": ""})


def default_endpoints(obj: Json) -> None:
    """Default endpoints."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill_empty(port, {"protocol": "TCP"})
