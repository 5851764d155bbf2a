"""Specs of agents and frameworks for the allocator: immutable values, replaced on each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NewType

from strato.interop.mesos.constraints import OfferConstraints
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.resources import NOTHING, Resources

AgentId = NewType("AgentId", str)
FrameworkId = NewType("FrameworkId", str)

MULTI_ROLE = "MULTI_ROLE"
HIERARCHICAL_ROLE = "HIERARCHICAL_ROLE"
RESERVATION_REFINEMENT = "RESERVATION_REFINEMENT"
GPU_RESOURCES = "GPU_RESOURCES"
REVOCABLE_RESOURCES = "REVOCABLE_RESOURCES"
SHARED_RESOURCES = "SHARED_RESOURCES"
REGION_AWARE = "REGION_AWARE"

AGENT_CAPABILITIES = frozenset({MULTI_ROLE, HIERARCHICAL_ROLE, RESERVATION_REFINEMENT})
"""Capabilities of agents that the allocator examines; current Mesos agents have all three."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Region and zone of a machine, which fail independently of others."""

    region: str
    zone: str = ""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Properties of an agent."""

    hostname: str = ""
    resources: Resources = NOTHING
    """All its resources, used or not, without allocation roles."""
    attributes: tuple[tuple[str, str | None], ...] = ()
    """Names and texts in order; None instead of a text for other types."""
    capabilities: frozenset[str] = AGENT_CAPABILITIES
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """Properties of a framework, as of its latest subscription or update."""

    roles: tuple[str, ...] = ("*",)
    suppressed_roles: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    min_allocatable: Mapping[str, tuple[Quantities, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """``offer_filters`` by role: alternatives, of which an offer must contain one; empty sets no minimum. A missing
    role has the cluster's minimum.
    """
    offer_constraints: Mapping[str, OfferConstraints] = field(default_factory=lambda: MappingProxyType({}))
    """Constraints on agents by role; a missing role accepts offers of all agents."""


@dataclass(frozen=True, slots=True)
class Unavailability:
    """A maintenance window in seconds; without an end if the duration is unknown."""

    start: float
    duration_seconds: float | None = None
