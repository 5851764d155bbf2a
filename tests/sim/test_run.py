from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from strato.errors import InvalidInput
from strato.sim.run import Progress, SimulationOptions, simulate


def write(path: Path, *lines: str) -> Path:
    path.write_text("submit,run_time,replicas,cpu,queue,priority\n" + "\n".join(lines) + "\n")
    return path


def a_trace(path: Path, count: int = 30) -> Path:
    random = Random(5)
    return write(
        path,
        *(
            f"{random.uniform(0, 20000):.3f},{random.uniform(10, 4000):.1f},{random.choice([1, 2, 4])},1,"
            f"{random.choice(['a', 'b'])},{random.choice([0, 10])}"
            for _ in range(count)
        ),
    )


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    options = SimulationOptions(trace=a_trace(tmp_path / "t.csv"), nodes="3x4cpu,16Gi", seed=7)
    first, second = simulate(options), simulate(options)
    assert first.to_json() == second.to_json()
    assert first.finished == 30
    assert msgspec.json.decode(first.to_json())["seed"] == 7


def test_gangs_wait_for_room_and_run_one_after_another(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "0,100,4,1,,", "1,100,4,1,,", "2,100,4,1,,")
    report = simulate(SimulationOptions(trace=trace, nodes="2x3cpu,16Gi"))
    starts = sorted(job.start_seconds or 0.0 for job in report.job_list)
    assert starts == pytest.approx([0, 100, 200], abs=2)
    assert report.makespan_seconds == pytest.approx(300, abs=3)
    assert report.utilisation["cpu"] == pytest.approx(4 / 6, abs=0.02)


def test_overcommitted_nodes_run_more_at_once(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "0,100,4,1,,", "1,100,4,1,,", "2,100,4,1,,")
    report = simulate(SimulationOptions(trace=trace, nodes="2x3cpu,16Gi,overcommit=2"))
    starts = sorted(job.start_seconds or 0.0 for job in report.job_list)
    assert starts == pytest.approx([0, 0, 0], abs=3), "twelve pods of one cpu on twice six"
    assert report.utilisation["cpu"] == pytest.approx(1, abs=0.05), "of what nodes offer"


def test_job_that_never_fits_does_not_hold_up_the_end(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.csv", "0,100,1,1,,", "0,100,9,1,,")
    report = simulate(SimulationOptions(trace=trace, nodes="2x4cpu,16Gi"))
    assert (report.finished, report.unfinished, report.never_started) == (1, 1, 1)
    assert report.makespan_seconds == pytest.approx(100, abs=3)
    assert [job.start_seconds is None for job in report.job_list] == [False, True]
    started, waiting = report.job_list
    assert started.reason == ""
    assert "the group asks for cpu 9 in all, the cluster has cpu 8" in waiting.reason
    assert f"never started\n  {waiting.name}: {waiting.reason}\n" in report.to_table()


def test_progress_is_told_after_every_job(tmp_path: Path) -> None:
    told: list[Progress] = []
    simulate(SimulationOptions(trace=a_trace(tmp_path / "t.csv", 5), nodes="3x4cpu,16Gi", progress=told.append))
    assert told[-1].finished == told[-1].total == 5
    assert told[-1].virtual_seconds > 0


def test_queues_of_a_file_are_used(tmp_path: Path) -> None:
    queues = tmp_path / "q.yaml"
    queues.write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\n"
        "spec: {weight: 1, capability: {cpu: 1}}\n"
    )
    trace = write(tmp_path / "t.csv", "0,100,1,1,a,", "0,100,1,1,a,")
    report = simulate(SimulationOptions(trace=trace, nodes="1x4cpu,16Gi", queues=queues))
    starts = sorted(job.start_seconds or 0.0 for job in report.job_list)
    assert starts == pytest.approx([0, 100], abs=2), "the queue's capability lets one run at a time"


def test_problems_of_all_inputs_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("actions: fly\n")
    (tmp_path / "q.yaml").write_text("kind: Pod\n")
    with pytest.raises(InvalidInput) as raised:
        simulate(
            SimulationOptions(
                trace=write(tmp_path / "t.csv", "x,1,1,1,,"),
                nodes="many",
                config=tmp_path / "c.yaml",
                queues=tmp_path / "q.yaml",
            )
        )
    text = str(raised.value)
    for part in ("t.csv: line 2: submit", "many", "c.yaml", "q.yaml: document 1"):
        assert part in text
