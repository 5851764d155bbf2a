"""Schemas of trainer.kubeflow.org/v1alpha1 (spec training K)."""

from __future__ import annotations

from typing import Final

from strato.api import trainer
from strato.api.crds.rules import ValidationRule, add
from strato.api.crds.schema import (
    Schema,
    array,
    boolean,
    condition,
    integer,
    mapping,
    network_topology,
    obj,
    opaque,
    resources,
    text,
    time,
)

_KEPT: Final = ValidationRule("self == oldSelf", "field is immutable")
_MANAGERS: Final = (trainer.CONTROLLER, *trainer.OTHER_CONTROLLERS)
_MANAGER: Final = ValidationRule(
    f"self in {list(_MANAGERS)!r}",
    f"ManagedBy must be {_MANAGERS[0]} or {_MANAGERS[1]} if set",
)
_URI: Final = ValidationRule(
    "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    "storageUri may be empty, or it must be a valid URI (scheme://...)",
)
_ONE_POLICY: Final = ValidationRule(
    "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(x, x).size() <= 1",
    "Only one of the policy can be configured",
)
_ONE_SCHEDULER: Final = ValidationRule(
    "!(has(self.coscheduling) && has(self.volcano))", "Only one of coscheduling and volcano can be configured"
)
_NOT_THE_NODE: Final = ValidationRule(
    f"!self.exists(c, c == '{trainer.NODE}')",
    "containerNames must not include the main node container because PET_* envs are always injected into it",
)
ROOT: Final = (
    ValidationRule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must match RFC 1035 DNS label format",
    ),
    ValidationRule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
)
"""Rules of a TrainJob that need its name."""
_NAME: Final = 253
_MOST_VARIABLES: Final = 128


def _one_or_more(name: str) -> ValidationRule:
    return ValidationRule("self >= 1", f"{name} must be greater than or equal to 1")


def _variables(description: str) -> Schema:
    variable = obj(
        {"name": text(max_length=4096), "value": text(), "valueFrom": opaque("Where the value comes from.")},
        required=["name"],
    )
    return array(variable, description, max_items=_MOST_VARIABLES, list_type="map", list_map_keys=["name"])


def _initializer(what: str) -> Schema:
    return obj(
        {
            "storageUri": add(text("Where it comes from.", max_length=2048), _URI),
            "env": _variables("Variables of the container that brings it."),
            "secretRef": obj({"name": text(max_length=_NAME)}, "Secret with what is needed to get it."),
        },
        f"The {what}.",
    )


def _words(description: str) -> Schema:
    return array(text(max_length=1024 * 1024), description, max_items=_MOST_VARIABLES, list_type="atomic")


def _trainer() -> Schema:
    claim = obj({"name": text(), "request": text()}, required=["name"])
    asked = obj(
        {
            "limits": resources("The most of each resource."),
            "requests": resources("What is kept of each resource."),
            "claims": array(claim, "Claims of devices.", list_type="map", list_map_keys=["name"]),
        },
        "What each node gets.",
    )
    return obj(
        {
            "image": text("Image of the nodes.", max_length=500),
            "command": _words("Their command."),
            "args": _words("Its arguments."),
            "env": _variables("Their variables."),
            "numNodes": integer("How many there are.", minimum=0),
            "resourcesPerNode": asked,
            "numProcPerNode": add(integer("Processes of each node."), _one_or_more("numProcPerNode")),
        },
        "What the job says of its nodes; the rest is the runtime's.",
    )


def _metadata(of: str) -> Schema:
    return obj({"labels": mapping(text()), "annotations": mapping(text())}, f"Labels and annotations of {of}.")


def _patches() -> Schema:
    pods = obj({"metadata": _metadata("the pods"), "spec": opaque("Members of the pods' spec.")})
    jobs = obj({"metadata": _metadata("the Jobs"), "spec": obj({"template": pods})})
    replicated = obj({"name": text(max_length=_NAME, min_length=1), "template": jobs}, required=["name"])
    listed = array(replicated, max_items=100, list_type="map", list_map_keys=["name"])
    template = obj({"metadata": _metadata("all that is made"), "spec": obj({"replicatedJobs": listed})})
    patch = obj(
        {
            "manager": text("Who patches.", max_length=_NAME, min_length=1),
            "time": time("When it was written."),
            "trainingRuntimeSpec": obj({"template": template}),
        },
        required=["manager"],
    )
    return array(patch, "Changes to the runtime.", max_items=16, list_type="map", list_map_keys=["manager"])


