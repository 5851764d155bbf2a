"""The plans about a job's status: its first status, when a status is written, and what the record holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from strato.api import catalog
from strato.api.volcano.batch import Job, JobStatus
from strato.client.cluster import PatchType
from strato.clock import Clock, parse_time
from strato.controllers.job import status as statuses
from strato.controllers.job.calls import PatchCall, Plan, Set, ask
from strato.controllers.job.record import JobRecord
from strato.controllers.job.states import after_sync_running
from strato.controllers.job.status import StatusCache, StatusWrite
from strato.controllers.job.terms import Phase

_STATUS_PATCH: Final = b'[{"op":"test","path":"/metadata/uid","value":%b},{"op":"add","path":"/status","value":%b}]'


class StatusPlanner:
    """See the module."""

    def __init__(self, clock: Clock, is_busy: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_busy = is_busy
        self.made = StatusCache()

    def begin(self, record: JobRecord) -> None:
        """Set the first status of a job, phase Pending, in its record; a later status write includes it."""
        job = record.require_job()
        status = {**statuses.to_json(job.status), "minAvailable": job.spec.min_available}
        status["state"] = {**status.get("state", {}), "phase": Phase.PENDING}
        since = parse_time(job.metadata.creation_timestamp) if job.metadata.creation_timestamp else 0.0
        record.begin_status(msgspec.convert(statuses.stamped(status, since), JobStatus))

    def write(self, record: JobRecord, new: StatusWrite, *, ends: bool = False) -> Plan[None]:
        """Write the status.

        A write of counters only, or of Running after Pending, is harmless if an older watch event makes a sync repeat
        it, so the planner does not need its answer. After all other writes the record takes the answer, whose revision
        lets it refuse older watch events.

        Args:
            record: The job's record.
            new: The status to write.
            ends: Whether the calling plan does all that the new phase requires, so that no further sync is needed.
        """
        job = record.require_job()
        meta = job.metadata
        body = _STATUS_PATCH % (msgspec.json.encode(meta.uid), new.body)
        before, after = job.status.state.phase, new.status.state.phase
        may_repeat = after == before or (before == Phase.PENDING and after == Phase.RUNNING)
        changed = False
        record.moving_to = after
        try:
            if may_repeat:
                yield from ask(Set(catalog.VCJOB, meta.namespace, meta.name, body, PatchType.JSON, "status"))
                record.take_status(job, new.status)
            else:
                written = yield from ask(PatchCall(Job, meta.namespace, meta.name, body, PatchType.JSON, "status"))
                changed = record.set_job(written)  # False too if the watch has shown this state before the answer
        finally:
            record.moving_to = None
        record.is_unwritten = False
        if changed or not (ends or self._goes_on(record, before, after)):
            record.schedule.dirty = True

    def _goes_on(self, record: JobRecord, before: str, after: str) -> bool:
        """Return whether the sync that wrote a phase has done all that it requires, so that no further sync is due."""
        if before == after:
            return True
        if before not in ("", Phase.PENDING) or after != Phase.RUNNING or not record.plugins_fresh:
            return False
        follows = after_sync_running(record.facts, record.counts(), record.require_job().status.retry_count)
        return follows is None

    def may_wait(self, record: JobRecord) -> bool:
        """Whether to hold back a write of counters only: while pods start, a change of phase will soon supersede it."""
        is_pending = record.require_job().status.state.phase == Phase.PENDING
        return record.schedule.may_hold_counters(
            self._clock.monotonic(), is_pending=is_pending, is_busy=self._is_busy()
        )
