"""How the kinds of training jobs differ: roles, defaults, ports (spec training, "Kinds at a glance", A2 and A4). Pure.

`JobShape` is a job with the defaults filled in; they are never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strato.api import catalog
from strato.api.core import Container, ContainerPort
from strato.api.kinds import Kind
from strato.api.kubeflow import ElasticPolicy, ReplicaSpec, TrainingJob, TrainingJobSpec

WORKER: Final = "Worker"
MASTER: Final = "Master"

OPERATOR: Final = "kubeflow.org/training-operator"
"""Manager of jobs without ``managedBy``."""

MPI_OPERATOR: Final = "kubeflow.org/mpi-operator"
OTHER_OPERATORS: Final = ("kueue.x-k8s.io/multikueue",)
LAUNCHER: Final = "Launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One kind of training job."""

    kind: Kind
    replica_map: str
    """Member of ``spec`` that maps roles to replicas."""
    roles: tuple[str, ...]
    """All roles in the order in which they are processed: leaders first, then by name."""
    leaders: tuple[str, ...]
    """Roles of which the first that a job has decides whether the job succeeds."""
    container: str = ""
    """Name of the training container; empty for the first container."""
    port_name: str = ""
    """Name of the training container's port; empty if it needs none."""
    port: int = 0
    restart_policy: str
    leader_restart_policy: str = ""
    """Default restart policy of leaders, if it differs from that of other roles."""
    default_workers: int = 1
    worker_leads: bool = False
    """Whether worker 0 is labelled as the master in jobs without a leader."""
    leader_required: bool = False
    leader_is_one: bool = False
    """Whether the spec has to set the leader's replicas explicitly, to 1."""
    elastic: bool = False
    first_success_ends: bool = False
    """Whether an elastic job succeeds with the first worker that does."""
    names_are_qualified: bool = False
    """Whether messages name a job with its namespace although it has a leader."""
    writes_selector: bool = False
    """Whether the status has a label selector for the pods of each role."""
    has_services: bool = True
    """Whether each pod has a service of its own."""
    unnumbered: frozenset[str] = frozenset()
    """Roles with a single pod, whose name has no index."""
    manager: str = OPERATOR
    """Manager of jobs of this kind without ``managedBy``."""
    operator: str = ""
    """Value of the label for the operator's name, if it does not follow from the kind's name."""

    @property
    def controller(self) -> str:
        """Name of the controller, in labels and as the source of events."""
        return self.operator or f"{self.kind.singular}-controller"

    def object_name(self, job: str, role: str, index: int | str) -> str:
        """Return the name of a replica's pod and service."""
        number = "" if role in self.unnumbered else f"-{index}"
        return f"{job}-{role.lower()}{number}".replace("/", "-")


FRAMEWORKS: Final[tuple[Framework, ...]] = (
    Framework(
        kind=catalog.TFJOB,
        replica_map="tfReplicaSpecs",
        roles=("Chief", MASTER, "Evaluator", "PS", WORKER),
        leaders=("Chief", MASTER),
        container="tensorflow",
        port_name="tfjob-port",
        port=2222,
        restart_policy="Never",
        worker_leads=True,
        names_are_qualified=True,
    ),
    Framework(
        kind=catalog.PYTORCHJOB,
        replica_map="pytorchReplicaSpecs",
        roles=(MASTER, WORKER),
        leaders=(MASTER,),
        container="pytorch",
        port_name="pytorchjob-port",
        port=23456,
        restart_policy="OnFailure",
        worker_leads=True,
        leader_is_one=True,
        elastic=True,
        first_success_ends=True,
        writes_selector=True,
    ),
    Framework(
        kind=catalog.XGBOOSTJOB,
        replica_map="xgbReplicaSpecs",
        roles=(MASTER, WORKER),
        leaders=(MASTER,),
        container="xgboost",
        port_name="xgboostjob-port",
        port=9999,
        restart_policy="Never",
        leader_required=True,
        leader_is_one=True,
    ),
    Framework(
        kind=catalog.PADDLEJOB,
        replica_map="paddleReplicaSpecs",
        roles=(MASTER, WORKER),
        leaders=(MASTER,),
        container="paddle",
        port_name="master",
        port=36543,
        restart_policy="OnFailure",
        elastic=True,
        writes_selector=True,
    ),
    Framework(
        kind=catalog.JAXJOB,
        replica_map="jaxReplicaSpecs",
        roles=(WORKER,),
        leaders=(),
        container="jax",
        port_name="jaxjob-port",
        port=6666,
        restart_policy="Never",
        worker_leads=True,
        writes_selector=True,
    ),
    Framework(
        kind=catalog.MPIJOB_V1,
        replica_map="mpiReplicaSpecs",
        roles=(LAUNCHER, WORKER),
        leaders=(LAUNCHER,),
        restart_policy="Never",
        default_workers=0,
        leader_required=True,
        has_services=False,
        unnumbered=frozenset({LAUNCHER}),
    ),
    Framework(
        kind=catalog.MPIJOB,
        replica_map="mpiReplicaSpecs",
        roles=(LAUNCHER, WORKER),
        leaders=(LAUNCHER,),
        restart_policy="Never",
        leader_restart_policy="OnFailure",
        default_workers=0,
        leader_required=True,
        has_services=False,
        unnumbered=frozenset({LAUNCHER}),
        manager=MPI_OPERATOR,
        operator="mpi-operator",
    ),
)

