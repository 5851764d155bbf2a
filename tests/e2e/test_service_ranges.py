"""ServiceCIDRs and IPAddresses as kubectl's users meet them."""

from __future__ import annotations

import ipaddress

import pytest

from tests.e2e.worlds import World

pytestmark = pytest.mark.e2e


def test_addresses_of_services_are_objects(world: World, namespace: str) -> None:
    cluster = world.get("servicecidr", "kubernetes")["spec"]["cidrs"][0]
    world.kubectl("create", "service", "clusterip", "web", "--tcp=80", "-n", namespace)
    address = world.get("service", "web", "-n", namespace)["spec"]["clusterIP"]
    assert ipaddress.ip_address(address) in ipaddress.ip_network(cluster)
    parent = {"resource": "services", "namespace": namespace, "name": "web"}
    assert world.get("ipaddress", address)["spec"]["parentRef"].items() >= parent.items()
    assert world.kubectl("get", "ip", address).splitlines()[1].split() == [address, f"services/{namespace}/web"]
    refused = world.kubectl_process(
        "create", "service", "clusterip", "other", "--tcp=80", f"--clusterip={address}", "-n", namespace, check=False
    )
    assert "provided IP is already allocated" in refused.stderr


def test_names_of_addresses_are_addresses(world: World) -> None:
    manifest = '{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.0.0.01"},"spec":{}}'
    refused = world.kubectl_process("create", "-f", "-", stdin=manifest, check=False).stderr
    assert "metadata.name: Invalid value" in refused
    assert "spec.parentRef: Required value" in refused
