"""Publishes the differences of the shadow policy in a ConfigMap, from which ``strato shadow`` reads them."""

from __future__ import annotations

from typing import Final

import msgspec

from strato.api import catalog
from strato.client.cluster import Cluster, Json
from strato.decoding import UNDECODABLE
from strato.errors import InvalidInput, NotFound, Problem
from strato.scheduler.shadow.findings import Summary

NAMESPACE: Final = "volcano-system"
LABEL: Final = "strato.dev/shadow"
_KEY: Final = "summary.json"


def name_of(scheduler: str) -> str:
    """Return the name of the ConfigMap of a scheduler."""
    return f"strato-shadow-{scheduler}"


def to_config_map(summary: Summary) -> Json:
    """Return a summary as an object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name_of(summary.scheduler), "namespace": NAMESPACE, "labels": {LABEL: "true"}},
        "data": {_KEY: msgspec.json.encode(summary).decode()},
    }


def from_config_map(found: Json) -> Summary:
    """Read a summary.

    Raises:
        InvalidInput: The object is no summary that a scheduler has published.
    """
    try:
        return msgspec.json.decode(str((found.get("data") or {}).get(_KEY, "")), type=Summary)
    except UNDECODABLE as error:
        name = found.get("metadata", {}).get("name", "")
        raise InvalidInput(f"ConfigMap {NAMESPACE}/{name}", [Problem(f"data[{_KEY}]", str(error))]) from error


async def publish(cluster: Cluster, summary: Summary) -> None:
    """Write a summary.

    Raises:
        ApiError: The server refuses.
    """
    body = to_config_map(summary)
    try:
        await cluster.patch(catalog.CONFIGMAP, body["metadata"]["name"], NAMESPACE, body)
    except NotFound:
        await cluster.create(catalog.CONFIGMAP, body, NAMESPACE)


async def published(cluster: Cluster) -> list[Summary]:
    """Return what the schedulers of a cluster have published, by their names.

    Raises:
        ApiError: The server refuses.
        InvalidInput: An object is no summary that a scheduler has published.
    """
    found = await cluster.list(catalog.CONFIGMAP, NAMESPACE, label_selector=LABEL)
    return sorted((from_config_map(item) for item in found.items), key=lambda summary: summary.scheduler)
