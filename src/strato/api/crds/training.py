"""Schemas of kubeflow.org/v1 (spec training A)."""

from __future__ import annotations

from typing import Final

from strato.api import mpioperator
from strato.api.crds.rules import ValidationRule, add
from strato.api.crds.schema import (
    SUBDOMAIN,
    Schema,
    array,
    boolean,
    integer,
    mapping,
    obj,
    opaque,
    resources,
    text,
    time,
)

_CLEAN: Final = ("All", "Running", "None")
_NPROC: Final = "^(auto|cpu|gpu|[1-9][0-9]*)$"
_QUEUE_IS_KEPT: Final = ValidationRule("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")
_VERSION_IS_KEPT: Final = ValidationRule(
    "has(self.sshAuthMountPath) == has(oldSelf.sshAuthMountPath)",
    "an MPIJob keeps the version it was created in (v2beta1 sets sshAuthMountPath): change it through that version",
)
_BOUNDS: Final = ValidationRule(
    "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
    "minReplicas must be <= maxReplicas",
)


def _run_policy() -> Schema:
    queue = add(text("Queue of the job's PodGroup.", max_length=253, pattern=SUBDOMAIN), _QUEUE_IS_KEPT)
    scheduling = obj(
        {
            "minAvailable": integer("Pods that must run at once; all of them without it.", minimum=0),
            "queue": queue,
            "minResources": resources("What must be free before pods are made; what those pods ask for without it."),
            "priorityClass": text("Priority class of the PodGroup.", max_length=253),
            "scheduleTimeoutSeconds": integer(
                "Seconds the group may wait for all of its pods; counted where the controllers are told to.", minimum=0
            ),
        },
        "How the job is scheduled as one gang.",
    )
    return obj(
        {
            "cleanPodPolicy": text("Which pods go when the job ends; None by default.", enum=_CLEAN),
            "ttlSecondsAfterFinished": integer("Delete the job so long after its end.", minimum=0),
            "activeDeadlineSeconds": integer("Fail the job after running so long.", minimum=0, bits=64),
            "backoffLimit": integer("Fail the job at so many restarts.", minimum=0),
            "suspend": boolean("Whether the job has no pods for now.", default=False),
            "managedBy": text("Who runs the job.", max_length=253),
            "schedulingPolicy": scheduling,
        },
        "How the job runs and ends.",
    )


def _replicas(roles: str) -> Schema:
    replica = obj(
        {
            "replicas": integer("Pods of the role; 1 by default.", minimum=0, maximum=100_000),
            "restartPolicy": text(
                "What happens to a pod that fails.", enum=["Always", "OnFailure", "Never", "ExitCode"]
            ),
            "template": opaque("Template of the pods (v1 PodTemplateSpec)."),
        },
        "The pods of one role.",
    )
    schema = mapping(replica, f"Pods by role: {roles}.")
    schema["maxProperties"] = 16
    return schema


def _status() -> Schema:
    condition = obj(
        {
            "type": text("Created, Running, Restarting, Succeeded, Suspended or Failed."),
            "status": text("True, False or Unknown."),
            "reason": text("Why, in one word."),
            "message": text("Why, for people."),
            "lastUpdateTime": time("When it was written."),
            "lastTransitionTime": time("When its status changed."),
        },
        required=["status", "type"],
    )
    replica = obj(
        {
            "active": integer("Pods that run."),
            "succeeded": integer("Pods that have succeeded."),
            "failed": integer("Pods that have failed."),
            "selector": text("Selects the pods of the role."),
            "succeededIndexes": array(integer(), "Replicas that are not made again."),
        }
    )
    replaced = obj({"count": integer("How many."), "uids": array(text(), "Those that may still be there.")})
    return obj(
        {
            "conditions": array(condition, "What has happened, the newest last."),
            "replicaStatuses": mapping(replica, "Pods by role."),
            "startTime": time("When pods were made first, or again after a suspension."),
            "completionTime": time("When the job ended."),
            "lastReconcileTime": time("Since when the job waits for its PodGroup."),
            "replacedPods": replaced,
        },
        "How the job is doing.",
    )


