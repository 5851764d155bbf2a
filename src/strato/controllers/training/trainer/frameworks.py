"""The environment of each framework's nodes: their rank, and the address of the first node (spec training K). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from strato.api import torchtune, trainer
from strato.api.meta import Json
from strato.api.quantity import value
from strato.api.torchtune import gpus_of
from strato.api.trainer import MLPolicy, MPIPolicy, TorchPolicy, TrainJob
from strato.controllers.kube.jobpolicies import INDEX_KEY
from strato.controllers.training.trainer import mpi
from strato.controllers.training.trainer.merging import with_variables
from strato.controllers.training.trainer.steps import BadRuntime, ReplicatedJobTemplate, Steps, upsert

_MEETING: Final = ("PET_MASTER_ADDR", "PET_MASTER_PORT")
_INDEX: Final = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX_KEY}']"}}


def inform(steps: Steps, job: TrainJob, policy: MLPolicy | None) -> None:
    """Add the variables and objects that the framework of a runtime needs to the steps, in place.

    Raises:
        BadRuntime: The framework is not supported, or a container that the runtime names is missing.
    """
    if policy is None:
        return
    if policy.flux is not None:
        raise BadRuntime("mlPolicy.flux is not run here: use mpi, or a Flux operator")
    if policy.mpi is not None:
        mpi.inform(steps, job, policy.mpi, slots(steps, job, policy.mpi))
        return
    node = steps.of_part(trainer.TRAINER)
    variables = list(_variables(steps, node, job, policy)) if node is not None else []
    if node is None or not variables:
        return
    tunes = policy.torch is not None and torchtune.is_tuning(job.spec.trainer.command)
    for container in node.containers(trainer.NODE):
        _add_variables(container, [one for one in variables if not (tunes and one["name"] in _MEETING)])
        if tunes:
            container["command"] = [*torchtune.ENTRYPOINT, *_tuning(steps, node, job)]
        upsert(container, "ports", [{"containerPort": trainer.PORT}], "containerPort")
    if policy.torch is not None:
        _inject(steps, policy.torch, variables)


def _variables(steps: Steps, node: ReplicatedJobTemplate, job: TrainJob, policy: MLPolicy) -> Iterator[Json]:
    first = f"{job.metadata.name}-{node.name}-0-0.{steps.subdomain}"
    if policy.torch is not None:
        yield {"name": "PET_NNODES", "value": str(node.pods)}
        yield {"name": "PET_NPROC_PER_NODE", "value": _processes_of_torch(node, job)}
        yield {"name": "PET_NODE_RANK", "valueFrom": _INDEX}
        yield {"name": "PET_MASTER_ADDR", "value": first}
        yield {"name": "PET_MASTER_PORT", "value": str(trainer.PORT)}
    elif policy.jax is not None:
        yield {"name": "JAX_NUM_PROCESSES", "value": str(node.pods)}
        yield {"name": "JAX_PROCESS_ID", "valueFrom": _INDEX}
        yield {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{first}:{trainer.PORT}"}
    elif policy.xgboost is not None:
        yield {"name": "DMLC_TRACKER_URI", "value": first}
        yield {"name": "DMLC_TRACKER_PORT", "value": str(trainer.PORT)}
        yield {"name": "DMLC_TASK_ID", "valueFrom": _INDEX}
        yield {"name": "DMLC_NUM_WORKER", "value": str(node.pods * max(1, gpus_of(_resources(node))))}


def _tuning(steps: Steps, node: ReplicatedJobTemplate, job: TrainJob) -> list[str]:
    """Return the arguments of torchtune, which reads its rendezvous address from these instead of from variables."""
    tuning = torchtune.Tuning(
        runtime=job.spec.runtime_ref.name,
        nodes=node.pods,
        processes=_processes_of_torch(node, job),
        gpus=gpus_of(_resources(node)),
        args=job.spec.trainer.args or (),
    )
    meeting = f"{job.metadata.name}-{node.name}-0-0.{steps.subdomain}:{trainer.PORT}"
    return tuning.arguments(meeting, torchtune.settings_of(node.of_runtime))


def _add_variables(container: Json, variables: list[Json]) -> None:
    container["env"] = with_variables(container.get("env"), variables)


def _inject(steps: Steps, policy: TorchPolicy, variables: list[Json]) -> None:
    for target in policy.env_injection.targets:
        step = steps.named(target.job_name)
        for name in target.container_names:
            found = list(step.containers(name)) if step is not None else []
            if not found:
                text = (
                    f'envInjection target podSet "{target.job_name}" container "{name}" not found in runtime template'
                )
                raise BadRuntime(text)
            for container in found:
                _add_variables(container, variables)


def _resources(step: ReplicatedJobTemplate) -> Mapping[str, Any]:
    return next((one.get("resources") or {} for one in step.containers(trainer.NODE)), {})


def _processes_of_torch(node: ReplicatedJobTemplate, job: TrainJob) -> str:
    """Return the processes of a node: as many as the job says, else one for each GPU, else one for each CPU."""
    own, resources = job.spec.trainer.num_proc_per_node, _resources(node)
    if own is not None:
        return str(own)
    if gpus_of(resources):
        return torchtune.AUTO
    cpus = (resources.get("requests") or {}).get("cpu") or (resources.get("limits") or {}).get("cpu") or 0
    return str(max(1, value(cpus)))


def slots(steps: Steps, job: TrainJob, policy: MPIPolicy) -> int:
    """Return the MPI ranks of a node: as many as the job says, else the runtime; where that is 1, one for each GPU."""
    own, node = job.spec.trainer.num_proc_per_node, steps.named(trainer.NODE)
    if own is not None:
        return own
    if policy.num_proc_per_node == 1 and node is not None:
        return max(1, gpus_of(_resources(node)))
    return policy.num_proc_per_node
