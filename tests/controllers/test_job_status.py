"""A job's status as JSON: what is kept, counted, stamped and left out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.meta import ObjectMeta
from strato.api.volcano.batch import JobStatus
from strato.clock import parse_time
from strato.controllers.job.states import Counts, NextPhase
from strato.controllers.job.status import counts_same, killed, moved, stamped, synced, to_json, with_running_duration

Json = dict[str, Any]
BORN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:02:03Z"
NAMES = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
OLD: Json = {
    "state": {"phase": "Running"},
    "version": 3,
    "retryCount": 2,
    "conditions": [{"status": "Pending"}],
    "minAvailable": 9,
    "running": 5,
    "runningDuration": "1s",
    "controlledResources": {"old": "old"},
}


def test_a_sync_keeps_the_past_and_counts_anew() -> None:
    counts = Counts(**dict(zip(NAMES, range(1, 7), strict=True)))
    assert synced(OLD, counts, {"w": {"phase": {"Running": 2}}}, 4, {"a": "b"}) == {
        "state": {"phase": "Running"},
        "version": 3,
        "retryCount": 2,
        "conditions": [{"status": "Pending"}],
        "minAvailable": 4,
        **dict(zip(NAMES, range(1, 7), strict=True)),
        "taskStatusCount": {"w": {"phase": {"Running": 2}}},
        "controlledResources": {"a": "b"},
    }


def test_a_sync_that_finds_nothing_writes_no_zeros() -> None:
    assert synced({}, Counts(), {}, 0, {}) == {}


def test_a_kill_counts_only_what_terminates() -> None:
    kept = {name: OLD[name] for name in ("state", "retryCount", "conditions", "minAvailable")}
    assert killed(OLD, 2, 4, {"a": "b"}) == {**kept, "version": 4, "terminating": 2, "controlledResources": {"a": "b"}}
    assert killed(OLD, 0, 0, {}) == kept


def test_an_outcome_changes_phase_and_retries() -> None:
    assert moved(OLD, None) is OLD
    assert moved(OLD, NextPhase("Failed", 0))["state"] == {"phase": "Failed"}
    assert moved(OLD, NextPhase("Failed", 0))["retryCount"] == 2
    assert moved(OLD, NextPhase("Restarting", 3))["retryCount"] == 3
    assert moved({}, NextPhase("Failed", 0)) == {"state": {"phase": "Failed"}}
    stamp = {"state": {"phase": "Running", "lastTransitionTime": BORN}}
    assert moved(stamp, NextPhase("Failed", 0))["state"] == {"phase": "Failed", "lastTransitionTime": BORN}


def test_the_condition_of_a_phase_moves_to_the_end() -> None:
    given = {"state": {"phase": "Running"}, "conditions": [{"status": "Running"}, {"status": "Pending"}], "running": 1}
    assert stamped(given, parse_time(LATER)) == {
        "state": {"phase": "Running", "lastTransitionTime": LATER},
        "conditions": [{"status": "Pending"}, {"status": "Running", "lastTransitionTime": LATER}],
        "running": 1,
    }
    assert stamped({}, parse_time(LATER))["conditions"] == [{"status": "", "lastTransitionTime": LATER}]


DURATIONS = [
    pytest.param(LATER, BORN, "1h2m3s", id="from its creation to its last change"),
    pytest.param(BORN, BORN, "0s", id="at once"),
    pytest.param(BORN, LATER, "0s", id="a clock that was set back"),
    pytest.param("", BORN, None, id="it has not changed yet"),
    pytest.param(LATER, "", None, id="it was never created"),
]


@pytest.mark.parametrize(("changed", "created", "want"), DURATIONS)
def test_running_duration(changed: str, created: str, want: str | None) -> None:
    status = {"state": {"lastTransitionTime": changed}, "running": 1}
    found = with_running_duration(status, ObjectMeta(creation_timestamp=created))
    assert found.get("runningDuration") == want
    assert found["running"] == 1
    assert "runningDuration" not in with_running_duration({}, ObjectMeta(creation_timestamp=created))


def same(
    status: Json, *, minimum: int = 2, controlled: Json | None = None, tasks: Json | None = None, **counts: int
) -> bool:
    wanted = {"w": {"phase": {"Running": 1}}} if tasks is None else tasks
    view = msgspec.convert(status, JobStatus)
    return counts_same(
        view, Counts(**{"running": 1, **counts}), wanted, minimum, {"a": "b"} if controlled is None else controlled
    )


def test_a_sync_writes_when_anything_it_writes_differs() -> None:
    status: Json = {
        "running": 1,
        "minAvailable": 2,
        "controlledResources": {"a": "b"},
        "taskStatusCount": {"w": {"phase": {"Running": 1}}},
    }
    assert same(status)
    assert not same({**status, "runningDuration": "1s"})
    assert not same(status, minimum=3)
    assert not same(status, controlled={})
    assert not same(status, tasks={})
    assert not same(status, tasks={"w": {"phase": {"Running": 2}}})
    assert not same(status, tasks={"v": {"phase": {"Running": 1}}})
    for name in NAMES:
        assert not same(status, **{name: 2})


def test_empty_members_are_left_out() -> None:
    assert to_json(JobStatus()) == {}
    assert to_json(JobStatus(running=1, version=1, retry_count=0)) == {"running": 1, "version": 1}
    read = {
        "running": 0,
        "runningDuration": "",
        "state": {},
        "taskStatusCount": {},
        "controlledResources": {},
        "conditions": [],
    }
    assert to_json(msgspec.convert(read, JobStatus)) == {}
    assert to_json(msgspec.convert({"running": 2, "state": {"phase": ""}}, JobStatus)) == {"running": 2}
