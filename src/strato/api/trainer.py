"""Views and kinds of trainer.kubeflow.org: a TrainJob runs what its runtime describes (spec training K).

A runtime has the template of a JobSet. Template and patches are read as JSON, so that the Jobs made from them keep all
members that users wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from strato.api.batch import JobTemplateSpec
from strato.api.kinds import Column, Kind
from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY, LocalObjectReference, ResourceList
from strato.api.volcano.scheduling import NetworkTopologySpec

GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = f"{GROUP}/v1alpha1"
CONTROLLER: Final = f"{GROUP}/trainjob-controller"
"""Manager of jobs without ``managedBy``."""
OTHER_CONTROLLERS: Final = ("kueue.x-k8s.io/multikueue",)
STEP_LABEL: Final = f"{GROUP}/trainjob-ancestor-step"
"""Label of the template of a replicated job: which part of the TrainJob it runs."""
_JOBSET: Final = "jobset.sigs.k8s.io"
JOBSET_NAME: Final = f"{_JOBSET}/jobset-name"
JOBSET_UID: Final = f"{_JOBSET}/jobset-uid"
REPLICATED_JOB: Final = f"{_JOBSET}/replicatedjob-name"
REPLICAS: Final = f"{_JOBSET}/replicatedjob-replicas"
JOB_INDEX: Final = f"{_JOBSET}/job-index"
ATTEMPT: Final = f"{_JOBSET}/restart-attempt"
"""Labels of a JobSet's Jobs and pods, which ours have too, because clients select pods by them."""
TRAINER: Final = "trainer"
DATASET: Final = "dataset-initializer"
MODEL: Final = "model-initializer"
NODE: Final = "node"
"""Name of the training container, and of the replicated job of the nodes."""
LAUNCHER: Final = "launcher"
PORT: Final = 29500
"""Port of the rendezvous of a job's nodes."""


class EnvInjectionTarget(View, frozen=True, kw_only=True):
    """``torch.envInjection.targets[]``."""

    job_name: str = ""
    container_names: tuple[str, ...] = ()


class EnvInjection(View, frozen=True, kw_only=True):
    """``torch.envInjection``: further containers that get the variables of torch."""

    targets: tuple[EnvInjectionTarget, ...] = ()


class TorchPolicy(View, frozen=True, kw_only=True):
    """``mlPolicy.torch``."""

    env_injection: EnvInjection = EnvInjection()


class MPIPolicy(View, frozen=True, kw_only=True):
    """``mlPolicy.mpi``."""

    num_proc_per_node: int = 1
    mpi_implementation: str = "OpenMPI"
    ssh_auth_mount_path: str = "/root/.ssh"
    run_launcher_as_node: bool = False


class MLPolicy(View, frozen=True, kw_only=True):
    """``spec.mlPolicy`` of a runtime; at most one framework is set."""

    num_nodes: int | None = None
    torch: TorchPolicy | None = None
    mpi: MPIPolicy | None = None
    jax: Mapping[str, Any] | None = None
    xgboost: Mapping[str, Any] | None = None
    flux: Mapping[str, Any] | None = None


class VolcanoPolicy(View, frozen=True, kw_only=True):
    """``podGroupPolicy.volcano``."""

    network_topology: NetworkTopologySpec | None = None


class CoschedulingPolicy(View, frozen=True, kw_only=True):
    """``podGroupPolicy.coscheduling``."""

    schedule_timeout_seconds: int = 60


class PodGroupPolicy(View, frozen=True, kw_only=True):
    """``spec.podGroupPolicy`` of a runtime."""

    volcano: VolcanoPolicy | None = None
    coscheduling: CoschedulingPolicy | None = None


class StepDependency(View, frozen=True, kw_only=True):
    """``replicatedJobs[].dependsOn[]``: begin when the named replicated job is Ready or Complete."""

    name: str = ""
    status: str = "Complete"


class ReplicatedJob(View, frozen=True, kw_only=True):
    """``replicatedJobs[]``: a number of Jobs from one template."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplateSpec = JobTemplateSpec()
    depends_on: tuple[StepDependency, ...] = ()


class JobSetNetwork(View, frozen=True, kw_only=True):
    """``network``: DNS names of the pods."""

    enable_dns_hostnames: bool | None = msgspec.field(default=None, name="enableDNSHostnames")
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class StartupPolicy(View, frozen=True, kw_only=True):
    """``startupPolicy``: AnyOrder, or InOrder, each when the one before is ready."""

    startup_policy_order: str = "AnyOrder"


class JobSetSuccess(View, frozen=True, kw_only=True):
    """``successPolicy``: whether All or Any of the Jobs have to succeed, of some or of all replicated jobs."""

    operator: str = "All"
    target_replicated_jobs: tuple[str, ...] = ()


class JobSetFailureRule(View, frozen=True, kw_only=True):
    """``failurePolicy.rules[]``: what to do when some Jobs fail."""

    name: str = ""
    action: str = "RestartJobSet"
    on_job_failure_reasons: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class JobSetFailure(View, frozen=True, kw_only=True):
    """``failurePolicy``: how often all Jobs are restarted when one has failed."""

    max_restarts: int = 0
    rules: tuple[JobSetFailureRule, ...] = ()


class JobSetSpec(View, frozen=True, kw_only=True):
    """Spec of a JobSet (jobset.x-k8s.io/v1alpha2); the members that are supported here."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    network: JobSetNetwork = JobSetNetwork()
    startup_policy: StartupPolicy = StartupPolicy()
    success_policy: JobSetSuccess = JobSetSuccess()
    failure_policy: JobSetFailure = JobSetFailure()
    ttl_seconds_after_finished: int | None = None
    """How long Jobs and pods are kept after the end; None for ever."""


class TrainingRuntimeSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    ml_policy: MLPolicy | None = None
    pod_group_policy: PodGroupPolicy | None = None
    template: Mapping[str, Any] = EMPTY
    """Metadata and spec of a JobSet."""


class TrainingRuntime(Object, frozen=True, kw_only=True):
    """A runtime for TrainJobs of its namespace."""

    spec: TrainingRuntimeSpec = TrainingRuntimeSpec()


class ClusterTrainingRuntime(TrainingRuntime, frozen=True, kw_only=True):
    """A runtime for TrainJobs of all namespaces."""


class RuntimeRef(View, frozen=True, kw_only=True):
    """``spec.runtimeRef``."""

    name: str = ""
    api_group: str = GROUP
    kind: str = "ClusterTrainingRuntime"


class InitializerStep(View, frozen=True, kw_only=True):
    """``spec.initializer.dataset`` and ``model``: the source of data."""

    storage_uri: str | None = None
    env: tuple[Mapping[str, Any], ...] = ()
    secret_ref: LocalObjectReference | None = None


class Initializer(View, frozen=True, kw_only=True):
    """``spec.initializer``."""

    dataset: InitializerStep | None = None
    model: InitializerStep | None = None


class NodeResources(View, frozen=True, kw_only=True):
    """``spec.trainer.resourcesPerNode``."""

    limits: ResourceList = EMPTY
    requests: ResourceList = EMPTY
    claims: tuple[Mapping[str, Any], ...] = ()


class Trainer(View, frozen=True, kw_only=True):
    """``spec.trainer``: the job's settings for its nodes; empty members keep those of the runtime."""

    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Mapping[str, Any], ...] = ()
    num_nodes: int | None = None
    resources_per_node: NodeResources | None = None
    num_proc_per_node: int | None = None


class TrainJobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    runtime_ref: RuntimeRef = RuntimeRef()
    initializer: Initializer = Initializer()
    trainer: Trainer = Trainer()
    runtime_patches: tuple[Mapping[str, Any], ...] = ()
    suspend: bool = False
    active_deadline_seconds: int | None = None
    managed_by: str | None = None


class StepStatus(View, frozen=True, kw_only=True, omit_defaults=False):
    """``status.jobsStatus[]``: the number of Jobs of a replicated job in each state."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


class TrainJobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    jobs_status: tuple[StepStatus, ...] = ()
    trainer_status: Mapping[str, Any] | None = None
    """Progress that the training itself reports."""

    @property
    def is_finished(self) -> bool:
        """Whether the training has ended."""
        return any(one.type in ("Complete", "Failed") and one.status == "True" for one in self.conditions)


class TrainJob(Object, frozen=True, kw_only=True):
    """A training."""

    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()


def is_ours(managed_by: str | None) -> bool:
    """Return whether our controller runs jobs with this ``managedBy``."""
    return managed_by in (None, "", CONTROLLER)


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
TRAINJOB: Final = Kind(
    GROUP,
    "v1alpha1",
    "TrainJob",
    "trainjobs",
    singular="trainjob",
    view=TrainJob,
    has_status=True,
    columns=(Column("State", ".status.conditions[-1:].type"), _AGE),
)
TRAININGRUNTIME: Final = Kind(
    GROUP, "v1alpha1", "TrainingRuntime", "trainingruntimes", singular="trainingruntime", view=TrainingRuntime
)
CLUSTERTRAININGRUNTIME: Final = Kind(
    GROUP,
    "v1alpha1",
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    namespaced=False,
    singular="clustertrainingruntime",
    view=ClusterTrainingRuntime,
)
KINDS: Final = (TRAINJOB, TRAININGRUNTIME, CLUSTERTRAININGRUNTIME)
RUNTIMES: Final = {kind.name: kind for kind in (TRAININGRUNTIME, CLUSTERTRAININGRUNTIME)}
"""Kinds of runtimes that a job may name."""


def runtime_problem(group: str, kind: str) -> str:
    """Return why a group and kind are no runtime's; empty if they are."""
    return "" if group == GROUP and kind in RUNTIMES else f"unsupported runtime: {kind}.{group}"
