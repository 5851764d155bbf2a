"""The PodGroup of a job: build it, and compute the patch that brings it up to date.

Source: volcano-controllers A10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from strato.api import usage
from strato.api.core import PodSpec
from strato.api.meta import Key
from strato.api.volcano.batch import Job, TaskSpec
from strato.api.volcano.scheduling import NetworkTopologySpec, PodGroup, SubGroupPolicySpec
from strato.controllers.job import terms
from strato.controllers.owners import controller_reference

PriorityOf = Callable[[str], int]
"""Returns the value of the PriorityClass of that name, 0 when there is none."""

_UPDATED = ("priorityClassName", "minMember", "minResources", "minTaskMember", "subGroupPolicy")
"""Members of the spec that follow the job; queue, topology, labels and annotations stay as created."""


def group_name(job: Job) -> str:
    """Return the name of the PodGroup of a job."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def group_key(job: Job) -> Key:
    """Return namespace and name of the PodGroup of a job."""
    return Key(job.metadata.namespace, group_name(job))


def build_group(job: Job, spec: dict[str, Any] | msgspec.Raw) -> dict[str, Any]:
    """Return the PodGroup to create, with phase Pending: PodGroups have no status subresource, so a create sets it."""
    metadata: dict[str, Any] = {
        "name": group_name(job),
        "namespace": job.metadata.namespace,
        "ownerReferences": [controller_reference(terms.JOB_API_VERSION, terms.JOB_KIND, job.metadata)],
    }
    if job.metadata.annotations:
        metadata["annotations"] = dict(job.metadata.annotations)
    if job.metadata.labels:
        metadata["labels"] = dict(job.metadata.labels)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def group_spec(job: Job, priority_of: PriorityOf) -> dict[str, Any]:
    """Return the spec the job's PodGroup should have."""
    spec = job.spec
    wanted: dict[str, Any] = {
        "minMember": spec.min_available,
        "queue": spec.queue,
        "minTaskMember": {task.name: _task_minimum(task) for task in spec.tasks},
        "minResources": min_resources(job, priority_of),
    }
    if spec.priority_class_name:
        wanted["priorityClassName"] = spec.priority_class_name
    if spec.network_topology is not None:
        wanted["networkTopology"] = _topology(spec.network_topology)
    if policies := [_sub_group(task) for task in spec.tasks if task.partition_policy is not None]:
        wanted["subGroupPolicy"] = policies
    return wanted


def group_patch(group: PodGroup, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch that brings a PodGroup's spec up to date, None when it is."""
    present: dict[str, Any] = msgspec.to_builtins(group.spec)
    changes: dict[str, Any] = {}
    for name in _UPDATED:
        old, new = present.get(name), wanted.get(name)
        if old == new:
            continue
        if name == "minResources":
            equal = usage.same(group.spec.min_resources, new)
        elif name == "subGroupPolicy":
            equal = _normal(old) == _normal(new)
        else:
            equal = (old or None) == (new or None)
        if equal:
            continue
        if isinstance(old, dict):
            changes[name] = {**dict.fromkeys(set(old) - set(new or {})), **(new or {})}
        else:
            changes[name] = new
    return {"spec": changes} if changes else None


def min_resources(job: Job, priority_of: PriorityOf) -> Mapping[str, str]:
    """Return the requests of the smallest gang: pods of the tasks of highest priority, up to ``minAvailable`` pods."""
    return usage.total_json(_smallest_gang(job, priority_of))


def _smallest_gang(job: Job, priority_of: PriorityOf) -> list[tuple[PodSpec, int]]:
    tasks = sorted(job.spec.tasks, key=lambda t: -priority_of(t.template.spec.priority_class_name))
    need = job.spec.min_available
    wanted = sum(t.replicas if t.min_available is None else t.min_available for t in tasks)
    chosen = dict.fromkeys(range(len(tasks)), 0)
    if need >= wanted:
        for position, task in enumerate(tasks):
            chosen[position] = min(task.min_available or 0, need)
            need -= chosen[position]
    for position, task in enumerate(tasks):
        more = max(0, min(task.replicas - chosen[position], need))
        chosen[position] += more
        need -= more
    return [(task.template.spec, chosen[position]) for position, task in enumerate(tasks) if chosen[position]]


def job_of_group(group: PodGroup) -> Key:
    """Return the key of a PodGroup's job: its owner of kind Job, else the job with the group's name."""
    for owner in group.metadata.owner_references or ():
        if owner.kind == terms.JOB_KIND:
            return Key(group.metadata.namespace, owner.name)
    return group.metadata.key


def is_admitted(group: PodGroup | None) -> bool:
    """Return whether the scheduler has admitted the group, so that its pods may be created."""
    return group is not None and group.status.phase not in ("", terms.Phase.PENDING)


def newest_condition(group: PodGroup) -> tuple[str, str] | None:
    """Return type and message of the newest condition that holds."""
    holding = [c for c in group.status.conditions if c.status == "True"]
    if not holding:
        return None
    newest = max(holding, key=lambda c: c.last_transition_time or "")
    return newest.type, newest.message


def _task_minimum(task: TaskSpec) -> int:
    if task.min_available is not None:
        return task.min_available
    policy = task.partition_policy
    if policy is not None and policy.min_partitions and policy.partition_size:
        return policy.min_partitions * policy.partition_size
    return task.replicas


def _sub_group(task: TaskSpec) -> dict[str, Any]:
    policy = task.partition_policy
    assert policy is not None
    name = task.name
    group: dict[str, Any] = {
        "name": name,
        "subGroupSize": policy.partition_size,
        "minSubGroups": policy.min_partitions,
        "labelSelector": {"matchLabels": {terms.TASK_SPEC: name}},
        "matchLabelKeys": [terms.PARTITION_ID],
    }
    if policy.network_topology is not None:
        group["networkTopology"] = _topology(policy.network_topology)
    return group


def _topology(view: NetworkTopologySpec) -> dict[str, Any]:
    wanted: dict[str, Any] = {"mode": view.mode}
    if view.highest_tier_allowed is not None:
        wanted["highestTierAllowed"] = view.highest_tier_allowed
    elif view.highest_tier_name:
        wanted["highestTierName"] = view.highest_tier_name
    return wanted


def _normal(policies: Iterable[dict[str, Any]] | None) -> list[SubGroupPolicySpec]:
    """Decode sub-group policies, which fills in defaults, so that written and decoded ones can be compared."""
    if not policies:
        return []
    return msgspec.convert(list(policies), list[SubGroupPolicySpec])
