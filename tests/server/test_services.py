"""Addresses and node ports of services, and the services that a cluster has from the start."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.clock import VirtualClock, run_virtual
from strato.server.embedded import in_memory_server
from strato.server.services.allocation import NODE_PORTS, NumberPool
from strato.server.services.kubernetes import Advertised, publish
from tests.server.asking import MERGE, Client

SERVICES = "/api/v1/namespaces/default/services"
RANGE = IPv4Network("10.96.0.0/12")


def body(name: str = "s", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def serving(main: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        await main(Client(in_memory_server(clock, random.Random(1))))

    run_virtual(clock, run())


async def made(client: Client, name: str = "s", **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await client.ask("POST", SERVICES, body(name, **spec)))["spec"]
    return found


def test_addresses_are_given_out_once_and_taken_back() -> None:
    async def main(client: Client) -> None:
        one, other = await made(client, "one"), await made(client, "other")
        assert one["clusterIP"] != other["clusterIP"]
        assert one["clusterIPs"] == [one["clusterIP"]]
        assert all(IPv4Address(spec["clusterIP"]) in RANGE for spec in (one, other))
        refused = await client.ask("POST", SERVICES, body("third", clusterIP=one["clusterIP"]), code=422)
        assert "failed to allocate IP" in refused["message"]
        assert "provided IP is already allocated" in refused["message"]
        await client.ask("DELETE", f"{SERVICES}/one")
        assert (await made(client, "third", clusterIP=one["clusterIP"]))["clusterIP"] == one["clusterIP"]

    serving(main)


def test_types_have_the_addresses_they_need() -> None:
    async def main(client: Client) -> None:
        assert (await made(client, "bare", clusterIP="None"))["clusterIP"] == "None"
        assert "clusterIP" not in await made(client, "outside", type="ExternalName", externalName="a.example")
        ports = [{"name": n, "port": 80, "protocol": p} for n, p in (("t", "TCP"), ("u", "UDP"))]
        both = await made(client, "both", type="NodePort", ports=[*ports, {"name": "x", "port": 81}])
        numbers = [port["nodePort"] for port in both["ports"]]
        assert numbers[0] == numbers[1] != numbers[2]
        assert all(number in NODE_PORTS for number in numbers)

    serving(main)


REFUSED = [
    pytest.param({"clusterIP": "192.0.2.1"}, "the provided network does not match the current range", id="range"),
    pytest.param(
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767",
        id="port range",
    ),
    pytest.param({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack", id="both"),
    pytest.param({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]: Invalid value", id="other family"),
]


@pytest.mark.parametrize(("spec", "want"), REFUSED)
def test_what_cannot_be_had_is_refused(spec: dict[str, Any], want: str) -> None:
    async def main(client: Client) -> None:
        assert want in (await client.ask("POST", SERVICES, body(**spec), code=422))["message"]

    serving(main)


def test_an_update_keeps_what_it_leaves_out_and_drops_what_its_type_has_no_use_for() -> None:
    async def main(client: Client) -> None:
        first = await made(client, type="NodePort")
        path = f"{SERVICES}/s"
        again = (await client.ask("PUT", path, body(type="NodePort")))["spec"]
        assert again == first
        plain = (await client.ask("PATCH", path, {"spec": {"type": "ClusterIP"}}, MERGE))["spec"]
        assert "nodePort" not in plain["ports"][0]
        assert plain["clusterIP"] == first["clusterIP"]
        named = {"spec": {"type": "ExternalName", "externalName": "a.example"}}
        assert "clusterIP" not in (await client.ask("PATCH", path, named, MERGE))["spec"]
        back = (await client.ask("PATCH", path, {"spec": {"type": "ClusterIP"}}, MERGE))["spec"]
        assert IPv4Address(back["clusterIP"]) in RANGE

    serving(main)


def test_a_dry_run_takes_nothing() -> None:
    async def main(client: Client) -> None:
        tried = await client.ask("POST", SERVICES, body(clusterIP="10.96.0.77"), dryRun="All")
        assert tried["spec"]["clusterIP"] == "10.96.0.77"
        await made(client, "other", clusterIP="10.96.0.77")

    serving(main)


def test_the_servers_own_service_comes_back() -> None:
    async def main(client: Client) -> None:
        publish(client.server.state, Advertised(network=RANGE, service_port=443, address="192.0.2.9", port=6443))
        await asyncio.sleep(0)
        await client.ask("DELETE", f"{SERVICES}/kubernetes")
        await client.ask("DELETE", "/api/v1/namespaces/default/endpoints/kubernetes")
        service = await client.ask("GET", f"{SERVICES}/kubernetes")
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
        endpoints = await client.ask("GET", "/api/v1/namespaces/default/endpoints/kubernetes")
        assert endpoints["subsets"][0]["addresses"] == [{"ip": "192.0.2.9"}]
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        assert (await client.ask("GET", slices))["endpoints"][0]["addresses"] == ["192.0.2.9"]
        names = await client.ask("GET", "/api/v1/namespaces/kube-system/services/kube-dns")
        assert names["spec"]["clusterIP"] == "10.96.0.10"
        refused = await client.ask("POST", SERVICES, body(clusterIP="10.96.0.1"), code=422)
        assert "already allocated" in refused["message"]

    serving(main)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3))))
def test_a_pool_never_gives_a_number_to_two(steps: list[tuple[str, int]]) -> None:
    pool, held = NumberPool(range(10, 22), 3), dict[str, set[int]]()
    for owner, count in steps:
        pool.hold(owner, ())
        held[owner] = set()
        for _ in range(count):
            number = pool.find(held[owner])
            if number is not None:
                held[owner].add(number)
        pool.hold(owner, held[owner])
        everything = [number for numbers in held.values() for number in numbers]
        assert len(everything) == len(set(everything))
        assert all(pool.owner(number) == name for name, numbers in held.items() for number in numbers)
        free = set(range(10, 22)) - set(everything)
        assert (pool.find() is None) is not bool(free)
