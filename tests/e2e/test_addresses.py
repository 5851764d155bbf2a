"""``--host 0.0.0.0``: clients on other machines reach the API server, and check its certificate."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from strato.cli.servicenetwork import machine_addresses
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]


def test_the_certificate_names_every_address_of_the_machine(laptop: Callable[..., EmbeddedWorld]) -> None:
    addresses = machine_addresses()
    if not addresses:
        pytest.skip("this machine has no address beside loopback")
    world = laptop("--no-sandbox", "--hollow-nodes", "1", "--host", "0.0.0.0")
    config = yaml.safe_load(world.kubeconfig.read_text())
    port = config["clusters"][0]["cluster"]["server"].rpartition(":")[2].strip("/")
    for address in ("127.0.0.1", *addresses):
        config["clusters"][0]["cluster"]["server"] = f"https://{address}:{port}"
        world.kubeconfig.write_text(json.dumps(config))
        done = world.kubectl_process("get", "--raw", "/version", check=False)
        assert done.returncode == 0, f"{address}: {done.stderr}"
