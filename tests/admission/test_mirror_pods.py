"""Pods that a node makes by itself get nothing of the API; their equals that others make do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strato.admission import Chain, ChainOptions
from strato.api import catalog
from strato.api.pods import MIRROR
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.server.embedded import in_memory_server


@pytest.mark.parametrize("order", ["mnm", "nmn", "nnm", "mmn"])
def test_only_mirror_pods_have_no_service_account(order: str) -> None:
    """Whoever came first with an equal spec, which the server remembers."""
    clock = VirtualClock()

    async def scenario() -> list[Any]:
        server = in_memory_server(clock, Random(1), chain=Chain(ChainOptions(mount_service_account_tokens=True)))
        cluster = LocalCluster(server, User("a", ("system:masters",)))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await cluster.create(catalog.SERVICEACCOUNT, account, "default")
        found = []
        for number, letter in enumerate(order):
            annotations = {MIRROR: "x"} if letter == "m" else {}
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            made = await cluster.create(catalog.POD, body, "default")
            found.append((made["spec"].get("serviceAccountName"), bool(made["spec"].get("volumes"))))
        return found

    want = {"m": (None, False), "n": ("default", True)}
    assert run_virtual(clock, scenario()) == [want[letter] for letter in order]
