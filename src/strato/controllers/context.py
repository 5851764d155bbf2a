"""`ControllerContext`: what controllers are built from, and the settings that only some of them read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from strato.api.meta import Key
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers.localvolumes import LocalVolumes
from strato.controllers.trainingoptions import PodOptions
from strato.metrics import Registry

_TOPOLOGY = Key("volcano-system", "volcano-controller-configmap")
_OVERCOMMIT = Key("volcano-system", "strato-cpu-overcommit")
_SHARDING = Key("volcano-system", "volcano-sharding-configmap")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Settings of the controllers; Volcano's flags and their defaults."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    """Schedulers whose pods get PodGroups."""
    max_requeue: int = 15
    """Attempts before a job is terminated; negative is unlimited."""
    coalescing_seconds: float = 0.02
    """How often a Volcano Job is synced while its pods keep changing; pods of a gang change together."""
    topology_configmap: Key = _TOPOLOGY
    """Where the HyperNode controller reads what to discover."""
    sharding_configmap: Key = _SHARDING
    """Where the sharding controller reads its configuration."""
    overcommit_configmap: Key = _OVERCOMMIT
    """Where the controller of CPU overcommit reads factors and the table of processors."""
    scheduler_configs: tuple[str, ...] = (
        "volcano:volcano:0.0:0.6:false:2:100",
        "agent-scheduler:agent:0.7:1.0:true:2:100",
    )
    """Schedulers to share nodes among when there is no such ConfigMap: name:type:min:max:warmup:minNodes:maxNodes."""
    shard_sync_seconds: float = 60.0
    """Time between full passes of the sharding controller."""
    shard_on_events: bool = True
    """Whether changes of nodes and pods start such a pass too."""
    inherit_owner_annotations: bool = True
    """Whether PodGroups of plain pods take over annotations of what owns the pods."""
    local_volumes: LocalVolumes | None = None
    """Where claims get volumes on this machine; None when no node here mounts such volumes."""
    signing_folder: Path | None = None
    """Holds ``ca.crt`` and ``ca.key`` of the authority that signs certificate requests; None signs none."""
    smtp_server: str = ""
    """``HOST:PORT`` of the relay that takes mail about jobs; empty sends none."""
    mail_from: str = ""
    """Who that mail is from; empty is ``strato@`` and this machine's name."""
    recommender_names: tuple[str, ...] = ("strato",)
    """Names in ``spec.recommenders`` of vertical autoscalers that our recommender serves; an autoscaler that names none
    asks for ``default``."""
    flow_probe_image: str = "busybox:stable"
    """Image of the pods that look for paths in claims for steps of JobFlows; it must have a shell."""
    training: PodOptions = field(default_factory=PodOptions)
    """Options of the pods of training jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What a controller is built from."""

    cluster: Cluster
    informers: Informers
    clock: Clock
    random: Random
    recorder: EventRecorder
    metrics: Registry
    settings: ControllerSettings = field(default_factory=ControllerSettings)
