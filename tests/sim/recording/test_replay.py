"""A replay under the recorded policy makes the recorded decisions, all of them; under another it names what differs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from strato.scheduler.config import parse_config
from strato.sim.recording import entries as e
from strato.sim.recording.log import open_log
from strato.sim.recording.replay import ReplayTally, replay
from tests.sim.recording.recordings import NEVER_PREEMPTING, PREEMPTING, START, busy_hour, record


@pytest.mark.parametrize("seed", range(4))
def test_replay_makes_the_recorded_decisions_all_of_them(tmp_path: Path, seed: int) -> None:
    record(tmp_path / "log", partial(busy_hour, seed=seed), seed=seed)
    tally = ReplayTally()
    assert list(replay(open_log(tmp_path / "log"), tally=tally)) == []
    assert tally.is_exact
    assert tally.notes == []
    assert tally.binds > 50
    assert tally.evictions > 0
    assert (tally.same_binds, tally.same_evictions) == (tally.binds, tally.evictions)


POLICIES = {
    "a random action and a plugin that looks at the clock": """\
actions: "enqueue, allocate, shuffle, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla, arguments: {sla-waiting-time: 2m}}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: rescheduling}]
""",
    "flow": """\
actions: "enqueue, flow, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "averages of past runs": """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: easy}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "elastic quotas": """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: capacity}, {name: predicates}, {name: nodeorder}, {name: binpack}]
""",
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_replay_repeats_whatever_a_policy_decides_by(tmp_path: Path, policy: str) -> None:
    record(tmp_path / "log", config=policy, nodes="3x4cpu,16Gi")
    tally = ReplayTally()
    assert list(replay(open_log(tmp_path / "log"), tally=tally)) == []
    assert tally.is_exact
    assert tally.binds > 50


def test_replay_under_another_policy_names_what_differs(tmp_path: Path) -> None:
    record(tmp_path / "log")
    tally = ReplayTally()
    differences = list(replay(open_log(tmp_path / "log"), parse_config(NEVER_PREEMPTING), tally=tally))
    assert tally.differing == len(differences) > 0
    assert tally.first == differences[0]
    missing = [one for difference in differences for one in difference.evictions]
    assert len(missing) == tally.evictions
    assert all(one.replayed is None for one in missing)


def test_replay_takes_differing_decisions_back_exactly(tmp_path: Path) -> None:
    """The recorded policy, given by hand, meets the scheduler's world in every cycle although another was reloaded."""
    record(tmp_path / "log")
    log = open_log(tmp_path / "log")
    reloaded = next(number for number, entry in enumerate(log.entries()) if isinstance(entry, e.Configured))
    before = sum(isinstance(entry, e.Cycle) for entry in list(log.entries())[:reloaded])
    differences = list(replay(log, parse_config(PREEMPTING)))
    assert all(difference.cycle > before for difference in differences)
    assert differences


def test_replay_from_a_snapshot_meets_the_same_world(tmp_path: Path) -> None:
    record(tmp_path / "log", snapshot_bytes=20_000)
    log = open_log(tmp_path / "log")
    snapshots = [entry for entry in log.entries() if isinstance(entry, e.SnapshotEnded)]
    assert len(snapshots) > 3
    whole = ReplayTally()
    assert list(replay(log, tally=whole)) == []
    for since in (START + 100.0, START + 200.0, START + 400.0):
        tally = ReplayTally()
        list(replay(log, since=since, tally=tally))
        assert not tally.is_exact
        assert 0 < tally.binds < whole.binds
        assert tally.same_binds + tally.elsewhere == tally.binds  # the same pods, if at other nodes


def test_replay_of_a_log_in_many_files(tmp_path: Path) -> None:
    record(tmp_path / "log", file_bytes=8_000, snapshot_bytes=1 << 30)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 3
    tally = ReplayTally()
    assert list(replay(open_log(tmp_path / "log"), tally=tally)) == []
    assert tally.is_exact


def test_a_scheduler_that_starts_again_goes_on_in_the_same_log(tmp_path: Path) -> None:
    """Its view is empty then, and so is the replay's; the first process may have been killed within a frame."""
    record(tmp_path / "log")
    first = ReplayTally()
    list(replay(open_log(tmp_path / "log"), tally=first))
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes()[:-5])
    record(tmp_path / "log", partial(busy_hour, seed=1), seed=1)
    log = open_log(tmp_path / "log")
    assert len(log.torn) == 1
    tally = ReplayTally()
    assert list(replay(log, tally=tally)) == []
    assert tally.is_exact
    assert tally.binds > first.binds
