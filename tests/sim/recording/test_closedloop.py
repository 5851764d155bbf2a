"""The workload of a log as a trace, run forward under its own policy and another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strato.scheduler.config import parse_config
from strato.sim.recording.closedloop import run_forward
from strato.sim.recording.log import open_log
from strato.sim.recording.workload import workload_of
from strato.testing.harness import Harness
from strato.testing.manifests import pod, vcjob
from tests.sim.recording.recordings import PREEMPTING, record

NODES = "2x5cpu,16Gi"


async def queue_of_gangs(h: Harness) -> None:
    """One gang fills both nodes for 100 s; the second waits for it, the third for the second."""
    await h.apply(pod("alone", cpu="1", run_seconds=5, scheduler="volcano"))
    await h.apply(vcjob("endless", min_available=1).task("worker", 1, cpu="1"))
    for number, size in enumerate((8, 8, 4)):
        job = vcjob(f"gang-{number}", queue="a", min_available=size, priority_class="low")
        await h.apply(job.task("worker", size, cpu="1", run_seconds=100))
        await h.clock.sleep(10.0)
    await h.clock.sleep(600.0)


def test_the_workload_of_a_log_is_what_was_submitted(tmp_path: Path) -> None:
    record(tmp_path / "log", queue_of_gangs, nodes=NODES, snapshot_bytes=3000)
    found = workload_of(open_log(tmp_path / "log"))
    jobs = {job.name: job for job in found.trace.jobs}
    assert {"gang-0", "gang-1", "gang-2", "endless"} <= set(jobs)
    assert [jobs[f"gang-{n}"].replicas for n in range(3)] == [8, 8, 4]
    assert jobs["gang-1"].submit_seconds - jobs["gang-0"].submit_seconds == pytest.approx(10.0, abs=1.0)
    assert jobs["gang-0"].run_seconds == pytest.approx(100.0, abs=2.0)
    assert jobs["gang-0"].requests["cpu"] == "1"
    assert (jobs["gang-0"].queue, jobs["gang-0"].priority) == ("a", 1)
    assert found.waits["gang-0"] == pytest.approx(0.0, abs=2.0)
    assert found.waits["gang-1"] == pytest.approx(90.0, abs=5.0)
    assert {shape.name for shape in found.shapes} == {"node-0", "node-1"}
    assert {queue["metadata"]["name"] for queue in found.queues} >= {"a", "b", "default"}
    assert any("had not ended" in note for note in found.notes)


def test_run_forward_under_its_own_policy_it_waits_as_it_did(tmp_path: Path) -> None:
    record(tmp_path / "log", queue_of_gangs, nodes=NODES)
    outcome = run_forward(open_log(tmp_path / "log"), parse_config(PREEMPTING), name="same")
    recorded, own, other = outcome.sides
    assert other.waits == own.waits
    for then, again in zip(recorded.waits, own.waits, strict=True):
        assert then is not None
        assert again == pytest.approx(then, abs=5.0)
    assert "SAME" in outcome.to_table()
    assert json.dumps(outcome.to_json())


def test_another_policy_makes_other_waits(tmp_path: Path) -> None:
    record(tmp_path / "log", queue_of_gangs, nodes=NODES)
    easy = (
        'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: gang}, {name: easy}, {name: predicates}]\n'
    )
    outcome = run_forward(open_log(tmp_path / "log"), parse_config(easy), name="easy")
    assert len(outcome.sides[2].started) == len(outcome.jobs)
