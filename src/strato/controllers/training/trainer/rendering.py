"""The objects made for a TrainJob: Jobs, the service for the names of pods, the PodGroup (spec training K). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strato.api import catalog, trainer, usage
from strato.api.meta import Json, ObjectMeta
from strato.api.pods import effective_requests
from strato.api.trainer import JobSetFailure, JobSetSuccess, TrainingRuntimeSpec, TrainJob
from strato.api.volcano.scheduling import GROUP_ANNOTATION, QUEUE_ANNOTATION, PodGroupSpec
from strato.controllers.owners import controller_reference
from strato.controllers.training.gang import DEFAULT_QUEUE
from strato.controllers.training.record import Companion
from strato.controllers.training.trainer import frameworks, mpi
from strato.controllers.training.trainer.steps import Dependency, ReplicatedJobTemplate, Steps, pod_view, steps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One of the Jobs of a TrainJob."""

    name: str
    step: str
    pods: int
    waits_for: Sequence[Dependency]
    body: Json
    """The Job to create, without ``suspend`` and without the label of the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """All objects made for a TrainJob."""

    jobs: Sequence[PlannedJob]
    companions: Sequence[Companion]
    group: PodGroupSpec | None
    """Spec of the PodGroup; None when the pods are no gang."""
    metadata: Json
    """Labels and annotations of all objects."""
    success: JobSetSuccess
    failure: JobSetFailure
    kept_seconds: int | None = None
    """How long the Jobs are kept after the end; None keeps them as long as the TrainJob."""


def render(job: TrainJob, runtime: TrainingRuntimeSpec, scheduler: str) -> Rendering:
    """Return the objects to make for a TrainJob.

    Args:
        job: The TrainJob.
        runtime: The runtime that it refers to.
        scheduler: Name of the scheduler of gangs; empty for no gangs.

    Raises:
        BadRuntime: The runtime cannot be run.
    """
    policy = runtime.ml_policy
    steps = steps_of(job, runtime)
    frameworks.inform(steps, job, policy)
    companions: list[Companion] = []
    if steps.has_names:
        companions.append(_service(steps, job))
    if policy is not None and policy.mpi is not None:
        companions += mpi.companions(steps, job, policy.mpi, frameworks.slots(steps, job, policy.mpi))
    group = _group(steps, job, runtime) if scheduler else None
    outside = steps.before_others()
    jobs = [
        _job(steps, step, job, index, scheduler if group is not None and step.name not in outside else "")
        for step in steps.steps
        for index in range(step.replicas)
    ]
    return Rendering(
        jobs=jobs,
        companions=companions,
        group=group,
        metadata=steps.metadata,
        success=steps.spec.success_policy,
        failure=steps.spec.failure_policy,
        kept_seconds=steps.spec.ttl_seconds_after_finished,
    )


def owned_by(job: ObjectMeta) -> list[Json]:
    """Return the owner references of the objects made for a job."""
    return [controller_reference(trainer.API_VERSION, trainer.TRAINJOB.name, job)]


def group_body(job: TrainJob, rendering: Rendering, spec: Json) -> Json:
    """Return the PodGroup to create."""
    annotations = {**(rendering.metadata.get("annotations") or {}), **(job.metadata.annotations or {})}
    return {
        "apiVersion": catalog.PODGROUP.api_version,
        "kind": catalog.PODGROUP.name,
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": rendering.metadata.get("labels") or {},
            "annotations": annotations,
            "ownerReferences": owned_by(job.metadata),
        },
        "spec": spec,
    }


def _job(steps: Steps, step: ReplicatedJobTemplate, job: TrainJob, index: int, scheduler: str) -> PlannedJob:
    name = f"{job.metadata.name}-{step.name}-{index}"
    labels = {
        trainer.JOBSET_NAME: job.metadata.name,
        trainer.JOBSET_UID: job.metadata.uid,
        trainer.REPLICATED_JOB: step.name,
        trainer.REPLICAS: str(step.replicas),
        trainer.JOB_INDEX: str(index),
    }
    meta, spec = step.template.get("metadata") or {}, dict(step.job)
    spec.pop("ttlSecondsAfterFinished", None)  # a Job that its time to live deletes would be created again
    template = dict(spec.get("template") or {})
    pod_meta, pod = template.get("metadata") or {}, {"restartPolicy": "OnFailure", **step.pod}
    annotations = dict(pod_meta.get("annotations") or {})
    if scheduler:
        annotations[GROUP_ANNOTATION] = job.metadata.name
        pod["schedulerName"] = pod.get("schedulerName") or scheduler
    if steps.has_names:
        pod.setdefault("subdomain", steps.subdomain)
    template["metadata"] = {"labels": {**(pod_meta.get("labels") or {}), **labels}, "annotations": annotations}
    template["spec"] = pod
    body = {
        "apiVersion": catalog.JOB.api_version,
        "kind": catalog.JOB.name,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {**(steps.metadata.get("labels") or {}), **(meta.get("labels") or {}), **labels},
            "annotations": {**(steps.metadata.get("annotations") or {}), **(meta.get("annotations") or {})},
            "ownerReferences": owned_by(job.metadata),
        },
        "spec": {"completionMode": "Indexed", "parallelism": step.pods, "completions": step.pods, **spec}
        | {"template": template},
    }
    return PlannedJob(name=name, step=step.name, pods=step.pods, waits_for=step.waits_for, body=body)


def _service(steps: Steps, job: TrainJob) -> Companion:
    spec = {
        "clusterIP": "None",
        "selector": {trainer.JOBSET_NAME: job.metadata.name},
        "publishNotReadyAddresses": steps.publishes_unready,
    }
    return Companion(kind=catalog.SERVICE, body={"metadata": {"name": steps.subdomain}, "spec": spec})


def _group(steps: Steps, job: TrainJob, runtime: TrainingRuntimeSpec) -> PodGroupSpec | None:
    """Return the gang's spec: ``minMember`` counts the pods that start together; later ones join the same group."""
    policy = runtime.pod_group_policy
    if policy is None or (policy.volcano is None and policy.coscheduling is None):
        return None
    total: usage.Usage = {}
    members, priority, outside = 0, "", steps.before_others()
    for step in steps.steps:
        if step.name not in outside:
            view, count = pod_view(step), step.pods * step.replicas
            usage.add(total, effective_requests(view), count)
            priority = priority or view.priority_class_name
            if steps.begins_with_the_nodes(step):
                members += count
    annotations = {**(job.metadata.annotations or {}), **(steps.metadata.get("annotations") or {})}
    return PodGroupSpec(
        min_member=members,
        queue=annotations.get(QUEUE_ANNOTATION) or DEFAULT_QUEUE,
        priority_class_name=priority,
        min_resources=usage.to_json(total),
        network_topology=policy.volcano.network_topology if policy.volcano is not None else None,
    )
