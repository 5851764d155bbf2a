"""Objects without a name are refused with all that is wrong with them, as a real server does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import Invalid
from strato.server.embedded import in_memory_server

CASES = [
    pytest.param(catalog.POD, {}, ["metadata.name", "spec.containers"], id="a pod"),
    pytest.param(
        catalog.SERVICE,
        {"spec": {"clusterIP": "None", "ports": [{"targetPort": "web"}]}},
        ["metadata.name", "spec.ports[0].port"],
        id="a service",
    ),
    pytest.param(catalog.CONFIGMAP, {"data": {"a": "b"}}, ["metadata.name"], id="nothing but the name"),
]


@pytest.mark.parametrize(("kind", "body", "want"), CASES)
def test_all_problems_are_told_at_once(kind: Kind, body: dict[str, Any], want: list[str]) -> None:
    clock = VirtualClock()

    async def ask() -> list[str]:
        cluster = LocalCluster(in_memory_server(clock, Random(1)), User("a", ("system:masters",)))
        head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"labels": {"a": "b"}}}
        with pytest.raises(Invalid) as refused:
            await cluster.create(kind, head | body, "default")
        return [cause.field for cause in refused.value.causes]

    assert run_virtual(clock, ask()) == want
