"""ControllerRevisions: the present and previous templates of a workload, by hash of their content.

Source: apps/v1 ControllerRevision.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from strato.api import catalog
from strato.api.apps import ControllerRevision
from strato.api.kinds import Kind
from strato.api.meta import ObjectMeta
from strato.controllers.context import ControllerContext
from strato.controllers.kube.deployments import SAFE_LETTERS
from strato.controllers.owners import controller_reference, managers_of
from strato.errors import AlreadyExists, NotFound

REVISION_LABEL: Final = "controller-revision-hash"
_BY_OWNER: Final = "owner"


def revision_hash(data: Mapping[str, Any]) -> str:
    """Return the hash of a revision for its name and label: FNV-1 of its JSON, as Kubernetes writes it."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return "".join(SAFE_LETTERS[ord(digit) % len(SAFE_LETTERS)] for digit in str(value))


class Revisions:
    """The revisions of workloads of one kind."""

    def __init__(self, context: ControllerContext, kind: Kind) -> None:
        self._cluster, self._kind = context.cluster, kind
        self._informer = context.informers.informer(ControllerRevision)
        self._informer.add_index(_BY_OWNER, managers_of)

    async def ensure(self, owner: ObjectMeta, template: Mapping[str, Any]) -> str:
        """Return the hash of a template: creates its revision if there is none, and makes an older one the newest."""
        # members sorted by name: clients compare the bytes with those that they would write
        data = json.loads(json.dumps({"spec": {"template": {**template, "$patch": "replace"}}}, sort_keys=True))
        digest = revision_hash(data)
        name = f"{owner.name}-{digest}"
        known = sorted(self._informer.index(_BY_OWNER, owner.uid), key=lambda one: one.revision)
        latest = known[-1].revision if known else 0
        found = next((one for one in known if one.metadata.name == name), None) or await self._equal(known, data)
        kind = catalog.CONTROLLERREVISION
        if found is not None:
            if found.revision < latest:  # a rollback: the older revision becomes the newest
                await self._cluster.patch(kind, found.metadata.name, owner.namespace, {"revision": latest + 1})
            return found.metadata.label(REVISION_LABEL, digest)
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": {**((template.get("metadata") or {}).get("labels") or {}), REVISION_LABEL: digest},
                "annotations": dict(owner.annotations or {}),
                "ownerReferences": [controller_reference(self._kind.api_version, self._kind.name, owner)],
            },
            "data": data,
            "revision": latest + 1,
        }
        with suppress(AlreadyExists):  # created before a restart: the name follows from the content
            await self._cluster.create(kind, body, owner.namespace)
        return digest

    async def _equal(self, known: Iterable[ControllerRevision], data: Mapping[str, Any]) -> ControllerRevision | None:
        """Return a revision with equal content whose name has another hash, as another implementation computes it."""
        for one in known:
            with suppress(NotFound):
                meta = one.metadata
                if (await self._cluster.get(catalog.CONTROLLERREVISION, meta.name, meta.namespace)).get("data") == data:
                    return one
        return None

    async def template(self, owner: ObjectMeta, digest: str) -> dict[str, Any] | None:
        """Return the template of a revision, None when the revision was deleted."""
        try:
            found = await self._cluster.get(catalog.CONTROLLERREVISION, f"{owner.name}-{digest}", owner.namespace)
        except NotFound:
            return None
        template: dict[str, Any] = dict((found.get("data") or {}).get("spec", {}).get("template") or {})
        template.pop("$patch", None)
        return template

    async def prune(self, owner: ObjectMeta, in_use: Collection[str], keep: int) -> None:
        """Delete the oldest of the revisions that no pod uses, so that ``keep`` of them remain."""
        idle = sorted(
            (
                one
                for one in self._informer.index(_BY_OWNER, owner.uid)
                if one.metadata.label(REVISION_LABEL) not in in_use
            ),
            key=lambda one: one.revision,
        )
        for one in idle[: max(0, len(idle) - keep)]:
            with suppress(NotFound):
                await self._cluster.delete(ControllerRevision, one.metadata.name, owner.namespace, uid=one.metadata.uid)
