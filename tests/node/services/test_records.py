"""What the data plane is told of a service."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod, Service
from strato.api.discovery import EndpointSlice
from strato.node.sandbox.servicelinks import service_variables
from strato.node.services.records import Backend, record_of

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
    record = record_of(service(**spec), [slice_of(*endpoints)], "here")
    assert record.ports[0].backends == tuple(Backend(f"10.1.0.{last}", 8080) for last in want)


def test_node_ports_have_a_policy_of_their_own() -> None:
    spec = {"externalTrafficPolicy": "Local", "ports": [{"name": "http", "port": 80, "nodePort": 30001}]}
    port = record_of(service(**spec), [slice_of(READY, AWAY)], "here").ports[0]
    assert (len(port.backends), port.outer_backends) == (2, (Backend("10.1.0.1", 8080),))


def test_affinity_has_a_time() -> None:
    config = {"clientIP": {"timeoutSeconds": 5}}
    record = record_of(service(sessionAffinity="ClientIP", sessionAffinityConfig=config), [], "here")
    assert record.affinity_seconds == 5
    assert record_of(service(), [], "here").affinity_seconds == 0


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
