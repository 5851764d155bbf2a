"""Views of networking.k8s.io/v1."""

from __future__ import annotations

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import IntOrString, LabelSelector


class NetworkPolicyPort(View, frozen=True, kw_only=True):
    """A port that is allowed."""

    protocol: str = "TCP"
    port: IntOrString | None = None
    end_port: int | None = None


class IPBlock(View, frozen=True, kw_only=True):
    """A range of addresses, with holes."""

    cidr: str = ""
    except_: tuple[str, ...] = msgspec.field(default=(), name="except")


class NetworkPolicyPeer(View, frozen=True, kw_only=True):
    """Who may talk."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(View, frozen=True, kw_only=True):
    """One permission to come in."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    from_: tuple[NetworkPolicyPeer, ...] = msgspec.field(default=(), name="from")


class NetworkPolicyEgressRule(View, frozen=True, kw_only=True):
    """One permission to go out."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicySpec(View, frozen=True, kw_only=True):
    """``spec``."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(Object, frozen=True, kw_only=True):
    """Which pods may talk to which."""

    spec: NetworkPolicySpec = NetworkPolicySpec()


class IngressClass(Object, frozen=True, kw_only=True):
    """A class of ingress controllers."""


class Ingress(Object, frozen=True, kw_only=True):
    """Rules for traffic from outside; kept for clients, nothing here acts on it."""
