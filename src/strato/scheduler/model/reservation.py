"""What a placed pod holds besides its node's resources: volumes chosen for its claims, devices allocated to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(slots=True, eq=False)
class Reservation:
    """Volumes and devices reserved for one task on one row.

    Attributes:
        row: Row of the node.
        volumes: PersistentVolume by claim key, for claims that get an existing volume.
        provisions: Keys of claims whose volume is to be provisioned for the node.
        devices: Allocation (as ``status.allocation`` of the claim) by claim key, for claims allocated here.
        claims: Keys of all resource claims the task uses; each is reserved for it.
        timeout_seconds: How long its volumes may take to be bound.
    """

    row: int
    volumes: Mapping[str, str] = field(default_factory=dict)
    provisions: tuple[str, ...] = ()
    devices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    timeout_seconds: float = 600.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write before the pod is bound."""
        return not (self.volumes or self.provisions or self.claims)


class PluginGrant(NamedTuple):
    """What a plugin gave a task on a row, as annotations; valid while the task is on that row."""

    row: int
    annotations: Mapping[str, str]
