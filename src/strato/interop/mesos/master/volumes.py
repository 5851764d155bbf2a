"""Persistent volumes of the master, and their names in the cluster."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from strato.interop.mesos.resources import Resources


@dataclass(frozen=True, slots=True)
class Volume:
    """A persistent volume on one agent. Its id is unique within its role there."""

    agent_id: str
    role: str
    id: str
    size_mib: int
    """Size, rounded up to whole MiB."""
    is_shared: bool = False
    """Whether several tasks may use it at once."""

    @property
    def name(self) -> str:
        """Unique name, independent of the size, which may be part of an object's name."""
        return volume_name(self.agent_id, self.role, self.id)


def volume_name(agent_id: str, role: str, persistence_id: str) -> str:
    """Return the name of a volume, which depends only on these ids."""
    return hashlib.sha256(f"{agent_id}\n{role}\n{persistence_id}".encode()).hexdigest()[:32]


def volumes_of(agent_id: str, resources: Resources) -> dict[str, Volume]:
    """Return the persistent volumes among an agent's resources, by name."""
    found = {}
    for kind, _ in resources:
        if kind.disk is not None and kind.disk.persistence_id is not None:
            size = math.ceil((kind.whole_millis or 0) / 1000)
            volume = Volume(agent_id, kind.role, kind.disk.persistence_id, size, kind.shared)
            found[volume.name] = volume
    return found
