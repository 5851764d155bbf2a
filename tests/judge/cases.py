"""Jobs of every kind, and what becomes of their pods, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strato.api import catalog
from strato.api.kinds import Kind

Json = dict[str, Any]
_MAPS: Final = {
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
    "MPIJob": ("mpiReplicaSpecs", "mpi"),
}
NAME: Final = "train"
"""Of every job; each has a namespace of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens next."""

    pods: Mapping[str, str] = field(default_factory=dict)
    """By the beginning of what follows the job's name (``worker-0``; empty is all of them): what a pod comes to.

    ``Running``, ``Succeeded``, ``Failed:CODE``, ``Evicted``, ``restarts:N``, ``gone``.
    """
    patch: Json | None = None
    """Merged into the job's spec."""
    after_seconds: float = 0.0
    """How long time alone is to pass before both sides are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job."""

    id: str
    kind: Kind
    spec: Json
    steps: Sequence[Step] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def job(self) -> Json:
        """The job, but for its namespace."""
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "metadata": {"name": NAME, **({"annotations": dict(self.annotations)} if self.annotations else {})},
            "spec": self.spec,
        }


def replica(container: str, count: int | None = 1, policy: str = "", **pod: Any) -> Json:
    """Return the replicas of a role; further members of the pod's spec follow."""
    own = {
        "name": container,
        "image": "none",
        "command": ["train"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    spec = {"containers": [own], **pod}
    body: Json = {"template": {"spec": spec}}
    if count is not None:
        body["replicas"] = count
    if policy:
        body["restartPolicy"] = policy
    return body


def spec_of(kind: str, roles: Mapping[str, tuple[int | None, str]], **more: Any) -> Json:
    """Return the spec of a job: by role how many, and the restart policy."""
    member, container = _MAPS[kind]
    replicas = {role: replica(container, count, policy) for role, (count, policy) in roles.items()}
    return {member: replicas, **more}


RUN: Final = Step(pods={"": "Running"})
_TF: Final = {"Chief": (1, ""), "PS": (2, ""), "Worker": (2, ""), "Evaluator": (1, "")}


def _tensorflow() -> Iterator[Case]:
    def case(id_: str, roles: Mapping[str, tuple[int | None, str]], *steps: Step, **more: Any) -> Case:
        return Case(id=f"tf-{id_}", kind=catalog.TFJOB, spec=spec_of("TFJob", roles, **more), steps=steps)

    yield case("chief-succeeds", _TF, RUN, Step(pods={"chief-0": "Succeeded"}))
    workers = {"PS": (1, ""), "Worker": (2, "")}
    clean_running = {"cleanPodPolicy": "Running"}
    yield case("worker-0-succeeds", workers, RUN, Step(pods={"worker-0": "Succeeded"}), runPolicy=clean_running)
    yield case(
        "all-workers",
        workers,
        RUN,
        Step(pods={"worker-0": "Succeeded"}),
        Step(pods={"worker-1": "Succeeded"}),
        runPolicy={"cleanPodPolicy": "All"},
        successPolicy="AllWorkers",
    )
    yield case("worker-fails", workers, RUN, Step(pods={"worker-1": "Failed:1"}), runPolicy=clean_running)
    coded = {"PS": (1, "ExitCode"), "Worker": (2, "ExitCode")}
    yield case("exit-code-retried", coded, RUN, Step(pods={"worker-1": "Failed:137"}), RUN)
    yield case("exit-code-permanent", coded, RUN, Step(pods={"worker-1": "Failed:1"}))
    on_failure = {"PS": (1, "OnFailure"), "Worker": (2, "OnFailure")}
    yield case("evicted", on_failure, RUN, Step(pods={"worker-1": "Evicted"}), RUN)
    yield case("always", {"Worker": (2, "Always")}, RUN, Step(pods={"worker-1": "Failed:1"}), RUN)
    yield case(
        "goes",
        {"Worker": (1, "")},
        RUN,
        Step(pods={"worker-0": "Succeeded"}, after_seconds=8),
        runPolicy={"ttlSecondsAfterFinished": 2},
    )
    yield case(
        "suspended-and-resumed",
        workers,
        RUN,
        Step(patch={"runPolicy": {"suspend": True}}),
        Step(patch={"runPolicy": {"suspend": False}}),
        RUN,
    )
    yield case("born-suspended", workers, runPolicy={"suspend": True})
    yield case(
        "deadline", workers, RUN, Step(patch={"runPolicy": {"activeDeadlineSeconds": 1}}), runPolicy=clean_running
    )
    yield case(
        "back-off",
        on_failure,
        RUN,
        Step(pods={"worker-0": "restarts:1"}),
        Step(pods={"worker-0": "restarts:2"}),
        runPolicy={"backoffLimit": 2},
    )
    yield case(
        "scheduling-policy",
        workers,
        RUN,
        runPolicy={
            "schedulingPolicy": {
                "queue": "research",
                "minAvailable": 2,
                "priorityClass": "high",
                "minResources": {"cpu": "3"},
            }
        },
    )
    yield case(
        "dynamic-workers",
        workers,
        RUN,
        Step(patch={"tfReplicaSpecs": {"Worker": {"replicas": 3}}}),
        RUN,
        Step(patch={"tfReplicaSpecs": {"Worker": {"replicas": 1}}}),
        enableDynamicWorker=True,
    )
    yield case("master-and-lower-case", {"Master": (None, ""), "worker": (2, "")}, RUN)
    yield case("worker-deleted", workers, RUN, Step(pods={"worker-1": "gone"}))
    yield case("managed-by-another", workers, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    yield case("chief-fails-with-workers", _TF, RUN, Step(pods={"chief-0": "Failed:1"}))
    yield _dressed()


def _dressed() -> Case:
    """A job whose templates say everything that may be lost on the way."""
    template = replica("tensorflow", 2, "OnFailure", restartPolicy="Always", priorityClassName="high")
    own = template["template"]["spec"]["containers"][0]
    own["ports"] = [{"name": "tfjob-port", "containerPort": 3333}, {"name": "web", "containerPort": 80}]
    own["env"] = [{"name": "A", "value": "b"}]
    template["template"]["spec"]["containers"].append({"name": "side", "image": "none"})
    template["template"]["spec"] |= {
        "schedulerName": "volcano",
        "hostNetwork": True,
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "initContainers": [{"name": "before", "image": "none"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    template["template"]["metadata"] = {"labels": {"app": "x", "training.kubeflow.org/job-name": "lie"}}
    template["template"]["metadata"]["annotations"] = {"note": "kept"}
    spec = {"tfReplicaSpecs": {"Worker": template, "PS": replica("tensorflow", 1)}}
    annotations = {"volcano.sh/preemptable": "true", "note": "of the job"}
    return Case(id="tf-template", kind=catalog.TFJOB, spec=spec, steps=(RUN,), annotations=annotations)


def _pytorch() -> Iterator[Case]:
    def case(id_: str, roles: Mapping[str, tuple[int | None, str]], *steps: Step, **more: Any) -> Case:
        spec = spec_of("PyTorchJob", roles, **more)
        return Case(id=f"pytorch-{id_}", kind=catalog.PYTORCHJOB, spec=spec, steps=steps)

    both = {"Master": (1, ""), "Worker": (2, "")}
    running = {"cleanPodPolicy": "Running"}
    yield case("succeeds", both, RUN, Step(pods={"master-0": "Succeeded"}), runPolicy=running)
    yield case("worker-replaced", both, RUN, Step(pods={"worker-0": "Failed:1"}), RUN)
    never = {"Master": (1, "Never"), "Worker": (2, "Never")}
    yield case("worker-fails", never, RUN, Step(pods={"worker-0": "Failed:1"}), runPolicy=running)
    permanent = {"Master": (1, "ExitCode"), "Worker": (1, "ExitCode")}
    yield case("exit-code-permanent", permanent, RUN, Step(pods={"worker": "Failed:1"}))
    yield case(
        "exit-code",
        {"Master": (1, "ExitCode"), "Worker": (1, "ExitCode")},
        RUN,
        Step(pods={"worker": "Failed:130"}),
        RUN,
    )
    workers = {"Worker": (2, "")}
    yield case("workers-alone", workers, RUN, Step(pods={"worker-0": "Succeeded"}), Step(pods={"worker": "Succeeded"}))
    yield case("processes", both, RUN, nprocPerNode="4")
    bounds = {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d", "maxRestarts": 3}
    yield case(
        "elastic",
        workers,
        RUN,
        Step(patch={"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}),
        RUN,
        Step(patch={"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}),
        Step(pods={"worker-0": "Succeeded"}),
        elasticPolicy=bounds,
    )
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    yield case("autoscaled", workers, RUN, elasticPolicy={**bounds, "metrics": [metric]})
    rendezvous = {**bounds, "rdzvHost": "h", "rdzvPort": 4444, "rdzvId": "i", "rdzvConf": [{"key": "k", "value": "v"}]}
    yield case("rendezvous", workers, RUN, elasticPolicy={**rendezvous, "nProcPerNode": 2})
    yield case("suspended", both, RUN, Step(patch={"runPolicy": {"suspend": True}}))


def _others() -> Iterator[Case]:
    def case(id_: str, kind: Kind, roles: Mapping[str, tuple[int | None, str]], *steps: Step, **more: Any) -> Case:
        return Case(id=id_, kind=kind, spec=spec_of(kind.name, roles, **more), steps=steps)

    led, workers = {"Master": (1, ""), "Worker": (2, "")}, {"Worker": (2, "")}
    yield case("xgboost-succeeds", catalog.XGBOOSTJOB, led, RUN, Step(pods={"master-0": "Succeeded"}))
    yield case("xgboost-worker-fails", catalog.XGBOOSTJOB, led, RUN, Step(pods={"worker-0": "Failed:1"}))
    coded = {"Master": (1, "ExitCode"), "Worker": (2, "ExitCode")}
    yield case("xgboost-exit-code", catalog.XGBOOSTJOB, coded, RUN, Step(pods={"worker-0": "Failed:137"}), RUN)
    yield case("paddle-workers", catalog.PADDLEJOB, workers, RUN, Step(pods={"worker": "Succeeded"}))
    yield case("paddle-master", catalog.PADDLEJOB, led, RUN, Step(pods={"master-0": "Succeeded"}))
    yield case("paddle-replaced", catalog.PADDLEJOB, workers, RUN, Step(pods={"worker-1": "Failed:1"}), RUN)
    yield case("jax-succeeds", catalog.JAXJOB, workers, RUN, Step(pods={"worker": "Succeeded"}))
    yield case("jax-fails", catalog.JAXJOB, workers, RUN, Step(pods={"worker-0": "Failed:1"}))
    mpi = {"Launcher": (1, ""), "Worker": (2, "")}
    clean = {"cleanPodPolicy": "Running"}
    first = catalog.MPIJOB_V1
    yield case("mpi-v1-succeeds", first, mpi, RUN, Step(pods={"launcher": "Succeeded"}), runPolicy=clean)
    yield case("mpi-v1-fails", first, mpi, RUN, Step(pods={"launcher": "Failed:1"}), slotsPerWorker=2)
    yield case("mpi-v1-worker-fails", first, mpi, RUN, Step(pods={"worker-1": "Failed:1"}), mainContainer="mpi")
    yield case("mpi-v1-suspended", first, mpi, RUN, Step(patch={"runPolicy": {"suspend": True}}))


def _by_ssh() -> Iterator[Case]:
    def case(id_: str, *steps: Step, policy: str = "", workers: int = 2, **more: Any) -> Case:
        roles = {"Launcher": (1, policy), "Worker": (workers, "")}
        return Case(id=f"mpi-v2-{id_}", kind=catalog.MPIJOB, spec=spec_of("MPIJob", roles, **more), steps=steps)

    clean = {"cleanPodPolicy": "Running"}
    yield case("succeeds", RUN, Step(pods={"launcher": "Succeeded"}), runPolicy=clean, slotsPerWorker=2)
    limited = {**clean, "backoffLimit": 0}
    yield case("fails", RUN, Step(pods={"launcher": "Failed:1"}), policy="Never", runPolicy=limited)
    yield case("worker-evicted", RUN, Step(pods={"worker-1": "Evicted"}), runPolicy=clean)
    yield case(
        "suspended-and-resumed",
        RUN,
        Step(patch={"runPolicy": {"suspend": True}}),
        Step(patch={"runPolicy": {"suspend": False}}),
        RUN,
    )
    yield case("waits-for-workers", RUN, launcherCreationPolicy="WaitForWorkersReady")
    yield case("launcher-as-worker", RUN, runLauncherAsWorker=True, mpiImplementation="Intel")
    yield case("mpich", RUN, mpiImplementation="MPICH", sshAuthMountPath="/home/mpi/.ssh", workers=1)


def cases() -> list[Case]:
    """Return those of kubeflow.org/v1."""
    return [*_tensorflow(), *_pytorch(), *_others()]


def cases_by_ssh() -> list[Case]:
    """Return those of kubeflow.org/v2beta1, which another operator runs."""
    return [*_by_ssh()]
