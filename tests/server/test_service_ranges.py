"""ServiceCIDRs and IPAddresses: where cluster IPs are from, and an object for each that is taken."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from tests.server.asking import MERGE, Client
from tests.server.test_services import SERVICES, body, made, serving

GROUP = "/apis/networking.k8s.io/v1"
CIDRS, ADDRESSES = f"{GROUP}/servicecidrs", f"{GROUP}/ipaddresses"
EXTRA = IPv4Network("10.200.0.0/29")
PARENT = {"group": "a.b", "resource": "things", "name": "x"}


def cidr(*ranges: str, name: str = "extra") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(ranges or (str(EXTRA),))}}


def address(name: str, **parent: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parentRef": {**PARENT, **parent}}}


def test_the_clusters_own_range_is_there_and_stays() -> None:
    async def main(client: Client) -> None:
        found = await client.ask("GET", f"{CIDRS}/kubernetes")
        assert found["spec"]["cidrs"] == ["10.96.0.0/12"]
        assert found["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
        (ready,) = found["status"]["conditions"]
        assert (ready["type"], ready["status"]) == ("Ready", "True")
        await client.ask("DELETE", f"{CIDRS}/kubernetes")
        again = await client.ask("GET", f"{CIDRS}/kubernetes")
        assert again["metadata"]["uid"] != found["metadata"]["uid"]

    serving(main)


def test_each_address_of_a_service_is_an_object() -> None:
    async def main(client: Client) -> None:
        own = (await made(client))["clusterIP"]
        await made(client, "headless", clusterIP="None")
        (found,) = (await client.ask("GET", ADDRESSES))["items"]
        assert found["metadata"]["name"] == own
        assert found["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io"
        parent = {"group": "", "resource": "services", "namespace": "default", "name": "s"}
        assert found["spec"]["parentRef"] == parent
        await client.ask("DELETE", f"{ADDRESSES}/{own}")
        await client.ask("GET", f"{ADDRESSES}/{own}")  # it is in use
        await client.ask("PATCH", f"{SERVICES}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}}, MERGE)
        assert (await client.ask("GET", ADDRESSES))["items"] == []

    serving(main)


def test_an_address_that_a_user_took_is_not_given_out() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", ADDRESSES, address("10.96.0.77"))
        await client.ask("POST", ADDRESSES, address("fd00::1"))
        refused = await client.ask("POST", SERVICES, body(clusterIP="10.96.0.77"), code=422)
        assert "provided IP is already allocated" in refused["message"]
        await client.ask("DELETE", f"{ADDRESSES}/10.96.0.77")
        assert (await made(client, clusterIP="10.96.0.77"))["clusterIP"] == "10.96.0.77"

    serving(main)


def test_a_further_range_widens_what_is_given_out() -> None:
    async def main(client: Client) -> None:
        wanted = str(EXTRA[2])
        await client.ask("POST", SERVICES, body(clusterIP=wanted), code=422)
        made_cidr = await client.ask("POST", CIDRS, cidr())
        assert made_cidr["status"] == {}
        assert (await made(client, clusterIP=wanted))["clusterIP"] == wanted
        await client.ask("DELETE", f"{CIDRS}/extra")
        kept = await client.ask("GET", f"{CIDRS}/extra")
        (condition,) = kept["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Terminating")
        refused = await client.ask("POST", SERVICES, body("other", clusterIP=str(EXTRA[3])), code=422)
        assert "does not match the current range" in refused["message"]
        await client.ask("DELETE", f"{SERVICES}/s")
        await client.ask("GET", f"{CIDRS}/extra", code=404)

    serving(main)


def test_when_one_range_is_full_the_next_is_used() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CIDRS, cidr())
        server = client.server
        assert server.state.services is not None
        pool = server.state.services._addresses  # type: ignore[attr-defined]  # it has it
        pool.serve({numbers: static for numbers, static in pool._static.items() if len(numbers) < 100})
        found = {IPv4Address((await made(client, f"s{n}"))["clusterIP"]) for n in range(6)}
        assert found == set(EXTRA.hosts())
        refused = await client.ask("POST", SERVICES, body("seventh"), code=500)
        assert "range is full" in refused["message"]

    serving(main)


@pytest.mark.parametrize(
    ("ranges", "want"),
    [
        ([], "at least one CIDR required"),
        (["10.0.0.0/8", "fd00::/64", "10.1.0.0/16"], "may only hold up to 2 values"),
        (["10.0.0.1/8"], "must not have bits set beyond the prefix length"),
        (["10.0.0.0"], "must be a valid CIDR value"),
        (["10.0.0.0/8", "10.1.0.0/16"], "no more than one IP for each IP family"),
    ],
)
def test_a_range_that_cannot_be_is_refused(ranges: list[str], want: str) -> None:
    async def main(client: Client) -> None:
        refused = await client.ask("POST", CIDRS, {**cidr(), "spec": {"cidrs": ranges}}, code=422)
        assert want in refused["message"]

    serving(main)


def test_ranges_and_parents_do_not_change() -> None:
    async def main(client: Client) -> None:
        await client.ask("POST", CIDRS, cidr())
        change = {"spec": {"cidrs": ["10.201.0.0/29"]}}
        refused = await client.ask("PATCH", f"{CIDRS}/extra", change, MERGE, code=422)
        assert "field is immutable" in refused["message"]
        await client.ask("PATCH", f"{CIDRS}/extra", {"spec": {"cidrs": [str(EXTRA), "fd00::/64"]}}, MERGE)
        await client.ask("POST", ADDRESSES, address("192.0.2.1"))
        other = {"spec": {"parentRef": {"name": "y"}}}
        refused = await client.ask("PATCH", f"{ADDRESSES}/192.0.2.1", other, MERGE, code=422)
        assert "field is immutable" in refused["message"]

    serving(main)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (address("10.0.0.01"), "must not have leading 0s"),
        (address("FD00::1"), 'must be in canonical form ("fd00::1")'),
        (address("::ffff:10.0.0.1"), "must not be an IPv4-mapped IPv6 address"),
        (address("10.0.0.1", resource=""), "spec.parentRef.resource: Required value"),
        ({"metadata": {"name": "10.0.0.1"}, "spec": {}}, "spec.parentRef: Required value"),
    ],
)
def test_an_address_that_cannot_be_is_refused(obj: dict[str, Any], want: str) -> None:
    async def main(client: Client) -> None:
        assert want in (await client.ask("POST", ADDRESSES, obj, code=422))["message"]

    serving(main)


def test_addresses_are_known_again_after_a_restart() -> None:
    """What a server finds in its store when it begins is what it kept while it ran."""
    from strato.server.services.allocation import ServiceAddresses

    async def main(client: Client) -> None:
        await client.ask("POST", CIDRS, cidr())
        await client.ask("POST", ADDRESSES, address("10.96.0.77"))
        await made(client, clusterIP=str(EXTRA[2]))
        client.server.state.services = ServiceAddresses(client.server.state)
        for taken in ("10.96.0.77", str(EXTRA[2])):
            refused = await client.ask("POST", SERVICES, body("other", clusterIP=taken), code=422)
            assert "already allocated" in refused["message"]

    serving(main)
