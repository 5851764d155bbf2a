"""Configurations of admission, and a server that has them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from strato.clock import SystemClock
from strato.server.embedded import in_memory_server
from tests.server.asking import Client

Json = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Client]:
    """Serve the API in memory."""
    server = in_memory_server(SystemClock(), random.Random(1))
    client = Client(server)
    try:
        yield client
    finally:
        await server.state.webhooks.close()


def rule(*operations: str, **members: Any) -> Json:
    """Return a rule about config maps."""
    return {"operations": list(operations or ("*",)), **CONFIG_MAPS, **members}


def hook(config: Json, name: str = "a.example.com", **members: Any) -> Json:
    """Return a webhook of a configuration."""
    return {
        "name": name,
        "clientConfig": config,
        "rules": [rule()],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **members,
    }


async def configure(client: Client, *hooks: Json, mutates: bool = False, name: str = "hooks") -> None:
    """Store a configuration of webhooks."""
    kind = "MutatingWebhookConfiguration" if mutates else "ValidatingWebhookConfiguration"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    path = f"{GROUP}/{'mutating' if mutates else 'validating'}webhookconfigurations"
    await client.ask("POST", path, {**body, "webhooks": list(hooks)})


def config_map(name: str = "m", **members: Any) -> Json:
    """Return a config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **members}
