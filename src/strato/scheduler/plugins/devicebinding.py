"""Kubernetes' rules about resource claims (dynamic resource allocation). For `predicates`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from strato.api.resource import ResourceClaim
from strato.scheduler.cache.world import World
from strato.scheduler.claims.allocator import allocate
from strato.scheduler.claims.devices import Devices, UsedResourceClaim, resource_claims_of
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.reasons import Reason

CANNOT_ALLOCATE = Reason("predicates", "cannot allocate all claims")
NOT_THERE = Reason("predicates", "resourceclaim not available on the node")

MAX_CONSUMERS = 256
"""Pods that may share a claim (Kubernetes' ResourceClaimReservedForMaxSize)."""


def pre_filter(devices: Devices, task: Task) -> str:
    """Return why no node fits, empty when one may: a claim is missing, terminating, full or of an unknown class."""
    for used in resource_claims_of(task):
        if not used.key:
            return f'pod "{task.key}": ResourceClaim not created yet'
        claim = devices.claims.get(used.key)
        name = used.key.partition("/")[2]
        if claim is None:
            return f'resourceclaim.resource.k8s.io "{name}" not found'
        problem = _problem(devices, task, used, claim)
        if problem:
            return problem
    return ""


def _problem(devices: Devices, task: Task, used: UsedResourceClaim, claim: ResourceClaim) -> str:
    owner = claim.metadata.controller
    if used.made and (owner is None or owner.uid != task.uid):
        return f'ResourceClaim "{used.key}" was not created for pod "{task.key}" (pod is not owner)'
    if claim.metadata.deletion_timestamp is not None:
        return f'resourceclaim "{claim.metadata.name}" is being deleted'
    if claim.status.allocation is not None:
        consumers = claim.status.reserved_for
        if len(consumers) >= MAX_CONSUMERS and not any(consumer.uid == task.uid for consumer in consumers):
            return "resourceclaim in use"
        return ""
    for request in claim.spec.devices.requests:
        exact = request.exactly
        names = (
            [exact.device_class_name] if exact is not None else [s.device_class_name for s in request.first_available]
        )
        for class_name in names:
            if class_name not in devices.classes:
                return f"request {request.name}: device class {class_name} does not exist"
    return ""


def filter_claims(world: World, task: Task, rows: Rows) -> Verdicts | None:
    """Reject rows where allocated claims cannot be used, or the other claims cannot be allocated."""
    devices = world.devices
    codes = np.zeros(len(rows), np.uint16)
    open_claims = []
    pending = devices.pending_allocations()
    for used in resource_claims_of(task):
        claim = devices.claims.get(used.key)
        if claim is None:
            continue
        if claim.status.allocation is not None:
            selector = claim.status.allocation.node_selector
            if selector is not None:
                codes[~world.labels.selected(selector)[rows] & (codes == 0)] = 2
        elif used.key in pending:
            row, allocation = pending[used.key]
            if "nodeSelector" in allocation:
                codes[(rows != row) & (codes == 0)] = 2
        else:
            open_claims.append(claim)
    if open_claims:
        taken, names = devices.in_use(), world.nodes.names
        for i in np.nonzero(codes == 0)[0].tolist():
            row = int(rows[i])
            if allocate(devices, open_claims, names[row], row, taken) is None:
                codes[i] = 1
    return Verdicts(codes, (CANNOT_ALLOCATE, NOT_THERE)) if codes.any() else None


def reserve(world: World, task: Task, row: int) -> tuple[dict[str, Mapping[str, Any]], tuple[str, ...]]:
    """Return the allocations to make for a task on a row, and the keys of all its claims."""
    devices = world.devices
    pending = devices.pending_allocations()
    made: dict[str, Mapping[str, Any]] = {}
    open_claims, keys = [], []
    for used in resource_claims_of(task):
        claim = devices.claims.get(used.key)
        if claim is None:
            continue
        keys.append(used.key)
        if claim.status.allocation is not None:
            continue
        if used.key in pending:
            made[used.key] = pending[used.key][1]
        else:
            open_claims.append(claim)
    found = allocate(devices, open_claims, world.nodes.names[row], row, devices.in_use()) if open_claims else None
    for claim, allocation in zip(open_claims, found or (), strict=False):
        made[f"{claim.metadata.namespace}/{claim.metadata.name}"] = allocation
    return made, tuple(keys)
