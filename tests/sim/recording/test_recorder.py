"""What the recorder may do to a scheduler: nothing; and what a log may reveal of names: nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from strato.api import catalog
from strato.api.core import Node
from strato.clock import VirtualClock
from strato.errors import UsageError
from strato.scheduler.cache import kinds
from strato.scheduler.config import default_config
from strato.scheduler.dryrun.run import dry_run, load
from strato.sim.recording import entries as e
from strato.sim.recording import frames, segments
from strato.sim.recording.anonymise import Anonymiser
from strato.sim.recording.instants import parse_instant, show_instant
from strato.sim.recording.log import entries_of, open_log
from strato.sim.recording.parquet import write_decisions
from strato.sim.recording.recorder import LogRecorder
from strato.sim.recording.replay import ReplayTally, replay
from strato.sim.recording.state import RecordedState, state_at
from strato.sim.recording.travel import write_world
from strato.testing.harness import Harness
from strato.testing.manifests import node, pod, vcjob
from tests.sim.recording.recordings import START, record


async def two_jobs(h: Harness) -> None:
    for name in ("first", "second"):
        job = vcjob(name, queue="a", min_available=2, priority_class="low")
        await h.apply(job.task("worker", 2, cpu="1", run_seconds=100))
        await h.clock.sleep(50.0)
    await h.clock.sleep(200.0)


def test_kinds_have_the_numbers_of_their_format() -> None:
    """A log names kinds by their place. Whoever moves one raises `entries.FORMAT`; new ones go to the end."""
    assert (e.FORMAT, [known.kind.name for known in kinds.KINDS][:20]) == (
        1,
        [
            *("PriorityClass", "Queue", "Namespace", "StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity"),
            *("PersistentVolume", "PersistentVolumeClaim", "DeviceClass", "ResourceSlice", "ResourceClaim"),
            *("ResourceQuota", "Node", "HyperNode", "PodGroup", "Pod", "NodeShard", "PodDisruptionBudget"),
            "Numatopology",
        ],
    )


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(START)
    recorder = LogRecorder(segments.LogFiles(tmp_path / "log"), clock)
    recorder.hold("a/b")

    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(segments.os, "write", no_space)
    for number in range(20_000):
        recorder.hold(f"namespace/a-pod-with-a-long-name-{number}")
    assert "No space left" in recorder.failure
    recorder.release("a/b")
    recorder.close()


def test_the_world_at_an_instant_is_as_it_was(tmp_path: Path) -> None:
    """Between the jobs' starts, the state written by time travel has the pods of the first running, on their nodes."""
    placed: dict[str, str] = {}

    async def story(h: Harness) -> None:
        await h.apply(vcjob("first", min_available=2).task("worker", 2, cpu="1", run_seconds=100))
        await h.clock.sleep(50.0)
        placed.update(h.placement())
        await h.apply(vcjob("second", min_available=2).task("worker", 2, cpu="1", run_seconds=100))
        await h.clock.sleep(300.0)

    record(tmp_path / "log", story, snapshot_bytes=3000)
    log = open_log(tmp_path / "log")
    state = state_at(log, START + 45.0)
    pods = {obj["metadata"]["name"]: obj for _, obj in state.manifests() if obj["kind"] == "Pod"}
    assert {name: obj["spec"].get("nodeName") for name, obj in pods.items()} == placed
    assert len(placed) == 2
    assert all(obj["status"]["phase"] == "Running" for obj in pods.values())
    paths = write_world(log, START + 45.0, tmp_path / "then")
    saved = msgspec.json.decode(paths[0].read_bytes())
    assert saved["strato"]["now"] <= START + 45.0
    assert saved["strato"]["config"] == paths[1].read_text() != ""
    decided = dry_run(load(list(state.manifests())), default_config())
    assert decided["cycles"][0]["binds"] == []


@pytest.mark.parametrize("seconds", [0.5, 20.0, 60.0, 180.0, 1e9])
def test_snapshots_and_the_beginning_lead_to_the_same_world(tmp_path: Path, seconds: float) -> None:
    record(tmp_path / "many", two_jobs, snapshot_bytes=2000)
    record(tmp_path / "none", two_jobs)
    many, none = (state_at(open_log(tmp_path / name), START + seconds) for name in ("many", "none"))
    assert _bodies(many) == _bodies(none)
    assert many.binding == none.binding


