"""Rules of TrainJobs and runtimes that their schemas cannot state (spec training K); they return all problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from strato.api import torchtune, trainer
from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value
from strato.api.trainer import JobSetSpec
from strato.errors import Cause

_TORCH: Final = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
_XGBOOST: Final = ("DMLC_NUM_WORKER", "DMLC_TASK_ID", "DMLC_TRACKER_PORT", "DMLC_TRACKER_URI")
_MPI: Final = (
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)
_RESERVED: Final = {"torch": _TORCH, "xgboost": _XGBOOST, "mpi": _MPI}
"""Framework → variables that only it sets."""
_JOBS: Final = "spec.template.spec"
_PATCHES: Final = "spec.runtimePatches"
_VOLUME: Final = "initializer"
_MISSING: Final = "specified trainingRuntime must be created before the TrainJob is created"
_SUSPENDED_ONLY: Final = "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"


def missing_runtime(reference: Json) -> Cause:
    """Return the cause for a new job whose runtime does not exist."""
    return invalid_value("spec.runtimeRef", reference.get("name"), _MISSING)


def of_job(job: Json, runtime: Json) -> list[Cause]:
    """Return the problems of a job with its runtime, which was admitted itself."""
    spec, described = job.get("spec") or {}, runtime.get("spec") or {}
    view = _view(described)
    if isinstance(view, Cause):
        return [view]
    steps = {
        one.name: {container.name for container in one.template.spec.template.spec.all_containers}
        for one in view.replicated_jobs
    }
    return [
        *_variables(spec.get("trainer") or {}, described.get("mlPolicy") or {}),
        *_tuning(spec, view, described.get("mlPolicy") or {}),
        *_initializers(spec, view, steps),
        *_patches(spec.get("runtimePatches") or (), steps),
    ]


def of_change(job: Json, old: Json) -> Iterator[Cause]:
    """Yield a cause if the patches of a running job have changed."""
    new, before = job.get("spec") or {}, old.get("spec") or {}
    if _without_times(new) != _without_times(before) and not (new.get("suspend") or before.get("suspend")):
        yield forbidden_field(_PATCHES, _SUSPENDED_ONLY)


def of_runtime(runtime: Json) -> list[Cause]:
    """Return the problems of a runtime, except those of its pods."""
    view = _view(runtime.get("spec") or {})
    if isinstance(view, Cause):
        return [view]
    return [*_order(view)]


def _view(spec: Mapping[str, Any]) -> JobSetSpec | Cause:
    given = (spec.get("template") or {}).get("spec") or {}
    try:
        return msgspec.convert(given, JobSetSpec)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        return invalid_value(f"{_JOBS}{place.rstrip('`')}", "", text)


def _without_times(spec: Json) -> list[Json]:
    return [{**one, "time": None} for one in spec.get("runtimePatches") or ()]


def _variables(own: Json, policy: Json) -> Iterator[Cause]:
    for framework, reserved in _RESERVED.items():
        if policy.get(framework) is not None:
            taken = sorted({one.get("name") for one in own.get("env") or ()} & set(reserved))
            if taken:
                text = f"must not have reserved envs, invalid envs configured: [{' '.join(taken)}]"
                yield invalid_value("spec.trainer.env", ", ".join(taken), text)


def _tuning(spec: Json, view: JobSetSpec, policy: Json) -> Iterator[Cause]:
    own = spec.get("trainer") or {}
    if policy.get("torch") is None or not torchtune.is_tuning(own.get("command")):
        return
    nodes = (one.template for one in view.replicated_jobs)
    labelled = (one for one in nodes if one.metadata.label(trainer.STEP_LABEL) == trainer.TRAINER)
    containers = (one for job in labelled for one in job.spec.template.spec.containers if one.name == trainer.NODE)
    found = next(containers, None)
    resources = msgspec.to_builtins(found.resources) if found is not None else {}
    yield from torchtune.problems(spec, own.get("resourcesPerNode") or resources)


def _initializers(spec: Json, view: JobSetSpec, steps: Mapping[str, set[str]]) -> Iterator[Cause]:
    given, name = spec.get("initializer") or {}, (spec.get("runtimeRef") or {}).get("name")
    for member, step in (("dataset", trainer.DATASET), ("model", trainer.MODEL)):
        if given.get(member) is None:
            continue
        if step not in steps:
            text = f"must have {step} job when trainJob is configured with input {member}Config"
            yield invalid_value("spec.runtimeRef", name, text)
        elif step not in steps[step]:
            text = f"must have container with name - {step} in the {step} job"
            yield invalid_value("spec.runtimeRef", name, text)
        elif not _mounts(view, step):
            text = f"must have volumeMount with name - {_VOLUME} in container {step} of the {step} job"
            yield invalid_value("spec.runtimeRef", name, text)


def _mounts(view: JobSetSpec, step: str) -> bool:
    """Return whether an initializer has a mounted volume for the data that it fetches."""
    (job,) = (one for one in view.replicated_jobs if one.name == step)
    containers = job.template.spec.template.spec.containers
    return any(mount.name == _VOLUME for one in containers if one.name == step for mount in one.volume_mounts)


def _patches(patches: Sequence[Json], steps: Mapping[str, set[str]]) -> Iterator[Cause]:
    own = (trainer.DATASET, trainer.MODEL, trainer.NODE)
    for position, patch in enumerate(patches):
        place = f"{_PATCHES}[{position}]"
        template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for job in (template.get("spec") or {}).get("replicatedJobs") or ():
            name = job.get("name")
            if name not in steps:
                text = "must not have replicated job that doesn't exist in the runtime job template"
                yield invalid_value(place, name, text)
                continue
            pods = (((job.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
            for member, what in (("initContainers", "initContainer"), ("containers", "container")):
                for one in pods.get(member) or ():
                    found = one.get("name") if isinstance(one, dict) else None
                    if found not in steps[name]:
                        yield invalid_value(
                            place, found, f"must not have {what} that doesn't exist in the runtime job {name}"
                        )
                    elif found in own and one.get("env"):
                        yield invalid_value(place, found, f"must not have envs for the {', '.join(own)} containers")


def _order(view: JobSetSpec) -> Iterator[Cause]:
    """Yield causes for dependencies that can never be met, and for an invalid duration."""
    kept = view.ttl_seconds_after_finished
    if kept is not None and kept < 0:
        yield invalid_value(f"{_JOBS}.ttlSecondsAfterFinished", kept, "must be greater than or equal to 0")
    names = {one.name for one in view.replicated_jobs}
    done: set[str] = set()
    for position, step in enumerate(view.replicated_jobs):
        for index, one in enumerate(step.depends_on):
            place = f"{_JOBS}.replicatedJobs[{position}].dependsOn[{index}]"
            if one.name not in names:
                yield invalid_value(f"{place}.name", one.name, "must be the name of another replicated job")
            elif one.name not in done:
                yield invalid_value(f"{place}.name", one.name, "must be a replicated job that stands before this one")
            if one.status not in ("Ready", "Complete"):
                yield invalid_value(f"{place}.status", one.status, "must be Ready or Complete")
        done.add(step.name)
