"""Gives the node's pods access to services: the data plane, the name server, the variables."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from strato.api.core import Pod, Service
from strato.api.discovery import EndpointSlice
from strato.api.meta import Key
from strato.client.informer import Informer
from strato.clock import Clock
from strato.node.sandbox.hosts import CLUSTER_DOMAIN
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.resolver import name_servers
from strato.node.sandbox.servicelinks import service_variables
from strato.node.sandbox.settings import NO_EGRESS, ClusterServices
from strato.node.services.records import DataPlaneSettings
from strato.node.services.serviceproxy import ServiceProxy

_PREFIX_LENGTH = 20
"""Prefix length of the range of cluster IPs; the API server's own IP is the first."""
_BY_NAMESPACE = "namespace"
_BY_UID = "uid on this machine"

_log = logging.getLogger(__name__)


class NodeServiceAccess:
    """See the module.

    Args:
        machine: Gets the name server's address and the variables of pods.
        services: Informer of all services.
        slices: Informer of all endpoint slices; None if this node may not read them: then no service is connected.
        pods: Informer of this node's pods, perhaps among others; their host ports are opened like node ports.
        clock: The node's clock.
        wanted: How to connect services; None if this node does not connect any.
        event: Records an event of an object: type, reason, message.
    """

    def __init__(
        self,
        machine: Machine,
        services: Informer[Service],
        slices: Informer[EndpointSlice] | None,
        pods: Informer[Pod],
        clock: Clock,
        wanted: ClusterServices | None,
        event: Callable[[Any, str, str, str], None],
    ) -> None:
        self._machine, self._services, self._slices, self._wanted = machine, services, slices, wanted
        self._pods, self._event = pods, event
        self._proxy: ServiceProxy | None = None
        self.problem = ""
        """What pods lack of services; empty when they lack nothing."""
        self._nodes = {machine.node_name: ""}
        services.add_index(_BY_NAMESPACE, lambda service: (service.metadata.namespace,))
        if wanted is not None and slices is not None:
            self._proxy = ServiceProxy(
                self._nodes,
                services,
                slices,
                pods,
                clock,
                lambda which, problem: event(
                    which, "Warning", "HostPortNotOpened" if isinstance(which, Pod) else "ServiceNotServed", problem
                ),
                self._say_that_there_is_no_way,
            )
        pods.add_index(_BY_UID, lambda pod: (pod.metadata.uid,) if pod.spec.node_name in self._nodes else ())
        machine.service_variables = self._variables

    def add_neighbour(self, name: str) -> None:
        """Serve the pods of another node of this machine too; call it before the informers have their first list."""
        self._nodes[name] = ""

    def place_neighbour(self, other: Machine) -> None:
        """Add the other node's address, if it has one of its own; call it before `start`."""
        if self._machine.bridge:
            self._nodes[other.node_name] = other.host_ip

    async def start(self) -> Callable[[], Coroutine[None, None, None]] | None:
        """Open all services; return the coroutine function that keeps them current until it is cancelled."""
        await _synced(self._services)
        if self._proxy is None or self._slices is None or self._wanted is None:
            return None
        await _synced(self._slices)
        own = self._services.get(Key("default", "kubernetes"))
        if own is None or not own.spec.cluster_ip:
            _log.warning("services are not served: there is no service default/kubernetes")
            return None
        report = await self._proxy.start(self._settings(own, self._wanted))
        self.problem = report.problem
        if report.has_dns:
            names = self._services.get(Key("kube-system", "kube-dns"))
            self._machine.dns = names.spec.cluster_ip if names is not None else ""
        return self._proxy.run

    def _settings(self, own: Service, wanted: ClusterServices) -> DataPlaneSettings:
        machine = self._machine
        network = ipaddress.IPv4Network(f"{own.spec.cluster_ip}/{_PREFIX_LENGTH}", strict=False)
        names = self._services.get(Key("kube-system", "kube-dns"))
        addresses = (machine.host_ip, machine.gateway)
        beyond = machine.has_egress or not machine.bridge
        return DataPlaneSettings(
            network=str(network),
            pods=str(machine.addresses.network),
            is_routed=not network.is_loopback,
            node_addresses=tuple(one for one in addresses if one and not ipaddress.ip_address(one).is_loopback),
            neighbour_addresses=tuple(filter(None, self._nodes.values())),
            is_open=wanted.is_open,
            reaches_beyond=beyond,
            api=wanted.api(),
            dns=names.spec.cluster_ip if names is not None else "",
            domain=CLUSTER_DOMAIN,
            upstreams=tuple(name_servers()) if beyond else (),
        )

    def _say_that_there_is_no_way(self, address: str, name: str) -> None:
        """Record an event of the pod that asked for a name beyond what it reaches."""
        for pod in self._pods.index(_BY_UID, self._machine.addresses.owner(address)):
            problem = self._machine.egress_problem
            message = f"{name} is not found: pods reach nothing beyond this machine here ({problem})"
            self._event(pod, "Warning", NO_EGRESS, message)

    def _variables(self, pod: Pod) -> dict[str, str]:
        namespaces = sorted({"default", pod.metadata.namespace})
        return service_variables(pod, [one for name in namespaces for one in self._services.index(_BY_NAMESPACE, name)])


async def _synced(informer: Informer[Any]) -> None:
    informer.start()
    await informer.wait_synced()
