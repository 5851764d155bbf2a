"""HyperNodes from node labels: one per value of each label, from the host up. Pure except for random names.

Source: volcano-controllers Part H, "Source label".
"""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from strato.api.core import Node
from strato.api.volcano.topology import HyperNode
from strato.controllers.topology.desired import SOURCE_LABEL, WantedHyperNode
from strato.controllers.topology.settings import BadDiscovery, NodeLabel

SOURCE: Final = "label"
TYPE_NAME_MAX: Final = 20

_SUFFIX_LETTERS: Final = string.ascii_lowercase + string.digits
_SUFFIX_LENGTH: Final = 5
_ATTEMPTS: Final = 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopologyType:
    """One hierarchy of domains."""

    name: str
    labels: tuple[str, ...]
    """Node labels from tier 1 upwards."""


def parse_types(config: Mapping[str, Any]) -> list[TopologyType]:
    """Read ``networkTopologyTypes``. Types that cannot be used are left out and logged.

    Raises:
        BadDiscovery: The member is not a map of lists of labels.
    """
    try:
        declared = msgspec.convert(config.get("networkTopologyTypes") or {}, dict[str, list[NodeLabel]], strict=False)
    except msgspec.ValidationError as error:
        raise BadDiscovery(f"networkTopologyTypes: {error}") from error
    types = []
    for name, levels in declared.items():
        labels = [level.node_label for level in levels]
        if len(name) > TYPE_NAME_MAX:
            _log.error("topology type left out: type=%s: its name is longer than %d characters", name, TYPE_NAME_MAX)
        elif len(set(labels)) != len(labels):
            _log.error("topology type left out: type=%s: a label is listed twice", name)
        else:
            # labels are listed from the widest domain down to the host, whose label identifies the node itself
            types.append(TopologyType(name, tuple(reversed(labels[:-1]))))
    return types


@dataclass(slots=True)
class _Domain:
    name: str
    tier: int
    label: str
    value: str
    members: set[str] = field(default_factory=set)


def discover(
    types: Sequence[TopologyType], nodes: Iterable[Node], present: Sequence[HyperNode], random: Random
) -> list[WantedHyperNode]:
    """Return the HyperNodes that the nodes' labels describe.

    Args:
        types: The hierarchies.
        nodes: All nodes.
        present: HyperNodes of this source; their names are kept.
        random: Generates the names of new HyperNodes.
    """
    names = _Names(present, random)
    domains: dict[tuple[str, str], _Domain] = {}  # shared by all types: equal labels and values are the same domain
    for node in nodes:
        labels = node.metadata.labels or {}
        for kind in types:
            below = node.metadata.name
            for tier, label in enumerate(kind.labels, start=1):
                value = labels.get(label)
                if value is None:
                    break
                domain = domains.get((label, value))
                if domain is None:
                    name = names.take(kind.name, tier, label, value)
                    domain = domains[label, value] = _Domain(name, tier, label, value)
                domain.members.add(below)
                below = domain.name
    return [
        WantedHyperNode(
            name=domain.name,
            tier=domain.tier,
            tier_name=domain.label,
            member_type="Node" if domain.tier == 1 else "HyperNode",
            members=tuple(sorted(domain.members)),
            labels={SOURCE_LABEL: SOURCE, domain.label: domain.value},
        )
        for domain in domains.values()
    ]


class _Names:
    """Names of HyperNodes: those of present ones for the same domain, else new ones."""

    def __init__(self, present: Sequence[HyperNode], random: Random) -> None:
        self._random = random
        self._taken = {item.metadata.name for item in present}
        self._by_label: dict[tuple[str, str], list[str]] = {}
        for item in present:
            for pair in (item.metadata.labels or {}).items():
                self._by_label.setdefault(pair, []).append(item.metadata.name)

    def take(self, type_name: str, tier: int, label: str, value: str) -> str:
        """Return the name of a domain's HyperNode."""
        prefix = f"hypernode-{re.sub('[^a-z0-9.-]', '-', type_name.lower())}-tier{tier}"
        known = sorted(name for name in self._by_label.get((label, value), ()) if name.startswith(prefix))
        if known:
            return known[0]
        for _ in range(_ATTEMPTS):
            name = f"{prefix}-{''.join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))}"
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise BadDiscovery(f"no free name for a HyperNode {prefix}-… after {_ATTEMPTS} attempts")
