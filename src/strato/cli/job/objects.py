"""Read a job with the objects it owns, for ``top`` and ``tree``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from strato.api import catalog
from strato.api.kinds import Kind
from strato.client.cluster import Cluster, Json
from strato.errors import Forbidden

TASK_ANNOTATION = "volcano.sh/task-spec"
_OWNED = (catalog.SERVICE, catalog.CONFIGMAP, catalog.SECRET, catalog.NETWORKPOLICY, catalog.PERSISTENTVOLUMECLAIM)


@dataclass(frozen=True, slots=True)
class JobObjects:
    """A job and the objects it owns, as read at one time."""

    job: Json
    groups: Sequence[Json]
    pods: Sequence[Json]
    others: Sequence[tuple[Kind, Json]]
    """Services, config maps, secrets, policies and claims it owns."""

    def pods_of(self, task: str) -> list[Json]:
        """Return the pods of one task, by index."""
        mine = [pod for pod in self.pods if task_of(pod) == task]
        return sorted(mine, key=lambda pod: _numbered(pod["metadata"]["name"]))


def task_of(pod: Json) -> str:
    """Return the task a pod belongs to."""
    name: str = (pod["metadata"].get("annotations") or {}).get(TASK_ANNOTATION, "")
    return name


async def read_objects(cluster: Cluster, namespace: str, name: str, *, others: bool = True) -> JobObjects:
    """Read a job with its pod group, pods and, if asked for, whatever else it owns.

    Kinds that the user may not read (often secrets) are left out.

    Raises:
        ApiError: The job does not exist, or the server did not answer.
    """
    job = await cluster.get(catalog.VCJOB, name, namespace)
    uid = job["metadata"]["uid"]

    async def owned(kind: Kind) -> list[tuple[Kind, Json]]:
        try:
            page = await cluster.list(kind, namespace)
        except Forbidden:
            return []
        return [(kind, item) for item in page.items if is_owned(item, uid)]

    pods, groups = await asyncio.gather(
        cluster.list(catalog.POD, namespace, label_selector=f"volcano.sh/job-name={name}"), owned(catalog.PODGROUP)
    )
    rest = await asyncio.gather(*(owned(kind) for kind in (_OWNED if others else ())))
    mine = [pod for pod in pods.items if is_owned(pod, uid)]
    return JobObjects(job, [group for _, group in groups], mine, [one for found in rest for one in found])


def is_owned(item: Json, uid: str) -> bool:
    """Whether an object is owned by the one with this uid."""
    return any(reference.get("uid") == uid for reference in item["metadata"].get("ownerReferences") or ())


def _numbered(name: str) -> tuple[str, int]:
    stem, _, index = name.rpartition("-")
    return (stem, int(index)) if index.isdigit() else (name, 0)
