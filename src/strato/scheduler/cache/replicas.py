"""Several active schedulers without a leader: each owns a share of pods, groups and nodes by consistent hashing.

A pod and its group hash by the name of their first owner, so that a gang is never split; a node hashes by its name
(spec scheduler-core 3.2). When a replica is added, only about one in n keys changes hands.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from strato.api.core import Node, Pod
from strato.api.meta import Object
from strato.api.volcano.scheduling import PodGroup

_POINTS: Final = 128
"""Points of each replica on the ring; with this many, shares differ by some percent only."""


class Replicas:
    """A ring of ``base-0`` … ``base-(count-1)``, seen by one of them.

    Args:
        name: Name of this replica, ``base-ordinal``.
        count: How many there are.
    """

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = max(count, 1)
        base = name.rpartition("-")[0]
        points = sorted((_hash(f"{base}-{i}/{n}"), f"{base}-{i}") for i in range(self.count) for n in range(_POINTS))
        self._at = [point for point, _ in points]
        self._member = [member for _, member in points]

    def owner(self, key: str) -> str:
        """Return the name of the replica that owns a key."""
        return self._member[bisect(self._at, _hash(key)) % len(self._member)]

    def owns(self, view: Object) -> bool:
        """Whether this replica owns an object; objects of other kinds than pods, groups and nodes belong to all."""
        if isinstance(view, Node):
            return self.owner(view.metadata.name) == self.name
        if isinstance(view, Pod | PodGroup):
            if self.owner(_owner_key(view)) == self.name:
                return True
            node = view.spec.node_name if isinstance(view, Pod) else ""
            return bool(node) and self.owner(node) == self.name
        return True


def from_environment(variables: Mapping[str, str]) -> Replicas | None:
    """Return the ring that Volcano's variables describe; None when there is one scheduler."""
    name = variables.get("SCHEDULER_POD_NAME", "")
    if variables.get("MULTI_SCHEDULER_ENABLE", "").lower() != "true" or not name:
        return None
    count = variables.get("SCHEDULER_NUM", "1")
    return Replicas(name, int(count) if count.isdecimal() else 1)


def _owner_key(view: Object) -> str:
    owners = view.metadata.owner_references
    return owners[0].name if owners else view.metadata.name


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