BY_KIND: Final[Mapping[Kind, Framework]] = {framework.kind: framework for framework in FRAMEWORKS}


def is_ours(managed_by: str | None, manager: str = OPERATOR) -> bool:
    """Return whether our controllers run jobs with this ``managedBy``."""
    return managed_by is None or managed_by == manager


def is_run_as(framework: Framework, job: TrainingJob) -> bool:
    """Return whether a job is one of this kind: both versions of an MPIJob show those of the other."""
    if framework.kind not in (catalog.MPIJOB_V1, catalog.MPIJOB):
        return True
    return bool(job.spec.ssh_auth_mount_path) == (framework.kind is catalog.MPIJOB)


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job with its defaults."""

    framework: Framework
    name: str
    namespace: str
    spec: TrainingJobSpec
    roles: Mapping[str, ReplicaSpec]
    """Replicas by canonical name of the role, in the order in which roles are processed."""

    @classmethod
    def of(cls, framework: Framework, job: TrainingJob) -> JobShape:
        """Read a job. If a role occurs in several spellings the first counts; unknown roles are kept and come last."""
        by_lower = {role.lower(): role for role in framework.roles}
        found: dict[str, ReplicaSpec] = {}
        for written, spec in job.spec.replica_specs.items():
            if spec is not None:
                found.setdefault(by_lower.get(written.lower(), written), spec)
        order = [*(role for role in framework.roles if role in found), *sorted(set(found) - set(framework.roles))]
        return cls(
            framework, job.metadata.name, job.metadata.namespace, job.spec, {role: found[role] for role in order}
        )

    @property
    def leader(self) -> str:
        """The role that decides whether the job succeeds; empty if the workers do."""
        return next((role for role in self.framework.leaders if role in self.roles), "")

    @property
    def total(self) -> int:
        """Pods of all roles."""
        return sum(map(self.count, self.roles))

    @property
    def least(self) -> int:
        """Fewest pods with which the job runs: all, or for an elastic job its fewest workers and all of other roles."""
        if not self.is_elastic:
            return self.total
        surplus = max(0, self.count(WORKER) - self.bounds[0])
        return min(self.total, max(1, self.total - surplus))

    @property
    def is_elastic(self) -> bool:
        """Whether it runs with fewer workers than it asks for."""
        return self.framework.elastic and self.spec.elastic_policy is not None

    @property
    def clean_pod_policy(self) -> str:
        """Which pods are deleted when the job ends."""
        return self.spec.run_policy.clean_pod_policy or self.spec.clean_pod_policy or "None"

    @property
    def slots(self) -> int:
        """Number of ranks per worker of an MPI job."""
        return 1 if self.spec.slots_per_worker is None else self.spec.slots_per_worker

    @property
    def nproc_per_node(self) -> str:
        """``nprocPerNode``; empty if the elastic policy sets it."""
        policy = self.spec.elastic_policy
        if self.spec.nproc_per_node is not None:
            return self.spec.nproc_per_node
        return "auto" if policy is None or policy.n_proc_per_node is None else ""

    @property
    def bounds(self) -> tuple[int, int]:
        """Fewest and most workers of an elastic job."""
        policy = self.spec.elastic_policy or ElasticPolicy()
        least, most = policy.min_replicas, policy.max_replicas
        if least is None and most is None:
            workers = self.count(WORKER)
            return workers, workers
        return (most if least is None else least) or 0, (least if most is None else most) or 0

    def count(self, role: str) -> int:
        """Return how many pods a role has; 0 for a role that the job does not have."""
        spec = self.roles.get(role)
        if spec is None:
            return 0
        by_default = self.framework.default_workers if role == WORKER else 1
        return by_default if spec.replicas is None else max(0, spec.replicas)

    def object_name(self, role: str, index: int) -> str:
        """Return the name of a replica's pod and service."""
        return self.framework.object_name(self.name, role, index)

    def restart_policy(self, role: str) -> str:
        """Return the restart policy of a role, with the default."""
        framework = self.framework
        by_default = (role in framework.leaders and framework.leader_restart_policy) or framework.restart_policy
        return self.roles[role].restart_policy or by_default

    def is_master(self, role: str, index: int) -> bool:
        """Return whether a replica is labelled as the master."""
        if role in self.framework.leaders:
            return True
        return self.framework.worker_leads and not self.leader and role == WORKER and index == 0

    def ports(self, role: str) -> tuple[ContainerPort, ...]:
        """Return the ports of a role's training container, with the default port if it is missing."""
        trainer = self.trainer(role)
        ports = trainer.ports if trainer is not None else ()
        if not self.framework.port_name or any(port.name == self.framework.port_name for port in ports):
            return ports
        return (*ports, ContainerPort(name=self.framework.port_name, container_port=self.framework.port))

    def port(self, role: str) -> int:
        """Return the port at which other replicas reach those of a role."""
        named = (port for port in self.ports(role) if port.name == self.framework.port_name)
        return next(named).container_port

    def trainer(self, role: str) -> Container | None:
        """Return the training container: the one with the framework's container name, else the first."""
        containers = self.roles[role].template.spec.containers
        named = (one for one in containers if one.name == self.framework.container)
        return next(named, containers[0] if containers else None)
