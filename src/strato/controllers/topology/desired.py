"""The HyperNodes that a source found, and the changes that make the present ones equal to them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.volcano.topology import HyperNode, HyperNodeSpec

SOURCE_LABEL: Final = "volcano.sh/network-topology-source"


@dataclass(frozen=True, slots=True)
class WantedHyperNode:
    """One HyperNode that a source found."""

    name: str
    tier: int
    tier_name: str
    member_type: str
    """``Node`` or ``HyperNode``."""
    members: tuple[str, ...]
    """Names, sorted."""
    labels: Mapping[str, str]

    def spec(self) -> dict[str, Any]:
        """Return ``spec`` as JSON."""
        members = [{"type": self.member_type, "selector": {"exactMatch": {"name": member}}} for member in self.members]
        return {"tier": self.tier, **({"tierName": self.tier_name} if self.tier_name else {}), "members": members}

    def body(self) -> dict[str, Any]:
        """Return the whole object."""
        kind = catalog.HYPERNODE
        return {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": self.spec(),
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that make the HyperNodes of one source equal to those it found."""

    create: Sequence[dict[str, Any]]
    patch: Sequence[tuple[str, dict[str, Any]]]
    delete: Sequence[HyperNode]


def plan_changes(wanted: Iterable[WantedHyperNode], present: Iterable[HyperNode]) -> Changes:
    """Compare the HyperNodes that a source found with the present ones of that source."""
    by_name = {item.metadata.name: item for item in present}
    create, patch = [], []
    for one in wanted:
        known = by_name.pop(one.name, None)
        if known is None:
            create.append(one.body())
            continue
        change: dict[str, Any] = {}
        spec = one.spec()
        if msgspec.convert(spec, HyperNodeSpec) != known.spec:
            change["spec"] = {"tierName": None, **spec}
        if any(known.metadata.label(key) != value for key, value in one.labels.items()):
            change["metadata"] = {"labels": dict(one.labels)}
        if change:
            patch.append((one.name, change))
    return Changes(create, patch, list(by_name.values()))
