"""What the data plane is told of a service."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod, Service
from strato.api.discovery import EndpointSlice
from strato.node.sandbox.servicelinks import service_variables
from strato.node.services.records import Backend, host_ports_of, record_of

PORTS = [{"name": "http", "port": 80}]


def service(name: str = "web", namespace: str = "default", **spec: Any) -> Service:
    spec = {"clusterIP": "10.96.0.5", "ports": PORTS, **spec}
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, Service)


def endpoint(address: str, node: str = "here", **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "nodeName": node, "conditions": conditions}


def slice_of(*endpoints: dict[str, Any]) -> EndpointSlice:
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    return msgspec.convert({"addressType": "IPv4", "endpoints": endpoints, "ports": ports}, EndpointSlice)


READY = endpoint("10.1.0.1", ready=True)
AWAY = endpoint("10.1.0.2", "there", ready=True)
GOING = endpoint("10.1.0.3", ready=False, serving=True, terminating=True)
BROKEN = endpoint("10.1.0.4", ready=False, serving=False, terminating=False)


@pytest.mark.parametrize(
    ("spec", "endpoints", "want"),
    [
        pytest.param({}, [READY, AWAY, GOING, BROKEN], "12", id="the ready ones"),
        pytest.param({}, [GOING, BROKEN], "3", id="else those that still serve while they end"),
        pytest.param({}, [BROKEN], "", id="else none"),
        pytest.param({"internalTrafficPolicy": "Local"}, [READY, AWAY], "1", id="the node's own alone"),
        pytest.param({"internalTrafficPolicy": "Local"}, [AWAY], "", id="and no others if there is none"),
        pytest.param({}, [endpoint("10.1.0.1")], "1", id="no condition is ready"),
    ],
)
def test_connections_go_to(spec: dict[str, Any], endpoints: list[dict[str, Any]], want: str) -> None:
    record = record_of(service(**spec), [slice_of(*endpoints)], {"here"})
    assert record.ports[0].backends == tuple(Backend(f"10.1.0.{last}", 8080) for last in want)


def test_node_ports_have_a_policy_of_their_own() -> None:
    spec = {"externalTrafficPolicy": "Local", "ports": [{"name": "http", "port": 80, "nodePort": 30001}]}
    port = record_of(service(**spec), [slice_of(READY, AWAY)], {"here"}).ports[0]
    assert (len(port.backends), port.outer_backends) == (2, (Backend("10.1.0.1", 8080),))


def test_affinity_has_a_time() -> None:
    config = {"clientIP": {"timeoutSeconds": 5}}
    record = record_of(service(sessionAffinity="ClientIP", sessionAffinityConfig=config), [], {"here"})
    assert record.affinity_seconds == 5
    assert record_of(service(), [], {"here"}).affinity_seconds == 0


POD = msgspec.convert({"metadata": {"name": "p", "namespace": "team"}}, Pod)
API = service("kubernetes", ports=[{"name": "https", "port": 443}])


def test_variables_are_those_of_a_kubelet() -> None:
    own = service("my-db", "team", ports=[{"port": 5432}, {"name": "admin-ui", "port": 80}])
    values = service_variables(
        POD, [API, own, service("elsewhere", "other"), service("bare", "team", clusterIP="None")]
    )
    assert values["KUBERNETES_SERVICE_HOST"] == "10.96.0.5"
    assert values["KUBERNETES_SERVICE_PORT"] == values["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert values["KUBERNETES_PORT"] == values["KUBERNETES_PORT_443_TCP"] == "tcp://10.96.0.5:443"
    assert values["MY_DB_SERVICE_PORT"] == "5432"
    assert values["MY_DB_SERVICE_PORT_ADMIN_UI"] == values["MY_DB_PORT_80_TCP_PORT"] == "80"
    assert not any(name.startswith(("ELSEWHERE", "BARE")) for name in values)


def test_without_links_only_the_api_server_is_named() -> None:
    pod = msgspec.structs.replace(POD, spec=msgspec.convert({"enableServiceLinks": False}, type(POD.spec)))
    values = service_variables(pod, [API, service("db", "team")])
    assert {name.partition("_")[0] for name in values} == {"KUBERNETES"}


WEB = {"containerPort": 80, "hostPort": 8080}


def pod_with(phase: str = "Running", ip: str = "10.1.0.7", **spec: Any) -> Pod:
    body = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"containers": [], **spec}}
    return msgspec.convert({**body, "status": {"phase": phase, "podIP": ip}}, Pod)


@pytest.mark.parametrize(
    ("pod", "shares", "want"),
    [
        pytest.param(pod_with(containers=[{"ports": [WEB]}]), False, [("TCP", "", 8080, 80)], id="a container's"),
        pytest.param(
            pod_with(initContainers=[{"ports": [WEB], "restartPolicy": "Always"}]),
            False,
            [("TCP", "", 8080, 80)],
            id="a sidecar's",
        ),
        pytest.param(pod_with(initContainers=[{"ports": [WEB]}]), False, [], id="not an init container's"),
        pytest.param(
            pod_with(
                containers=[
                    {"ports": [{**WEB, "hostIP": "127.0.0.1"}, {**WEB, "protocol": "UDP", "hostIP": "0.0.0.0"}]}
                ]
            ),
            False,
            [("TCP", "127.0.0.1", 8080, 80), ("UDP", "", 8080, 80)],
            id="by protocol and address",
        ),
        pytest.param(pod_with(containers=[{"ports": [{"containerPort": 80}]}]), False, [], id="only those that ask"),
        pytest.param(pod_with(hostNetwork=True, containers=[{"ports": [WEB]}]), False, [], id="a pod's own to open"),
        pytest.param(pod_with(containers=[{"ports": [WEB]}]), True, [("TCP", "", 8080, 80)], id="a shared network's"),
        pytest.param(
            pod_with(containers=[{"ports": [{"containerPort": 80, "hostPort": 80}]}]), True, [], id="which has its own"
        ),
        pytest.param(pod_with("Failed", containers=[{"ports": [WEB]}]), False, [], id="not of a pod that has ended"),
        pytest.param(pod_with(ip="", containers=[{"ports": [WEB]}]), False, [], id="nor before it has an address"),
    ],
)
def test_host_ports(pod: Pod, shares: bool, want: list[tuple[str, str, int, int]]) -> None:
    record = host_ports_of(pod, shares_network=shares)
    ports = record.ports if record is not None else ()
    found = [(port.protocol, port.node_address, port.node_port, *port.outer_backends) for port in ports]
    assert found == [(protocol, at, number, Backend("10.1.0.7", inner)) for protocol, at, number, inner in want]
    assert record is None or ports


@pytest.mark.parametrize(
    ("host_ip", "want"),
    [
        pytest.param({}, "10.9.9.9", id="all addresses are its node's"),
        pytest.param({"hostIP": "0.0.0.0"}, "10.9.9.9", id="also when it says so"),
        pytest.param({"hostIP": "127.0.0.1"}, "127.0.0.1", id="one is that one"),
    ],
)
def test_host_ports_of_a_node_with_an_address_of_its_own(host_ip: dict[str, str], want: str) -> None:
    pod = pod_with(containers=[{"ports": [{**WEB, **host_ip}]}])
    record = host_ports_of(pod, shares_network=False, node_address="10.9.9.9")
    assert record is not None
    assert [port.node_address for port in record.ports] == [want]
