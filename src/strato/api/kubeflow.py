"""Views of kubeflow.org/v1: the training jobs, which differ in the name of their map of replicas (spec training A).

Fields that only some kinds have are empty in the others. Objects are stored as users wrote them; readers fill in the
defaults with `strato.api.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from strato.api.core.pod import PodSpec, PodTemplateSpec
from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, ResourceList


class SchedulingPolicy(View, frozen=True, kw_only=True):
    """``runPolicy.schedulingPolicy``: settings of the job's PodGroup."""

    min_available: int | None = None
    queue: str = ""
    min_resources: ResourceList | None = None
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None


class RunPolicy(View, frozen=True, kw_only=True):
    """``spec.runPolicy``."""

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    managed_by: str | None = None
    scheduling_policy: SchedulingPolicy | None = None


class ReplicaPodSpec(PodSpec, frozen=True, kw_only=True):
    """The pod spec of a template."""

    restart_policy: str = ""
    """Empty if the template sets none. A policy in the template is overwritten, which the controller reports."""


class ReplicaTemplate(PodTemplateSpec, frozen=True, kw_only=True):
    """The template of one role's pods."""

    spec: ReplicaPodSpec = ReplicaPodSpec()


class ReplicaSpec(View, frozen=True, kw_only=True):
    """The pods of one role."""

    replicas: int | None = None
    restart_policy: str = ""
    template: ReplicaTemplate = ReplicaTemplate()


class RendezvousOption(View, frozen=True, kw_only=True):
    """``elasticPolicy.rdzvConf[]``."""

    key: str = ""
    value: str = ""


class ElasticPolicy(View, frozen=True, kw_only=True):
    """``spec.elasticPolicy`` of a PyTorchJob or PaddleJob."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    rdzv_backend: str | None = None
    rdzv_port: int | None = None
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: tuple[RendezvousOption, ...] = ()
    standalone: bool | None = None
    n_proc_per_node: int | None = None
    metrics: tuple[Mapping[str, Any], ...] = ()


class TrainingJobSpec(View, frozen=True, kw_only=True):
    """``spec``; each kind names ``replica_specs`` in its own way."""

    run_policy: RunPolicy = RunPolicy()
    replica_specs: Mapping[str, ReplicaSpec | None] = EMPTY
    """Replicas by role, in the user's spelling."""
    success_policy: str | None = None
    enable_dynamic_worker: bool = False
    nproc_per_node: str | None = None
    elastic_policy: ElasticPolicy | None = None
    slots_per_worker: int | None = None
    clean_pod_policy: str | None = None
    """Member of an MPIJob v1; the one in ``runPolicy`` takes precedence."""
    main_container: str = ""
    """Member of an MPIJob v1: the container in which ranks are started."""
    run_launcher_as_worker: bool = False
    ssh_auth_mount_path: str = ""
    """Set in every MPIJob that was created as v2beta1, by the default of its definition, and in no other."""
    launcher_creation_policy: str = ""
    mpi_implementation: str = ""


class TrainingCondition(Condition, frozen=True, kw_only=True):
    """``status.conditions[]``."""

    last_update_time: str | None = None


class ReplicaStatus(View, frozen=True, kw_only=True):
    """``status.replicaStatuses``: the pods of one role."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    selector: str = ""
    succeeded_indexes: tuple[int, ...] = ()
    """Our own member: replicas that have succeeded, which get no new pods if a node with their pods is deleted."""


class ReplacedPods(View, frozen=True, kw_only=True):
    """``status.replacedPods``, our own member: failed pods that were replaced, which count for ``backoffLimit``."""

    count: int = 0
    uids: tuple[str, ...] = ()
    """Uids of pods that are counted and may still exist, so that they are not counted again."""


class TrainingJobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[TrainingCondition, ...] = ()
    replica_statuses: Mapping[str, ReplicaStatus] = EMPTY
    start_time: str | None = None
    completion_time: str | None = None
    last_reconcile_time: str | None = None
    replaced_pods: ReplacedPods | None = None


class TrainingJob(Object, frozen=True, kw_only=True):
    """The base of all kinds of training jobs."""

    spec: TrainingJobSpec = TrainingJobSpec()
    status: TrainingJobStatus = TrainingJobStatus()


class _TFSpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="tfReplicaSpecs")


class TFJob(TrainingJob, frozen=True, kw_only=True):
    """A TensorFlow job."""

    spec: _TFSpec = _TFSpec()


class _PyTorchSpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="pytorchReplicaSpecs")


class PyTorchJob(TrainingJob, frozen=True, kw_only=True):
    """A PyTorch job."""

    spec: _PyTorchSpec = _PyTorchSpec()


class _XGBoostSpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="xgbReplicaSpecs")


class XGBoostJob(TrainingJob, frozen=True, kw_only=True):
    """An XGBoost job."""

    spec: _XGBoostSpec = _XGBoostSpec()


class _PaddleSpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="paddleReplicaSpecs")


class PaddleJob(TrainingJob, frozen=True, kw_only=True):
    """A PaddlePaddle job."""

    spec: _PaddleSpec = _PaddleSpec()


class _JAXSpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="jaxReplicaSpecs")


class JAXJob(TrainingJob, frozen=True, kw_only=True):
    """A JAX job."""

    spec: _JAXSpec = _JAXSpec()


class _MPISpec(TrainingJobSpec, frozen=True, kw_only=True):
    replica_specs: Mapping[str, ReplicaSpec | None] = msgspec.field(default=EMPTY, name="mpiReplicaSpecs")


class MPIJob(TrainingJob, frozen=True, kw_only=True):
    """An MPI job: a launcher that starts ranks on workers, through the API server (v1) or by ssh (v2beta1)."""

    spec: _MPISpec = _MPISpec()
