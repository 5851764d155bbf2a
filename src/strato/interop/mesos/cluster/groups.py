"""Queues for roles, and in them a pod group for the tasks of each framework and role."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.names import is_label
from strato.client.cluster import Cluster
from strato.errors import AlreadyExists, ApiError
from strato.interop.mesos.cluster.pods import FRAMEWORK, MASTER
from strato.interop.mesos.roles import UNRESERVED

ROLE = "mesos.strato.dev/role"
"""Annotation of queues and pod groups: the role, whose name may not be a valid object name."""
_log = logging.getLogger(__name__)


def queue_of(role: str) -> str:
    """Return the name of a role's queue: the role if that is a valid name, else its valid characters and a hash."""
    if role == UNRESERVED:
        return "default"
    return role if is_label(role) else _named(role)


def _named(text: str) -> str:
    readable = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())[:40].strip("-")
    return f"{readable or 'role'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class GroupCreator:
    """Creates queues and pod groups when the first task needs them.

    Args:
        weight: Returns a role's weight.
    """

    def __init__(self, cluster: Cluster, master: str, namespace: str, weight: Callable[[str], float]) -> None:
        self._cluster, self._master, self._namespace, self._weight = cluster, master, namespace, weight
        self._made: set[tuple[str, str]] = set()
        self._has_kinds = True

    async def ensure(self, framework_id: str, role: str) -> str:
        """Return the pod group of a framework's tasks in a role; empty if the cluster has no such kind."""
        name = _named(f"{self._master}/{framework_id}/{role}")
        if (framework_id, role) in self._made or not self._has_kinds:
            return name if self._has_kinds else ""
        try:
            await self._ensure_queue(role)
            await self._create(
                catalog.PODGROUP,
                {
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "PodGroup",
                    "metadata": {
                        "name": name,
                        "namespace": self._namespace,
                        "labels": {MASTER: self._master},
                        "annotations": {ROLE: role, FRAMEWORK: framework_id},
                    },
                    "spec": {"minMember": 1, "queue": queue_of(role)},
                },
                self._namespace,
            )
        except ApiError as error:
            _log.warning("tasks of role %s belong to no pod group: %s", role, error)
            self._has_kinds = False
            return ""
        self._made.add((framework_id, role))
        return name

    async def _ensure_queue(self, role: str) -> None:
        parent = role.rpartition("/")[0]
        if parent:
            await self._ensure_queue(parent)
        spec: Json = {"weight": max(1, round(self._weight(role))), "reclaimable": True}
        if parent:
            spec["parent"] = queue_of(parent)
        metadata = {"name": queue_of(role), "annotations": {ROLE: role}}
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}
        await self._create(catalog.QUEUE, body, "")

    async def _create(self, kind: Kind, body: Json, namespace: str) -> None:
        try:
            await self._cluster.create(kind, body, namespace)
        except AlreadyExists:
            return

    async def remove(self, framework_id: str) -> None:
        """Delete the pod groups of a framework that is gone."""
        for made in [made for made in self._made if made[0] == framework_id]:
            self._made.discard(made)
            try:
                await self._cluster.delete(
                    catalog.PODGROUP, _named(f"{self._master}/{framework_id}/{made[1]}"), self._namespace
                )
            except ApiError as error:
                _log.info("the pod group of framework %s stays: %s", framework_id, error)