def _status() -> Schema:
    counts = {
        name: integer(f"Jobs {text_}.", minimum=0)
        for name, text_ in (
            ("ready", "whose pods are all ready or done"),
            ("succeeded", "that have succeeded"),
            ("failed", "that have failed"),
            ("active", "with pods that run or will"),
            ("suspended", "that are suspended"),
        )
    }
    step = obj({"name": text("Name of the replicated job.", max_length=_NAME), **counts}, required=["name", *counts])
    metric = obj({"name": text(max_length=64), "value": text(max_length=64)}, required=["name", "value"])
    progress = obj(
        {
            "progressPercentage": integer("How much is done.", minimum=0, maximum=100),
            "estimatedRemainingSeconds": integer("How long it will take yet.", minimum=0),
            "metrics": array(metric, "Of the model.", max_items=256, list_type="atomic"),
            "lastUpdatedTime": time("When this was so."),
        },
        "What the training says of itself.",
    )
    return obj(
        {
            "conditions": array(
                condition(), "What has happened.", max_items=8, list_type="map", list_map_keys=["type"]
            ),
            "jobsStatus": array(step, "The Jobs of each step.", max_items=100, list_type="map", list_map_keys=["name"]),
            "trainerStatus": progress,
        },
        "How the training is doing.",
    )


def train_job() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a TrainJob."""
    reference = obj(
        {
            "name": text("Name of the runtime.", max_length=_NAME, min_length=1),
            "apiGroup": text("Its group.", max_length=_NAME, default=trainer.GROUP),
            "kind": text("Its kind.", max_length=_NAME, default=trainer.CLUSTERTRAININGRUNTIME.name),
        },
        "What the job runs.",
        required=["name"],
    )
    steps = {"dataset": _initializer("data set"), "model": _initializer("model to begin with")}
    spec = obj(
        {
            "runtimeRef": add(reference, _KEPT),
            "initializer": add(obj(steps, "What is fetched before the training."), _KEPT),
            "trainer": add(_trainer(), _KEPT),
            "runtimePatches": _patches(),
            "suspend": boolean("Whether the job has no pods for now.", default=False),
            "activeDeadlineSeconds": add(integer("Fail the job after running so long.", minimum=1, bits=64), _KEPT),
            "managedBy": add(text("Who runs the job.", max_length=_NAME, default=trainer.CONTROLLER), _MANAGER, _KEPT),
        },
        "What the job is.",
        required=["runtimeRef"],
    )
    return {"spec": spec, "status": _status()}


def runtime() -> dict[str, Schema]:
    """Return ``spec`` of a TrainingRuntime and of a ClusterTrainingRuntime."""
    target = obj(
        {
            "jobName": text("Name of the replicated job.", max_length=_NAME, min_length=1),
            "containerNames": add(
                array(text(max_length=63), "Its containers.", min_items=1, max_items=8, list_type="set"),
                _NOT_THE_NODE,
            ),
        },
        required=["containerNames", "jobName"],
    )
    targets = array(target, max_items=16, list_type="map", list_map_keys=["jobName"])
    torch = obj({"envInjection": obj({"targets": targets}, "Further containers that get PET_* variables.")})
    mpi = obj(
        {
            "numProcPerNode": add(
                integer("Slots of each node.", default=1), _one_or_more("NumProcPerNode in mpiPolicy")
            ),
            "mpiImplementation": text("Whose MPI it is.", enum=["OpenMPI", ""], default="OpenMPI"),
            "sshAuthMountPath": text("Where the keys are mounted.", max_length=4096, default="/root/.ssh"),
            "runLauncherAsNode": boolean("Whether ranks run in the launcher too.", default=False),
        }
    )
    flux = obj({"numProcPerNode": add(integer(default=1), _one_or_more("NumProcPerNode in fluxPolicy"))})
    policy = obj(
        {
            "numNodes": integer("Nodes of a job that does not say."),
            "torch": torch,
            "mpi": mpi,
            "jax": obj({}),
            "xgboost": obj({}),
            "flux": flux,
        },
        "What the framework needs.",
    )
    volcano = obj({"networkTopology": network_topology()})
    coscheduling = obj({"scheduleTimeoutSeconds": integer("How long a gang may wait.", default=60)})
    group = obj({"volcano": volcano, "coscheduling": coscheduling}, "How the pods are scheduled as a gang.")
    template = obj(
        {"metadata": _metadata("all that is made"), "spec": opaque("Spec of a JobSet (jobset.x-k8s.io/v1alpha2).")},
        "What is made for a job.",
    )
    spec = obj(
        {
            "mlPolicy": add(policy, _ONE_POLICY),
            "podGroupPolicy": add(group, _ONE_SCHEDULER),
            "template": template,
        },
        "What a job runs.",
    )
    return {"spec": spec}
