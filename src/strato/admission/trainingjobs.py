"""Admission of training jobs (spec training A5): the rules of their kind, then of the pods they ask for."""

from __future__ import annotations

import msgspec

from strato.admission.queue_reads import queue_problem
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied
from strato.admission.templates import template_causes
from strato.api import catalog, mpioperator
from strato.api.frameworks import BY_KIND, Framework
from strato.api.validation import mpijobs, trainingjobs


def webhook_of(framework: Framework) -> str:
    """Return the name under which jobs of a framework are refused."""
    return f"validator.{framework.kind.singular}.training-operator.kubeflow.org"


def path_of(framework: Framework) -> str:
    """Return the path of the service that judges jobs of a framework."""
    version = "" if framework.kind.version == "v1" else f"/{framework.kind.version}"
    return f"/{framework.kind.plural}{version}/validate"


SERVICES = {path_of(framework): framework for framework in BY_KIND.values()}
"""Frameworks by the paths of their services."""


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a job that breaks rules, naming all of them; warn about deprecated fields."""
    assert request.object is not None
    framework = BY_KIND[request.kind]
    job, old = request.object, request.old_object
    spec = job.get("spec") or {}
    if framework.kind.name == catalog.MPIJOB.name:  # a job of one version may be written in the other
        framework = BY_KIND[catalog.MPIJOB if spec.get("sshAuthMountPath") else catalog.MPIJOB_V1]
    if framework.kind is catalog.MPIJOB:
        causes = mpijobs.validate(job["metadata"].get("name") or "", mpioperator.with_defaults(spec))
        causes += trainingjobs.kept_manager(spec, old)
    else:
        causes = trainingjobs.validate(framework, job, old)
    problems = [f"{cause.field}: {cause.message}" for cause in causes]
    if not problems and (old is None or spec != old.get("spec")):
        for role, replica in sorted((spec.get(framework.replica_map) or {}).items()):
            text = msgspec.json.encode((replica or {}).get("template") or {})
            place = f"spec.{framework.replica_map}[{role}]"
            problems += [f"{place}.{cause.field}: {cause.message}" for cause in template_causes(text)]
    if old is None:
        queue = ((spec.get("runPolicy") or {}).get("schedulingPolicy") or {}).get("queue")
        if queue and (problem := queue_problem(queue, reader, "job")):
            problems.append(f"spec.runPolicy.schedulingPolicy.queue: {problem}")
    if problems:
        raise Denied(webhook_of(framework), "; ".join(problems))
    request.warnings.extend(trainingjobs.warnings(spec))
