"""PodGroup admission (spec volcano-api 17)."""

from __future__ import annotations

from strato.admission.queue_reads import queue_problem
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json
from strato.api import catalog
from strato.api.volcano.scheduling import QUEUE_ANNOTATION

WEBHOOK = "validatepodgroup.volcano.sh"

TIER_CONFLICT = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def mutate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Move a group of the queue ``default`` to the queue that its namespace's annotation names."""
    group = request.object
    assert group is not None
    spec = group.get("spec")
    if spec is None:
        spec = group["spec"] = {}
    if spec.get("queue") != "default":
        return
    namespace = reader.get(catalog.NAMESPACE, "", request.namespace)
    if namespace is not None:
        annotations = (namespace.get("metadata") or {}).get("annotations") or {}
        if QUEUE_ANNOTATION in annotations:
            spec["queue"] = annotations[QUEUE_ANNOTATION]


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check queue and network topology of a new group."""
    group = request.object
    assert group is not None
    spec = group.get("spec") or {}
    problems: list[str] = []
    queue = spec.get("queue")
    if queue and (problem := queue_problem(queue, reader, "PodGroup")):
        problems.append(problem)
    if has_tier_conflict(spec.get("networkTopology")):
        problems.append(TIER_CONFLICT)
    for policy in spec.get("subGroupPolicy") or ():
        if has_tier_conflict(policy.get("networkTopology")):
            problems.append(f"in subGroupPolicy '{policy.get('name') or ''}': {TIER_CONFLICT}")
            break
    if problems:
        raise Denied(WEBHOOK, "; ".join(problems))


def has_tier_conflict(topology: Json | None) -> bool:
    """Whether a topology names its highest tier by number and by name."""
    return (
        topology is not None
        and topology.get("highestTierAllowed") is not None
        and bool(topology.get("highestTierName"))
    )
