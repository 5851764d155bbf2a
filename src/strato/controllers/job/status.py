"""The status of a job as JSON: counters, phase changes, conditions.

Pure. Two members do not mean what their names say, as in Volcano: a kill sets all pod counters but ``terminating`` to
0, and every status write of a sync sets ``lastTransitionTime``, also when only a counter changed.

Source: volcano-controllers A6.5, A6.6, A7.9; volcano-api 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from strato.api.meta import ObjectMeta
from strato.api.volcano.batch import JobStatus
from strato.clock import format_time, parse_time
from strato.controllers.job.states import Counts, NextPhase
from strato.controllers.job.terms import Phase
from strato.lru import LruCache
from strato.units import format_duration

Status = dict[str, Any]
"""``status`` as JSON."""

_SAME_REASON: Final = frozenset(
    {
        (Phase.ABORTING, Phase.ABORTED),
        (Phase.TERMINATING, Phase.TERMINATED),
        (Phase.COMPLETING, Phase.COMPLETED),
        (Phase.RESTARTING, Phase.FAILED),
    }
)
"""Changes from the phase that an action has led to into its final phase, which keep the action's reason and message."""
_CACHED_BYTES: Final = 1 << 20
_encode: Final[Callable[[Status], bytes]] = msgspec.json.Encoder().encode
_read: Final[Callable[[bytes], JobStatus]] = msgspec.json.Decoder(JobStatus).decode


class StatusWrite(NamedTuple):
    """A status to write."""

    body: bytes
    status: JobStatus


def written(status: Status) -> StatusWrite:
    """Return a status both as the JSON to send and as the view that a read will give."""
    body = _encode(status)
    return StatusWrite(body, _read(body))


class StatusCache:
    """Recent statuses, shared by jobs with equal old statuses that reach the same counters in the same second."""

    def __init__(self) -> None:
        self._known: LruCache[Hashable, tuple[JobStatus, StatusWrite]] = LruCache(
            _CACHED_BYTES, lambda _, known: 4 * len(known[1].body)
        )

    def of(self, key: Hashable, before: JobStatus, make: Callable[[], Status]) -> StatusWrite:
        """Return the status that follows ``before``; calls ``make`` unless a job with an equal status has needed it."""
        key = key, before.version, before.retry_count, before.state.last_transition_time
        found = self._known.get(key)
        if found is not None and found[0] == before:
            return found[1]
        made = written(make())
        self._known.put(key, (before, made))
        return made


def to_json(status: JobStatus) -> Status:
    """Return a status view as JSON, without empty members."""
    built: Status = msgspec.to_builtins(status)
    return {name: value for name, value in built.items() if value not in ("", {})}


def counts_same(
    status: JobStatus, counts: Counts, tasks: Mapping[str, Any], min_available: int, controlled: Mapping[str, str]
) -> bool:
    """Return whether `synced` would change nothing."""
    known = status.pending, status.running, status.succeeded, status.failed, status.terminating, status.unknown
    now = counts.pending, counts.running, counts.succeeded, counts.failed, counts.terminating, counts.unknown
    return (
        known == now
        and status.min_available == min_available
        and not status.running_duration
        and status.controlled_resources == controlled
        and {name: state.phase for name, state in status.task_status_count.items()}
        == {name: state["phase"] for name, state in tasks.items()}
    )


def synced(
    old: Status, counts: Counts, tasks: Mapping[str, Any], min_available: int, controlled: Mapping[str, str]
) -> Status:
    """Return the status after a sync, before any phase change. The running duration is dropped."""
    new: Status = {name: old[name] for name in ("state", "version", "retryCount", "conditions") if name in old}
    return _with_counts(new, counts, tasks, min_available, controlled)


def killed(old: Status, terminating: int, version: int, controlled: Mapping[str, str]) -> Status:
    """Return the status after a kill: only terminating pods are counted. See `with_ended` for jobs that have ended."""
    new: Status = {name: old[name] for name in ("state", "retryCount", "conditions", "minAvailable") if name in old}
    if version:
        new["version"] = version
    if terminating:
        new["terminating"] = terminating
    if controlled:
        new["controlledResources"] = dict(controlled)
    return new


def with_ended(status: Status, succeeded: int, failed: int) -> Status:
    """Return the status of a job that has ended with the numbers of pods that ended by themselves."""
    counters = {"succeeded": succeeded, "failed": failed}
    return {**status, **{name: number for name, number in counters.items() if number}}


def with_reason(status: Status, reason: str, message: str) -> Status:
    """Return the status with the reason and message of its phase; empty texts remove the previous ones."""
    state = {name: value for name, value in status.get("state", {}).items() if name not in ("reason", "message")}
    texts = {"reason": reason, "message": message}
    return {**status, "state": {**state, **{name: text for name, text in texts.items() if text}}}


def _with_counts(
    new: Status, counts: Counts, tasks: Mapping[str, Any], min_available: int, controlled: Mapping[str, str]
) -> Status:
    numbers = {
        "minAvailable": min_available,
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
    }
    new.update((name, number) for name, number in numbers.items() if number)
    if tasks:
        new["taskStatusCount"] = dict(tasks)
    if controlled:
        new["controlledResources"] = dict(controlled)
    return new


def moved(status: Status, outcome: NextPhase | None) -> Status:
    """Return the status with an outcome's phase, reason and retry count."""
    if outcome is None:
        return status
    new = {**status, "state": {**status.get("state", {}), "phase": outcome.phase}}
    goes_on = (status.get("state", {}).get("phase"), outcome.phase) in _SAME_REASON and not outcome.reason
    if outcome.reason or (new["state"].get("reason") and not goes_on):
        new = with_reason(new, outcome.reason, outcome.message)
    if outcome.retry_count:
        new["retryCount"] = outcome.retry_count
    return new


def stamped(status: Status, now: float) -> Status:
    """Return the status with the time of change and the condition of its phase moved to the end."""
    time = format_time(now)
    phase = status.get("state", {}).get("phase", "")
    kept = [c for c in status.get("conditions", ()) if c.get("status") != phase]
    return {
        **status,
        "state": {**status.get("state", {}), "lastTransitionTime": time},
        "conditions": [*kept, {"status": phase, "lastTransitionTime": time}],
    }


def with_running_duration(status: Status, meta: ObjectMeta) -> Status:
    """Return the status with the time from the job's creation to its last change."""
    ended = status.get("state", {}).get("lastTransitionTime")
    if not ended or not meta.creation_timestamp:
        return status
    seconds = max(0.0, parse_time(ended) - parse_time(meta.creation_timestamp))
    return {**status, "runningDuration": format_duration(seconds)}
