"""Admission of TrainJobs and of their runtimes (spec training K)."""

from __future__ import annotations

from typing import Final

import msgspec

from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json
from strato.admission.templates import template_causes
from strato.api import catalog, trainer
from strato.api.kinds import Kind
from strato.api.validation import trainjobs
from strato.errors import Cause

SERVICES: Final = {f"/{kind.plural}/validate": kind for kind in trainer.KINDS}
"""Kinds by the paths of their services."""


def webhook_of(kind: Kind) -> str:
    """Return the name under which objects of a kind are refused."""
    return f"validator.{kind.singular}.{trainer.GROUP}"


def runtime_of(job: Json) -> tuple[Kind, str]:
    """Return kind and name of the runtime that a job refers to; the default kind if it names no known one."""
    reference = (job.get("spec") or {}).get("runtimeRef") or {}
    kind = trainer.RUNTIMES.get(reference.get("kind") or "", catalog.CLUSTERTRAININGRUNTIME)
    return kind, reference.get("name") or ""


def validate_job(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a job that does not fit its runtime."""
    job, old = request.object, request.old_object
    assert job is not None
    reference = (job.get("spec") or {}).get("runtimeRef") or {}
    causes: list[Cause] = []
    if old is not None:
        causes += trainjobs.of_change(job, old)
    elif problem := _unsupported(reference):
        raise Denied(webhook_of(request.kind), problem)
    else:
        kind, name = runtime_of(job)
        runtime = reader.get(kind, request.namespace if kind.namespaced else "", name)
        causes += trainjobs.of_job(job, runtime) if runtime is not None else [trainjobs.missing_runtime(reference)]
    _refuse(request, causes)


def _unsupported(reference: Json) -> str:
    group, kind = reference.get("apiGroup") or trainer.GROUP, reference.get("kind")
    return trainer.runtime_problem(group, kind or catalog.CLUSTERTRAININGRUNTIME.name)


def validate_runtime(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a runtime that no job could run."""
    runtime, old = request.object, request.old_object
    assert runtime is not None
    if old is not None and old.get("spec") == runtime.get("spec"):
        return
    causes = trainjobs.of_runtime(runtime)
    if not causes:
        steps = ((runtime.get("spec") or {}).get("template") or {}).get("spec") or {}
        for position, step in enumerate(steps.get("replicatedJobs") or ()):
            template = ((step.get("template") or {}).get("spec") or {}).get("template") or {}
            place = f"spec.template.spec.replicatedJobs[{position}].template.spec"
            found = template_causes(msgspec.json.encode(template))
            causes += [Cause(cause.reason, cause.message, f"{place}.{cause.field}") for cause in found]
    _refuse(request, causes)


def _refuse(request: AdmissionRequest, causes: list[Cause]) -> None:
    if causes:
        raise Denied(webhook_of(request.kind), "; ".join(f"{cause.field}: {cause.message}" for cause in causes))
