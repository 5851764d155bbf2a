"""What a cron job has to do now, decided from what was read. Pure.

Source: volcano-controllers Part G.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from strato.api.meta import Object
from strato.api.shapes import ObjectReference
from strato.clock import parse_time
from strato.controllers.cron.schedule import Schedule

MANY_MISSED: Final = 100
"""More missed times than this are reported by an event."""

RUN_DELAY_SECONDS: Final = 0.1
"""How long after a scheduled time the pass runs, so that it has come by a clock that is a little slow, too."""


class JobEnd(Enum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OTHER = "other"
    """Ended by a user: counts for no history limit."""


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended, and when (RFC 3339, empty when unknown)."""

    outcome: JobEnd
    at: str


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job that the cron job owns, and how it ended (None while it runs)."""

    object: Object
    end: End | None

    @property
    def name(self) -> str:
        """Its name."""
        return self.object.metadata.name

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.object.metadata.uid


@dataclass(frozen=True, slots=True)
class Due:
    """The latest scheduled time that has come and has no job yet (None: there is none), and how many such there are."""

    at: float | None
    missed: int
    next_at: float
    """The first scheduled time after `at`, in seconds since the epoch."""


def find_due(
    schedule: Schedule, *, created: str | None, last: str | None, deadline_seconds: int | None, now: float
) -> Due:
    """Find the latest scheduled time up to now for which no job was made.

    Args:
        schedule: The cron job's schedule.
        created: The cron job's creation time.
        last: The scheduled time of its last job.
        deadline_seconds: Scheduled times that are longer ago than this are skipped; None skips none.
        now: The present, in seconds since the epoch.

    Raises:
        InvalidSchedule: The schedule never fires.
    """
    begin = last or created
    since = parse_time(begin) if begin else now
    earliest = since if deadline_seconds is None else max(since, now - deadline_seconds)
    at = schedule.latest(earliest, now) if earliest < now else None
    if at is None:
        return Due(None, 0, schedule.next_after(earliest))
    return Due(at, schedule.count(earliest, now, MANY_MISSED + 1), schedule.next_after(at))


def finished_to_delete(
    jobs: Sequence[OwnedJob], *, succeeded_limit: int | None, failed_limit: int | None
) -> list[OwnedJob]:
    """Return the jobs beyond the history limits, oldest first."""
    chosen: list[OwnedJob] = []
    for outcome, limit in ((JobEnd.SUCCEEDED, succeeded_limit), (JobEnd.FAILED, failed_limit)):
        if limit is None:
            continue
        ended = sorted((j for j in jobs if j.end is not None and j.end.outcome is outcome), key=_age)
        chosen += ended[: max(0, len(ended) - limit)]
    return chosen


def _age(job: OwnedJob) -> tuple[str, str]:
    return job.object.metadata.creation_timestamp or "", job.name


def job_name(cron: str, at: float) -> str:
    """Return the name of the job of one scheduled time; every attempt gives the same, so that no job is made twice."""
    return f"{cron}-{int(at) // 60}"


def reference(job: Object, api_version: str, kind: str) -> dict[str, Any]:
    """Return an entry of ``status.active``."""
    meta = job.metadata
    return {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


@dataclass(slots=True)
class CronStatus:
    """A cron job's status while a pass works on it."""

    active: list[dict[str, Any]]
    last_schedule_time: str | None
    last_successful_time: str | None

    @classmethod
    def from_view(cls, view: Any) -> CronStatus:
        """Read the status of a cron job of either kind."""
        return cls([_plain(one) for one in view.active], view.last_schedule_time, view.last_successful_time)

    def names(self, name: str) -> bool:
        """Return whether a job of that name is active."""
        return any(one["name"] == name for one in self.active)

    def holds(self, uid: str) -> bool:
        """Return whether the job of that uid is active."""
        return any(one["uid"] == uid for one in self.active)

    def drop(self, uid: str) -> None:
        """Remove a job from the list of active jobs."""
        self.active = [one for one in self.active if one["uid"] != uid]

    def to_json(self) -> Mapping[str, Any]:
        """Return it as a merge patch of ``status``."""
        return {
            "active": self.active or None,
            "lastScheduleTime": self.last_schedule_time,
            "lastSuccessfulTime": self.last_successful_time,
        }


def _plain(one: ObjectReference) -> dict[str, Any]:
    return {
        "apiVersion": one.api_version,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
        "resourceVersion": one.resource_version,
    }
