"""Views of storage.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import EMPTY, LabelSelector


class TopologyLabelRequirement(View, frozen=True, kw_only=True):
    """A label that must have one of some values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(View, frozen=True, kw_only=True):
    """Labels all of which must fit."""

    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True, kw_only=True):
    """How volumes are made."""

    provisioner: str = ""
    parameters: Mapping[str, str] = EMPTY
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    allow_volume_expansion: bool = False
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    """Where volumes may be made; any of the terms must hold, none means anywhere."""


class VolumeNodeResources(View, frozen=True, kw_only=True):
    """How many volumes of a driver a node takes."""

    count: int | None = None


class CSINodeDriver(View, frozen=True, kw_only=True):
    """A driver on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True, kw_only=True):
    """The drivers of a node."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    attach_required: bool = True
    pod_info_on_mount: bool = False
    storage_capacity: bool = False


class CSIDriver(Object, frozen=True, kw_only=True):
    """A driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True, kw_only=True):
    """How much a driver has left in a topology segment."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachment(Object, frozen=True, kw_only=True):
    """A volume attached to a node."""
