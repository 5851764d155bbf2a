"""The objects that a job has beside its pods: created when they are missing, and kept up to date.

They are read when the controller sees a job for the first time and when their desired content changes. So the
controller need not watch all Secrets and ConfigMaps of the cluster for the few that belong to jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from strato.api.kinds import Kind
from strato.api.meta import Json, ObjectMeta
from strato.client.cluster import Cluster
from strato.controllers.owners import controller_reference
from strato.controllers.training.record import Companion
from strato.errors import AlreadyExists, NotFound, StratoError

_ABSENT: Final[Json] = {}
"""Marks a companion in `Companions._ensured` as removed."""


class CompanionOfOthers(StratoError):
    """An object with the name of a job's companion has another owner."""

    def __init__(self, kind: Kind, name: str, owner: Kind) -> None:
        self.kind, self.name = kind, name
        super().__init__(f'Resource "{name}" of Kind "{kind.name}" already exists and is not managed by {owner.name}')


class Companions:
    """See the module.

    Args:
        cluster: Where to read and write.
        owner: The kind of the jobs.
    """

    def __init__(self, cluster: Cluster, owner: Kind) -> None:
        self._cluster, self._owner = cluster, owner
        self._ensured: defaultdict[str, dict[tuple[Kind, str], Json]] = defaultdict(dict)
        """The last ensured body of each companion, by uid of the job."""

    def forget(self, owner: str) -> None:
        """Forget the companions of a deleted job."""
        self._ensured.pop(owner, None)

    async def ensure(self, owner: ObjectMeta, wanted: Sequence[Companion]) -> None:
        """Bring the companions of a job up to date, in order.

        Raises:
            CompanionOfOthers: An object with a companion's name has another owner.
        """
        for one in wanted:
            key = one.kind, one.body["metadata"]["name"]
            if self._ensured[owner.uid].get(key) != one.body:
                await self._ensure_one(owner, one)
                self._ensured[owner.uid][key] = one.body

    async def _ensure_one(self, owner: ObjectMeta, wanted: Companion) -> None:
        kind, name = wanted.kind, wanted.body["metadata"]["name"]
        try:
            present: Json = await self._cluster.get(kind, name, owner.namespace)
        except NotFound:
            present = await self._create(owner, wanted)
        owners = present["metadata"].get("ownerReferences") or ()
        if all(one.get("uid") != owner.uid for one in owners):
            if wanted.may_be_others:
                return
            raise CompanionOfOthers(kind, name, self._owner)
        member = wanted.member
        if not member or present.get(member) == wanted.body[member]:
            return
        new = wanted.body[member]
        if isinstance(new, dict):
            new = {**dict.fromkeys(present.get(member) or ()), **new}
        await self._cluster.patch(kind, name, owner.namespace, {member: new})

    async def remove(self, owner: ObjectMeta, kind: Kind, *, look: bool) -> None:
        """Delete the companion of a kind that has the job's name, if the job owns it.

        Args:
            owner: The job.
            kind: The companion's kind.
            look: Whether to read the API although this process has not ensured such a companion: an earlier process may
                have created it.
        """
        key = kind, owner.name
        known = self._ensured[owner.uid].get(key)
        if known == _ABSENT or (known is None and not look):
            return
        with suppress(NotFound):
            present: Json = await self._cluster.get(kind, owner.name, owner.namespace)
            meta = present["metadata"]
            if any(one.get("uid") == owner.uid for one in meta.get("ownerReferences") or ()):
                await self._cluster.delete(kind, owner.name, owner.namespace, uid=meta["uid"])
        self._ensured[owner.uid][key] = _ABSENT

    async def _create(self, owner: ObjectMeta, wanted: Companion) -> Json:
        kind, metadata = wanted.kind, wanted.body["metadata"]
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            **wanted.body,
            **(wanted.made_once() if wanted.made_once is not None else {}),
            "metadata": {
                **metadata,
                "namespace": owner.namespace,
                "ownerReferences": [controller_reference(self._owner.api_version, self._owner.name, owner)],
            },
        }
        try:
            made: Json = await self._cluster.create(kind, body, owner.namespace)
        except AlreadyExists:
            made = await self._cluster.get(kind, metadata["name"], owner.namespace)
        return made
