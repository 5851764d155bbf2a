"""Rules of kubeflow.org/v2beta1 MPIJobs (spec training I2): of a job whose defaults are filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strato.api import names
from strato.api.frameworks import LAUNCHER, MPI_OPERATOR, OTHER_OPERATORS, WORKER
from strato.api.meta import Json
from strato.api.mpioperator import IMPLEMENTATIONS
from strato.api.status import invalid_value, not_supported, required
from strato.errors import Cause

_CLEAN: Final = ("All", "None", "Running")
_RESTARTS: Final = ("Never", "OnFailure")
_MANAGERS: Final = (OTHER_OPERATORS[0], MPI_OPERATOR)
_NEGATIVE: Final = "must be greater than or equal to 0"


def validate(name: str, spec: Json) -> list[Cause]:
    """Return the problems of a job."""
    roles: Mapping[str, Json | None] | None = spec.get("mpiReplicaSpecs")
    return [*_name(name, roles or {}), *_roles(roles), *_spec(spec)]


def _name(name: str, roles: Mapping[str, Json | None]) -> Iterator[Cause]:
    workers = (roles.get(WORKER) or {}).get("replicas") or 1
    longest = f"{name}-worker-{max(1, workers) - 1}"
    problems = names.check_label_1035(longest)
    if problems:
        text = f'will not able to create pod and service with invalid DNS label "{longest}": {", ".join(problems)}'
        yield invalid_value("metadata.name", name, text)


def _roles(roles: Mapping[str, Json | None] | None) -> Iterator[Cause]:
    field = "spec.mpiReplicaSpecs"
    if roles is None:
        yield required(field, "must have replica specs")
        return
    for role in sorted(set(roles) - {LAUNCHER, WORKER}):
        yield not_supported(f"{field}[{role}]", role, (LAUNCHER, WORKER))
    launcher, worker = roles.get(LAUNCHER), roles.get(WORKER)
    if launcher is None:
        yield required(f"{field}[{LAUNCHER}]", f"must have {LAUNCHER} replica spec")
    else:
        yield from _replica(f"{field}[{LAUNCHER}]", launcher)
        if launcher.get("replicas") not in (None, 1):
            yield invalid_value(f"{field}[{LAUNCHER}].replicas", launcher["replicas"], "must be 1")
    if worker is not None:
        yield from _replica(f"{field}[{WORKER}]", worker)
        count = worker.get("replicas")
        if count is not None and count < 1:
            yield invalid_value(f"{field}[{WORKER}].replicas", count, "must be greater than or equal to 1")


def _replica(field: str, replica: Json) -> Iterator[Cause]:
    if replica.get("replicas") is None:
        yield required(f"{field}.replicas", "must define number of replicas")
    policy = replica.get("restartPolicy") or ""
    if policy not in _RESTARTS:
        yield not_supported(f"{field}.restartPolicy", policy, _RESTARTS)
    if not ((replica.get("template") or {}).get("spec") or {}).get("containers"):
        yield required(f"{field}.template.spec.containers", "must define at least one container")


def _spec(spec: Json) -> Iterator[Cause]:
    slots = spec.get("slotsPerWorker")
    if slots is None:
        yield required("spec.slotsPerWorker", "must have number of slots per worker")
    elif slots < 0:
        yield invalid_value("spec.slotsPerWorker", slots, _NEGATIVE)
    yield from _run_policy(spec.get("runPolicy") or {})
    if not spec.get("sshAuthMountPath"):
        yield required("spec.sshAuthMountPath", "must have a mount path for SSH credentials")
    implementation = spec.get("mpiImplementation") or ""
    if implementation not in IMPLEMENTATIONS:
        yield not_supported("spec.mpiImplementation", implementation, IMPLEMENTATIONS)


def _run_policy(policy: Json) -> Iterator[Cause]:
    clean = policy.get("cleanPodPolicy")
    if clean is None:
        yield required("spec.runPolicy.cleanPodPolicy", "must have clean Pod policy")
    elif clean not in _CLEAN:
        yield not_supported("spec.runPolicy.cleanPodPolicy", clean, _CLEAN)
    for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"):
        value = policy.get(name)
        if value is not None and value < 0:
            yield invalid_value(f"spec.runPolicy.{name}", value, _NEGATIVE)
    manager = policy.get("managedBy")
    if manager is not None and manager not in _MANAGERS:
        yield not_supported("spec.runPolicy.managedBy", manager, _MANAGERS)
