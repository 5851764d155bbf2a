"""The objects that a job has beside its pods: made when they are missing, and kept up to date.

They are read when the job is seen first and when what they should say changes, so that the cluster's Secrets and
ConfigMaps need not be watched for the few that are ours.
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
"""Remembered of a companion that was removed."""


class CompanionOfOthers(StratoError):
    """An object has the name of a job's companion and belongs to something else."""

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
        """What they were found or made to be, by uid of the job."""

    def forget(self, owner: str) -> None:
        """Drop what is remembered for a job that is gone."""
        self._ensured.pop(owner, None)

    async def ensure(self, owner: ObjectMeta, wanted: Sequence[Companion]) -> None:
        """Bring the companions of a job up to date, in order.

        Raises:
            CompanionOfOthers: One of them belongs to something else.
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
        """Delete the companion of a kind that is called like the job, if it is the job's.

        Args:
            owner: The job.
            kind: The companion's.
            look: Whether one may be there that this process does not remember.
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
