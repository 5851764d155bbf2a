"""Convert persistent volumes among resources into volumes of a pod and mounts of its containers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from strato.api.meta import Json
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.resources import ResourceKind, Resources

SANDBOX = "/mnt/mesos/sandbox"


def claim_name(master: str, volume: str) -> str:
    """Return the name of a volume's claim."""
    return f"{master}-volume-{volume}"


def mount_path(path: str) -> str:
    """Return a volume's mount path in a container; relative paths are below the sandbox."""
    return path if path.startswith("/") else f"{SANDBOX}/{path}"


def claims_of(resources: Resources, agent_id: str, master: str) -> list[str]:
    """Return the claims of the volumes among an agent's resources."""
    return list(dict.fromkeys(claim for claim, _ in _volumes(resources, agent_id, master)))


def pod_volumes(resources: Resources, agent_id: str, master: str) -> list[Json]:
    """Return the volumes of a pod that has such resources."""
    claims = claims_of(resources, agent_id, master)
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def mounts(resources: Resources, agent_id: str, master: str) -> list[Json]:
    """Return the mounts of a container whose task has such resources."""
    found = []
    for claim, kind in _volumes(resources, agent_id, master):
        volume: Json = json.loads(kind.disk.text).get("volume", {}) if kind.disk is not None else {}
        mount: Json = {"name": claim, "mountPath": mount_path(volume.get("container_path", ""))}
        found.append({**mount, "readOnly": True} if volume.get("mode") == "RO" else mount)
    return found


def _volumes(resources: Resources, agent_id: str, master: str) -> Iterator[tuple[str, ResourceKind]]:
    for kind, _ in resources:
        if kind.disk is not None and kind.disk.persistence_id is not None:
            yield claim_name(master, volume_name(agent_id, kind.role, kind.disk.persistence_id)), kind
