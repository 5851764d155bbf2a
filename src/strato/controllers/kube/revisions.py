"""ControllerRevisions: the templates a workload has had, by hash of their content.

Source: apps/v1 ControllerRevision.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from strato.api import catalog
from strato.api.apps import ControllerRevision
from strato.api.kinds import Kind
from strato.api.meta import ObjectMeta
from strato.client.cluster import Cluster
from strato.client.informer import Informer
from strato.controllers.kube.deployments import template_hash
from strato.controllers.owners import controller_reference
from strato.errors import AlreadyExists, NotFound

REVISION_LABEL: Final = "controller-revision-hash"
_BY_OWNER: Final = "owner"


class Revisions:
    """The revisions of workloads of one kind."""

    def __init__(self, cluster: Cluster, informer: Informer[ControllerRevision], kind: Kind) -> None:
        self._cluster = cluster
        self._informer = informer
        self._kind = kind
        informer.add_index(_BY_OWNER, lambda one: [o.uid for o in one.metadata.owner_references or () if o.controller])

    async def ensure(self, owner: ObjectMeta, template: Mapping[str, Any], selector: Mapping[str, Any]) -> str:
        """Return the hash of a template, making its revision when it is new."""
        digest = template_hash(template)
        name = f"{owner.name}-{digest}"
        if self._informer.get((owner.namespace, name)) is not None:
            return digest
        known = self._informer.index(_BY_OWNER, owner.uid)
        kind = catalog.CONTROLLERREVISION
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": {**(selector.get("matchLabels") or {}), REVISION_LABEL: digest},
                "ownerReferences": [controller_reference(self._kind.api_version, self._kind.name, owner)],
            },
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
            "revision": max((one.revision for one in known), default=0) + 1,
        }
        with suppress(AlreadyExists):  # ours from before a restart; its name follows from its content
            await self._cluster.create(kind, body, owner.namespace)
        return digest

    async def template(self, owner: ObjectMeta, digest: str) -> dict[str, Any] | None:
        """Return the template of a revision, None when it is not kept."""
        try:
            found = await self._cluster.get(catalog.CONTROLLERREVISION, f"{owner.name}-{digest}", owner.namespace)
        except NotFound:
            return None
        template: dict[str, Any] = dict((found.get("data") or {}).get("spec", {}).get("template") or {})
        template.pop("$patch", None)
        return template

    async def prune(self, owner: ObjectMeta, in_use: Collection[str], keep: int) -> None:
        """Delete the oldest revisions that no pod has, beyond ``keep``."""
        idle = sorted(
            (
                one
                for one in self._informer.index(_BY_OWNER, owner.uid)
                if one.metadata.label(REVISION_LABEL) not in in_use
            ),
            key=lambda one: one.revision,
        )
        for one in idle[: max(0, len(idle) - keep)]:
            try:
                await self._cluster.delete(ControllerRevision, one.metadata.name, owner.namespace, uid=one.metadata.uid)
            except NotFound:
                continue