def _job(replica_map: str, roles: str, more: dict[str, Schema] | None = None) -> dict[str, Schema]:
    members = {"runPolicy": _run_policy(), replica_map: _replicas(roles), **(more or {})}
    return {"spec": obj(members, "What the job is.", required=[replica_map]), "status": _status()}


def _elastic(more: dict[str, Schema] | None = None) -> Schema:
    policy = obj(
        {
            "minReplicas": integer("Fewest workers.", minimum=0),
            "maxReplicas": integer("Most workers.", minimum=0),
            "maxRestarts": integer("Restarts of the group of workers.", minimum=0),
            "metrics": array(opaque(), "Metrics of a HorizontalPodAutoscaler (autoscaling/v2)."),
            **(more or {}),
        },
        "How many workers the job may have.",
    )
    return add(policy, _BOUNDS)


def tensorflow() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a TFJob."""
    more = {
        "successPolicy": text(
            "Empty: worker 0 decides; AllWorkers: all of them, where there is no chief.", enum=["", "AllWorkers"]
        ),
        "enableDynamicWorker": boolean("Whether workers may come and go: each knows only itself and the servers."),
    }
    return _job("tfReplicaSpecs", "Chief or Master, PS, Worker, Evaluator", more)


def pytorch() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a PyTorchJob."""
    option = obj({"key": text("Name."), "value": text("Value.")})
    rendezvous = {
        "rdzvBackend": text("Rendezvous backend; c10d by default.", enum=["c10d", "etcd", "etcd-v2"]),
        "rdzvPort": integer("Port of the rendezvous.", minimum=1, maximum=65535),
        "rdzvHost": text("Host of the rendezvous; worker 0 by default."),
        "rdzvId": text("Identity of the rendezvous."),
        "rdzvConf": array(option, "Further options of the backend."),
        "standalone": boolean("Whether each worker trains alone."),
        "nProcPerNode": integer("Deprecated: nprocPerNode.", minimum=1),
    }
    more = {
        "nprocPerNode": text("Processes of a worker: auto, cpu, gpu or a number.", pattern=_NPROC),
        "elasticPolicy": _elastic(rendezvous),
    }
    return _job("pytorchReplicaSpecs", "Master, Worker", more)


def xgboost() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of an XGBoostJob."""
    return _job("xgbReplicaSpecs", "Master, Worker")


def paddle() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a PaddleJob."""
    return _job("paddleReplicaSpecs", "Master, Worker", {"elasticPolicy": _elastic()})


def mpi(*, by_ssh: bool) -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of an MPIJob of v1, or of v2beta1.

    Both versions have the fields of both, so that an object loses nothing when it is read in the other version. The
    path of the ssh keys, which only the defaults of v2beta1 set, shows in which version an object was created.
    """
    more = {
        "slotsPerWorker": integer(
            "Ranks of a worker; 1 by default.", minimum=0, maximum=100_000, default=1 if by_ssh else None
        ),
        "cleanPodPolicy": text("v1: which pods go when the job ends; runPolicy goes first.", enum=_CLEAN),
        "mainContainer": text("v1: the container of the workers in which ranks are started.", max_length=63),
        "runLauncherAsWorker": boolean(
            "v2beta1: whether ranks run in the launcher too.", default=False if by_ssh else None
        ),
        "sshAuthMountPath": text(
            "v2beta1: where the keys are mounted.", max_length=4096, default=mpioperator.SSH_PATH if by_ssh else None
        ),
        "launcherCreationPolicy": text(
            "v2beta1: when the launcher is made.",
            enum=mpioperator.CREATION_POLICIES,
            default=mpioperator.AT_STARTUP if by_ssh else None,
        ),
        "mpiImplementation": text(
            "v2beta1: whose MPI it is.",
            enum=mpioperator.IMPLEMENTATIONS,
            default=mpioperator.OPEN_MPI if by_ssh else None,
        ),
    }
    members = _job("mpiReplicaSpecs", "Launcher, Worker", more)
    add(members["spec"], _VERSION_IS_KEPT)
    return members


def jax() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a JAXJob."""
    return _job("jaxReplicaSpecs", "Worker")
