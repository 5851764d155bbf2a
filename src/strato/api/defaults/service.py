"""Defaults of services and endpoints. Cluster addresses are allocated by the server."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def default_service(obj: Json) -> None:
    """Default a service."""
    spec = obj.setdefault("spec", {})
    kind = spec.get("type")
    if not kind:
        kind = spec["type"] = "ClusterIP"
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if kind != "ExternalName" and not spec.get("internalTrafficPolicy"):
        spec["internalTrafficPolicy"] = "Cluster"
    if kind in ("NodePort", "LoadBalancer") and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if kind != "ExternalName":
        # A headless service without a selector may get endpoints of either family.
        bare = spec.get("clusterIP") == "None" and not spec.get("selector")
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if bare else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if bare else ["IPv4"])


def default_endpoints(obj: Json) -> None:
    """Default endpoints."""
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