def _bodies(state: RecordedState) -> dict[tuple[int, str, str], bytes]:
    return {(kind, *key): bytes(body) for kind, found in state.objects.items() for key, body in found.items()}


def test_nothing_readable_is_left_of_names(tmp_path: Path) -> None:
    async def story(h: Harness) -> None:
        await h.cluster.create(catalog.NAMESPACE, {"metadata": {"name": "hushspace"}})
        job = vcjob("hushjob", namespace="hushspace", queue="a", min_available=2)
        job = job.label("team", "hushteam").annotate("mail", "hushmail@example.org")
        await h.apply(job.task("hushrole", 2, cpu="1", run_seconds=10, image="registry.hush/image:1"))
        await h.apply(
            pod("hushpod", namespace="hushspace", cpu="1", scheduler="volcano")
            .label("owner", "hushowner")
            .spec(nodeSelector={"hush.example/key": "hushvalue"}, serviceAccountName="default")
        )
        await h.cluster.patch(Node, "node-1", "", {"metadata": {"labels": {"hush.example/key": "hushvalue"}}})
        await h.clock.sleep(60.0)

    record(tmp_path / "log", story, hiding=Anonymiser(b"key"))
    log = open_log(tmp_path / "log")
    content = b"".join(frames.read(frame) for frame in log.frames)
    assert b"Running" in content
    for word in (b"hush", b"node-1", b"example.org"):
        assert word not in content
    assert log.first().anonymised
    tally = ReplayTally()
    list(replay(log, tally=tally))
    assert tally.binds == 3
    assert tally.same_binds + tally.elsewhere == tally.binds
    assert any("hashed" in note for note in tally.notes)


def test_the_same_name_has_the_same_hash_and_keys_differ() -> None:
    one, other = Anonymiser(b"one"), Anonymiser(b"other")
    assert one.key("team/train-worker-3") == f"{one.text('team')}/{one.text('train-worker-3')}"
    assert one.text("train-worker-3").endswith("-i-3")  # pods of a job are ordered by it
    assert one.text("team") == Anonymiser(b"one").text("team") != other.text("team")
    assert one.text("default") == "default"
    assert Anonymiser().text("team") != Anonymiser().text("team")


def test_words_quantities_and_selectors_keep_their_meaning() -> None:
    hide = Anonymiser(b"k")
    given = node("gpu-1", gpus=8).label("zone", "a")
    given["spec"] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    hidden = hide.value(given)
    assert hidden["status"]["allocatable"] == given["status"]["allocatable"]
    assert hidden["metadata"]["labels"][hide.text("zone")] == hide.text("a")
    (taint,) = hidden["spec"]["taints"]
    assert taint == {"key": hide.text("team"), "value": hide.text("x"), "effect": "NoSchedule"}
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    (expression,) = hide.value(term)["matchExpressions"]
    assert expression == {"key": hide.text("zone"), "operator": "In", "values": [hide.text("a"), hide.text("b")]}


def test_decisions_as_a_table(tmp_path: Path) -> None:
    record(tmp_path / "log", two_jobs)
    log = open_log(tmp_path / "log")
    assert write_decisions(log, tmp_path / "d.parquet") == 4
    table = pq.read_table(tmp_path / "d.parquet")
    assert table.column("decision").to_pylist() == ["bind"] * 4
    cycles = [one for frame in log.frames for one in entries_of(frame) if isinstance(one, e.Cycle) and one.binds]
    assert table.column("pod").to_pylist() == [name for cycle in cycles for name, _ in cycle.binds]
    assert table.column("at")[0].as_py().timestamp() == pytest.approx(cycles[0].at)


@pytest.mark.parametrize(
    ("text", "instant"),
    [("+90s", 1090.0), ("+1h", 4600.0), ("1970-01-01T00:20:00Z", 1200.0), ("1234.5", 1234.5)],
)
def test_instants(text: str, instant: float) -> None:
    assert parse_instant(text, 1000.0) == instant


@pytest.mark.parametrize("text", ["", "soon", "+", "+x", "nan", "inf", "2026-13-01T00:00:00Z", "1e999"])
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(UsageError, match="instant"):
        parse_instant(text, 0.0)


def test_instants_are_shown_to_the_millisecond() -> None:
    assert show_instant(1.25) == "1970-01-01T00:00:01.250Z"
