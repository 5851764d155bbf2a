"""Volumes of pods, and the claims and volumes behind them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.core.affinity import NodeSelector
from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, LabelSelector, ObjectReference, ResourceList, TypedReference


class KeyToPath(View, frozen=True, kw_only=True):
    """One projected key."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class ObjectFieldSelector(View, frozen=True, kw_only=True):
    """``fieldRef``."""

    field_path: str = ""
    api_version: str = "v1"


class ResourceFieldSelector(View, frozen=True, kw_only=True):
    """``resourceFieldRef``."""

    container_name: str = ""
    resource: str = ""
    divisor: str | int | float = "0"


class DownwardAPIFile(View, frozen=True, kw_only=True):
    """One file of a downwardAPI volume."""

    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class ConfigMapSource(View, frozen=True, kw_only=True):
    """A configMap as a volume or a projection."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretSource(View, frozen=True, kw_only=True):
    """A secret as a volume (``secretName``) or a projection (``name``)."""

    secret_name: str = ""
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class DownwardAPISource(View, frozen=True, kw_only=True):
    """The downward API as a volume or a projection."""

    items: tuple[DownwardAPIFile, ...] = ()
    default_mode: int | None = None


class ServiceAccountTokenProjection(View, frozen=True, kw_only=True):
    """A bound token as a file."""

    audience: str = ""
    expiration_seconds: int = 3600
    path: str = ""


class VolumeProjection(View, frozen=True, kw_only=True):
    """One source of a projected volume."""

    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downward_api: DownwardAPISource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedSource(View, frozen=True, kw_only=True):
    """Several sources in one directory."""

    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class EmptyDirSource(View, frozen=True, kw_only=True):
    """A directory that lives as long as the pod."""

    medium: str = ""
    size_limit: str | int | float | None = None


class HostPathSource(View, frozen=True, kw_only=True):
    """A path of the node."""

    path: str = ""
    type: str = ""


class ClaimSource(View, frozen=True, kw_only=True):
    """A PersistentVolumeClaim of the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class NFSSource(View, frozen=True, kw_only=True):
    """An NFS export."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class EphemeralSource(View, frozen=True, kw_only=True):
    """A claim made for the pod, named ``<pod>-<volume>``; the controller that makes it reads the template as JSON."""


class CSISource(View, frozen=True, kw_only=True):
    """An inline or persistent CSI volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = EMPTY


class Volume(View, frozen=True, kw_only=True):
    """``spec.volumes[]``: a name and one source."""

    name: str = ""
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    projected: ProjectedSource | None = None
    downward_api: DownwardAPISource | None = msgspec.field(default=None, name="downwardAPI")
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: CSISource | None = None
    nfs: NFSSource | None = None


class VolumeMount(View, frozen=True, kw_only=True):
    """Where a container sees a volume."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class VolumeResources(View, frozen=True, kw_only=True):
    """What a claim asks for."""

    requests: ResourceList = EMPTY
    limits: ResourceList = EMPTY


class PersistentVolumeClaimSpec(View, frozen=True, kw_only=True):
    """``spec`` of a claim."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    data_source: TypedReference | None = None


class PersistentVolumeClaimStatus(View, frozen=True, kw_only=True):
    """``status`` of a claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = EMPTY
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    """A claim for storage."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(View, frozen=True, kw_only=True):
    """Which nodes reach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(View, frozen=True, kw_only=True):
    """``spec`` of a volume."""

    capacity: ResourceList = EMPTY
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    host_path: HostPathSource | None = None
    nfs: NFSSource | None = None
    local: HostPathSource | None = None


class PersistentVolumeStatus(View, frozen=True, kw_only=True):
    """``status`` of a volume."""

    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    """A piece of storage."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
