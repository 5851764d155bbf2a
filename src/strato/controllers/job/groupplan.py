"""The plans about a job's PodGroup: create it, keep its spec up to date, and delete it when the job ends."""

from __future__ import annotations

from typing import Final

from strato.api import catalog
from strato.api.meta import ObjectMeta
from strato.api.volcano.scheduling import PodGroup, PodGroupStatus
from strato.client.events import EventRecorder
from strato.controllers.job import group as groups
from strato.controllers.job.bodies import Bodies
from strato.controllers.job.calls import Create, Delete, Get, PatchCall, Plan, ask
from strato.controllers.job.listers import Listers
from strato.controllers.job.objects import JobError
from strato.controllers.job.pods import revision_of
from strato.controllers.job.record import JobRecord
from strato.controllers.job.terms import Phase
from strato.errors import AlreadyExists, NotFound

_INITIAL_STATUS: Final = PodGroupStatus(phase=Phase.PENDING)


class GroupPlanner:
    """See the module."""

    def __init__(self, listers: Listers, bodies: Bodies, recorder: EventRecorder) -> None:
        self._listers = listers
        self._bodies = bodies
        self._recorder = recorder

    def delete(self, record: JobRecord) -> Plan[None]:
        """Delete the group, if there is one."""
        group = self.current(record)
        if group is None:
            return
        meta = group.metadata
        record.drop_group(meta.uid, ours=True)  # before the delete: its watch event may come before its answer
        try:
            yield from ask(Delete(PodGroup, meta.namespace, meta.name, meta.uid))
        except NotFound:
            return  # already deleted
        except BaseException:
            record.drop_group(meta.uid)
            raise

    def fitting(self, record: JobRecord) -> PodGroup | None:
        """Return the PodGroup if it exists and is known to have the desired spec; None means that `ensure` must run."""
        wanted = record.desired_group
        if wanted is None or wanted.fits is None:
            return None
        group = self.current(record)
        same = group is not None and (group.spec is wanted.fits or group.spec == wanted.fits)
        return group if same else None

    def ensure(self, record: JobRecord) -> Plan[None]:
        """Create the group, or bring its spec up to date.

        Raises:
            JobError: The previous group of that name is still being deleted.
        """
        job = record.require_job()
        wanted = record.desired_group
        if wanted is None:
            wanted = record.desired_group = record.compiled.group(job, self._listers.priority_of)
        group = self.current(record)
        if group is None:
            namespace, name = groups.group_key(job)
            try:
                made = yield from ask(Create(catalog.PODGROUP, namespace, self._bodies.group(job, wanted)))
                meta = ObjectMeta(name=name, namespace=namespace, uid=made.uid, resource_version=made.resource_version)
                group = PodGroup(metadata=meta, spec=wanted.view, status=_INITIAL_STATUS)
            except AlreadyExists:
                group = yield from ask(Get(PodGroup, namespace, name))
            # False is fine while the record has a group: then the watch has shown a newer state already
            if not record.put_group(group) and record.group is None:
                raise JobError(f"the PodGroup of job {record.key} is still being deleted")
            return
        patch = groups.group_patch(group, wanted.spec)
        if patch is not None:
            meta = group.metadata
            group = yield from ask(PatchCall(PodGroup, meta.namespace, meta.name, patch))
            record.put_group(group)
        wanted.fits = group.spec

    def current(self, record: JobRecord) -> PodGroup | None:
        """Return the job's PodGroup, also one with the job's own name, as old versions called it."""
        job = record.require_job()
        known = record.group
        if known is not None:
            meta, observed = known.metadata, self._listers.groups
            if (meta.namespace, meta.name) in observed:
                return known
            if revision_of(observed.resource_version) < revision_of(meta.resource_version):
                return known
            record.drop_group(meta.uid)  # created and deleted while the watch was interrupted
        for key in (groups.group_key(job), record.key):
            found = self._listers.groups.get(key)
            if found is not None and record.put_group(found):
                return found
        return None

    def report(self, record: JobRecord, group: PodGroup | None) -> None:
        """Record a warning event of the condition that keeps the group from being scheduled, once per message."""
        newest = groups.newest_condition(group) if group is not None and group.status.conditions else None
        if newest is None or newest[0] == "Scheduled":
            record.group_warning = ""
            return
        message = f"PodGroup {record.key.namespace}:{record.key.name} {newest[0].lower()}, reason: {newest[1]}"
        if message != record.group_warning:
            record.group_warning = message
            self._recorder.event(record.require_job(), "Warning", "PodGroupPending", message)
