"""What the allocator is given of agents and frameworks: values, made anew on each change."""

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
"""Of an agent: what the allocator asks about. An agent of today has all three."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a machine stands; failures of regions and zones are independent."""

    region: str
    zone: str = ""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as it registered."""

    hostname: str = ""
    resources: Resources = NOTHING
    """All it has, used or not, without allocation roles."""
    attributes: tuple[tuple[str, str | None], ...] = ()
    """In order: name and text, None for an attribute that is no text."""
    capabilities: frozenset[str] = AGENT_CAPABILITIES
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """A framework as it subscribed or updated itself."""

    roles: tuple[str, ...] = ("*",)
    suppressed_roles: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    min_allocatable: Mapping[str, tuple[Quantities, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By role the alternatives of ``offer_filters``, of which an offer must hold one; none at all: no minimum. A role
    that is missing has the cluster's minimum."""
    offer_constraints: Mapping[str, OfferConstraints] = field(default_factory=lambda: MappingProxyType({}))
    """By role which agents it wants offers of; a role that is missing wants all."""


@dataclass(frozen=True, slots=True)
class Unavailability:
    """When maintenance takes a machine away, in seconds; without an end where the duration is not known."""

    start: float
    duration_seconds: float | None = None
