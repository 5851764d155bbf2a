"""Plans for the objects that a job needs beside its pods: those of plugins, and claims.

Every plan is idempotent: an object that exists is used as it is, and deleting an absent object succeeds.

Source: volcano-controllers A9, Part B.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from strato.api import catalog
from strato.api.core import PersistentVolumeClaim
from strato.api.meta import Object
from strato.api.volcano.batch import Job
from strato.client.cluster import PatchType
from strato.controllers.job.calls import Create, Delete, Get, PatchCall, Plan, ask
from strato.controllers.job.plugins.base import RequiredObject, owned_metadata
from strato.controllers.job.podbuilder import random_suffix
from strato.errors import AlreadyExists, NotFound, StratoError


class JobError(StratoError):
    """A step of a job's procedure failed; the controller retries it."""


def ensure(wanted: RequiredObject, namespace: str) -> Plan[None]:
    """Create an object unless it exists; then bring its ``data_member`` up to date, if it names one."""
    kind, member = catalog.kind_of(wanted.view), wanted.data_member
    try:
        yield from ask(Create(kind, namespace, wanted.body))
    except AlreadyExists:
        if not member:
            return
        present = yield from ask(Get(kind, namespace, wanted.name))
        old, new, key = present.get(member) or {}, wanted.body[member], wanted.decisive_key
        if (old.get(key) != new[key]) if key else (old != new):
            yield from ask(PatchCall(kind, namespace, wanted.name, {member: {**dict.fromkeys(old), **new}}))


def remove(view: type[Object], name: str, job: Job) -> Plan[None]:
    """Delete an object if it exists and the job owns it; an object of that name that somebody else made stays."""
    namespace = job.metadata.namespace
    with suppress(NotFound):
        metadata = (yield from ask(Get(catalog.kind_of(view), namespace, name)))["metadata"]
        if any(owner["uid"] == job.metadata.uid for owner in metadata.get("ownerReferences") or ()):
            yield from ask(Delete(view, namespace, name, metadata["uid"]))


def name_claims(job: Job, random: Random) -> Plan[Job]:
    """Give a name to the claim of every volume that names none, in one update of the spec; returns the updated job.

    The names are stored before the claims are made, so that a restart in between makes no second claim.
    """
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": job.metadata.uid}]
    for position, volume in enumerate(job.spec.volumes):
        if not volume.volume_claim_name:
            name = f"{job.metadata.name}-pvc-{random_suffix(random)}"
            path = f"/spec/volumes/{position}/volumeClaimName"
            operations.append({"op": "add", "path": path, "value": name})
    if len(operations) == 1:
        return job
    meta = job.metadata
    named: Job = yield from ask(PatchCall(Job, meta.namespace, meta.name, operations, PatchType.JSON))
    return named


def ensure_claims(job: Job) -> Plan[dict[str, str]]:
    """Create the claims that the job specifies; returns their entries of ``controlledResources``.

    Raises:
        JobError: A claim that the job names without specifying it does not exist.
    """
    meta, controlled = job.metadata, {}
    whole: dict[str, Any] | None = None
    for position, volume in enumerate(job.spec.volumes):
        name = volume.volume_claim_name
        key = f"volume-pvc-{name}"
        controlled[key] = name
        if job.status.controlled_resources.get(key) == name:
            continue
        (present,) = yield (Get(PersistentVolumeClaim, meta.namespace, name),)
        if not isinstance(present, Exception):
            continue
        if not isinstance(present, NotFound):
            raise present
        if volume.volume_claim is None:
            raise JobError(f"pvc {name} is not found, the job will be in the Pending state until the PVC is created")
        if whole is None:
            whole = yield from ask(Get(catalog.VCJOB, meta.namespace, meta.name))
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": owned_metadata(job, name),
            "spec": whole["spec"]["volumes"][position]["volumeClaim"],
        }
        with suppress(AlreadyExists):
            yield from ask(Create(catalog.PERSISTENTVOLUMECLAIM, meta.namespace, body))
    return controlled
