"""Writes the webhook's address and CA bundle into the cluster's webhook configurations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from strato.admission.request import Json
from strato.api import catalog
from strato.api.kinds import Kind
from strato.client.cluster import Cluster, PatchType
from strato.errors import AlreadyExists, Forbidden, NotFound

_log = logging.getLogger(__name__)


async def publish(cluster: Cluster, wanted: Sequence[Json]) -> None:
    """Create missing configurations; of existing ones change ``clientConfig`` only, as the installer owns the rest.

    A missing one that the role may not create is skipped, because an older installation does not have it.

    Raises:
        ApiError: The cluster did not answer, or the role allows nothing.
    """
    missing: list[Forbidden] = []
    for body in wanted:
        try:
            await _publish(cluster, _kind(body), body)
        except Forbidden as error:
            missing.append(error)
            _log.warning("webhook configuration not written: name=%s: %s", body["metadata"]["name"], error)
    if missing and len(missing) == len(wanted):
        raise missing[0]


async def withdraw(cluster: Cluster, wanted: Sequence[Json]) -> None:
    """Delete the configurations.

    Raises:
        ApiError: The cluster did not answer, or the role does not allow it.
    """
    for body in wanted:
        with suppress(NotFound):
            await cluster.delete(_kind(body), body["metadata"]["name"])


def client_config_patch(found: Json, wanted: Json) -> list[Json]:
    """Return the JSON patch that gives each webhook of a configuration the wanted ``clientConfig``; empty if it has.

    Volcano's chart gives some webhooks other names, so a webhook without a namesake gets the only wanted one.
    """
    by_name = {webhook["name"]: webhook["clientConfig"] for webhook in wanted["webhooks"]}
    default = wanted["webhooks"][0]["clientConfig"]
    operations: list[Json] = []
    for index, webhook in enumerate(found.get("webhooks") or ()):
        config = by_name.get(webhook.get("name"), default)
        if any(webhook["clientConfig"].get(key) != config.get(key) for key in ("url", "service", "caBundle")):
            operations.append({"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": config})
    if operations:
        version = found["metadata"]["resourceVersion"]
        operations.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
    return operations


async def _publish(cluster: Cluster, kind: Kind, body: Json) -> None:
    name = body["metadata"]["name"]
    try:
        found = await cluster.get(kind, name)
    except NotFound:
        try:
            await cluster.create(kind, body)
        except AlreadyExists:
            return  # another replica was faster; the next round looks again
        _log.info("webhook configuration created: name=%s", name)
        return
    operations = client_config_patch(found, body)
    if operations:
        await cluster.patch(kind, name, "", operations, patch_type=PatchType.JSON)
        _log.info("webhook configuration updated: name=%s", name)


def _kind(body: Json) -> Kind:
    mutating = body["kind"] == "MutatingWebhookConfiguration"
    return catalog.MUTATINGWEBHOOKCONFIGURATION if mutating else catalog.VALIDATINGWEBHOOKCONFIGURATION
