"""Persistent volumes as claims: created by CREATE, mounted by tasks that hold the volume, deleted by DESTROY.

On the embedded cluster a claim is a directory of this machine, which outlives tasks and restarts. On other clusters
agents offer no volumes: the master binds pods itself, so a storage class that waits for the scheduler never provisions
for them, and one that provisions at once may choose a place that the node cannot reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from strato.api import catalog
from strato.api.claims import LOCAL_PROVISIONER, is_bound, size_of
from strato.api.core import Node, PersistentVolume, PersistentVolumeClaim
from strato.api.meta import Json
from strato.api.storage import StorageClass
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, NotFound, one_line
from strato.interop.mesos.cluster.mounts import claim_name
from strato.interop.mesos.cluster.pods import MASTER
from strato.interop.mesos.master.volumes import Volume

_LONGEST_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_HOLLOW = "hollow"


class NotBound(Exception):
    """A claim has not been bound; the message says which, and why."""


class Claims:
    """The claims of one master's volumes.

    Args:
        volumes: The master's volumes by name; read when a claim is written.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, master: str, namespace: str, volumes: Mapping[str, Volume]
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._master, self._namespace, self._volumes = master, namespace, volumes
        self._class = ""
        """Storage class whose volumes are directories of this machine; empty if there is none."""

    async def recover(self) -> list[str]:
        """Find the storage class; return the names of the volumes that have claims."""
        try:
            classes = (await self._cluster.list(StorageClass)).items
        except ApiError:  # not allowed to read storage classes, as on a real cluster
            return []
        wanted = (LOCAL_PROVISIONER, "Delete", "Immediate")
        local = [c for c in classes if (c.provisioner, c.reclaim_policy, c.volume_binding_mode) == wanted]
        if not local:
            return []
        self._class = min(each.metadata.name for each in local)
        page = await self._cluster.list(
            PersistentVolumeClaim, self._namespace, label_selector=f"{MASTER}={self._master}"
        )
        prefix = claim_name(self._master, "")
        return [claim.metadata.name.removeprefix(prefix) for claim in page.items]

    def are_seen_on(self, node: Node) -> bool:
        """Whether pods on a node can mount volumes."""
        return bool(self._class) and node.metadata.label("node.kubernetes.io/instance-type") != _HOLLOW

    def build(self, name: str) -> tuple[str, Json | None]:
        """Return the claim of a volume, None for one that is to be deleted."""
        volume, claim = self._volumes.get(name), claim_name(self._master, name)
        if volume is None:
            return claim, None
        spec = {
            "accessModes": ["ReadWriteMany" if volume.is_shared else "ReadWriteOnce"],
            "storageClassName": self._class,
            "resources": {"requests": {"storage": f"{volume.size_mib}Mi"}},
        }
        metadata = {"name": claim, "namespace": self._namespace, "labels": {MASTER: self._master}}
        return claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    async def send(self, requests: Sequence[tuple[str, Json | None]]) -> Sequence[ApiError | None]:
        """Create, grow or delete claims; return the error of each."""
        return [await self._send_one(name, body) for name, body in requests]

    async def _send_one(self, name: str, body: Json | None) -> ApiError | None:
        try:
            if body is None:
                await self._cluster.delete(catalog.PERSISTENTVOLUMECLAIM, name, self._namespace)
            else:
                await self._ensure(name, body)
        except ApiError as error:
            return None if body is None and isinstance(error, NotFound) else error
        return None

    async def _ensure(self, name: str, body: Json) -> None:
        """Create a claim or raise its size; it need not shrink, as its directory has no fixed size."""
        wanted: Json = body["spec"]["resources"]
        while True:
            try:
                await self._cluster.create(catalog.PERSISTENTVOLUMECLAIM, body, self._namespace)
                return
            except AlreadyExists:
                claim = await self._claim(name)
            if claim is not None and claim.metadata.deletion_timestamp is None:
                break
            await self._clock.sleep(_LOOK_SECONDS)  # a destroyed volume's claim of this name is being deleted
        if size_of(claim.spec.resources.requests) < size_of(wanted["requests"]):
            change = {"spec": {"resources": wanted}}
            await self._cluster.patch(catalog.PERSISTENTVOLUMECLAIM, name, self._namespace, change)

    async def _claim(self, name: str) -> PersistentVolumeClaim | None:
        try:
            return await self._cluster.get(PersistentVolumeClaim, name, self._namespace)
        except NotFound:
            return None

    async def directory(self, name: str) -> str | None:
        """Return the directory of a volume on this machine; None if it has none."""
        claim = await self._claim(claim_name(self._master, name)) if name in self._volumes and self._class else None
        if claim is None or not is_bound(claim):
            return None
        try:
            volume = await self._cluster.get(PersistentVolume, claim.spec.volume_name)
        except ApiError:
            return None
        is_made = volume.metadata.name == f"pvc-{claim.metadata.uid}"  # not one that a user made for another path
        return volume.spec.host_path.path if is_made and volume.spec.host_path is not None else None

    async def wait_bound(self, names: Iterable[str]) -> None:
        """Wait until claims are bound.

        Raises:
            NotBound: A claim was not bound in time.
        """
        deadline = self._clock.now() + _LONGEST_WAIT_SECONDS
        for name in names:
            while why := await self._why_unbound(name):
                if self._clock.now() >= deadline:
                    raise NotBound(f"the claim {name} of a persistent volume cannot be mounted: {why}")
                await self._clock.sleep(_LOOK_SECONDS)

    async def _why_unbound(self, name: str) -> str:
        try:
            claim = await self._claim(name)
        except ApiError as error:
            return one_line(error)
        if claim is None:
            return "it is not there"
        if claim.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return "" if is_bound(claim) else "it is not bound"
