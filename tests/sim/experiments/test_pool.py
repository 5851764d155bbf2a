"""What has ended is kept, and nothing that is kept is run again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from strato.errors import InvalidInput, StateError
from strato.sim.experiments import pool
from strato.sim.experiments.file import parse_document
from strato.sim.experiments.plan import Experiment, files_digest
from strato.sim.experiments.pool import run_all
from strato.sim.experiments.tally import ProgressTally
from strato.sim.results.storing import encode_run
from tests.sim.experiments import fakes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("submit,run_time,replicas,cpu\n0,10,1,1\n5,20,2,1\n")
    return tmp_path


def experiment(folder: Path, **more: Any) -> Experiment:
    document = {
        "apiVersion": "sim.strato.dev/v1alpha1",
        "kind": "Experiment",
        "trace": "t.csv",
        "nodes": "1x4cpu,16Gi",
        "policies": {"quick": None, "slow": {"actions": "allocate"}},
        "seeds": 2,
        **more,
    }
    return parse_document(document, "e.yaml", folder)


def test_all_runs_end_in_the_experiments_order_whatever_the_processes(folder: Path) -> None:
    tallies: list[ProgressTally] = []
    found = {}
    for cores in (1, 2):
        outcome = run_all(
            experiment(folder),
            folder / str(cores),
            cores=cores,
            show=tallies.append,
            execute_run=fakes.one_after_another,
        )
        assert outcome.is_complete
        found[cores] = [(work.run.label, encode_run(outcome.record(work), "")) for work in outcome.finished]
    assert found[1] == found[2]
    assert [label for label, _ in found[1]] == ["quick, seed 0", "slow, seed 0", "quick, seed 1", "slow, seed 1"]
    assert tallies[-1].is_done


def test_resume_runs_only_what_is_missing_or_has_changed(folder: Path) -> None:
    first = run_all(experiment(folder), folder / "runs", cores=1, execute_run=fakes.one_after_another)
    first.finished[0].path.unlink()
    first.finished[1].path.write_bytes(b"damaged")
    before = {work.path: work.path.stat().st_mtime_ns for work in first.finished[2:]}
    again = run_all(experiment(folder), folder / "runs", cores=1, resume=True, execute_run=fakes.one_after_another)
    assert again.is_complete
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (folder / "t.csv").write_text("submit,run_time,replicas,cpu\n0,11,1,1\n")
    other = run_all(experiment(folder), folder / "runs", cores=1, resume=True, execute_run=fakes.failing)
    assert set(other.failures) == {"slow, seed 0", "slow, seed 1"}, "another trace is another input"


def test_a_run_that_fails_leaves_the_others(folder: Path) -> None:
    outcome = run_all(experiment(folder), folder / "runs", cores=1, execute_run=fakes.failing)
    assert [work.run.policy.name for work in outcome.finished] == ["quick", "quick"]
    assert outcome.failures == dict.fromkeys(("slow, seed 0", "slow, seed 1"), "this policy cannot run")
    assert not outcome.is_complete


def test_a_process_that_is_killed_is_named(folder: Path) -> None:
    outcome = run_all(experiment(folder, seeds=1), folder / "runs", cores=1, execute_run=fakes.killed)
    assert "killed" in outcome.failures["slow, seed 0"]
    assert len(outcome.finished) <= 1


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What threads ended with, which prints a traceback."""
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


@pytest.mark.parametrize("seeds", [1, 30])
def test_a_full_disk_ends_the_experiment_in_a_sentence(folder: Path, seeds: int, crashes: list[object]) -> None:
    with pytest.raises(StateError, match="No space left"):
        run_all(experiment(folder, seeds=seeds), folder / "runs", cores=1, execute_run=fakes.full_disk)
    assert crashes == []


def test_an_interruption_keeps_what_has_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, crashes: list[object]
) -> None:
    original = pool.as_completed

    def interrupted(futures: object) -> object:
        for number, future in enumerate(original(futures)):  # type: ignore[call-overload]  # futures by run
            if number == 1:
                raise KeyboardInterrupt
            yield future

    monkeypatch.setattr(pool, "as_completed", interrupted)
    outcome = run_all(experiment(folder, seeds=30), folder / "runs", cores=1, execute_run=fakes.one_after_another)
    assert outcome.was_interrupted
    assert crashes == []
    assert len(outcome.finished) == 1
    monkeypatch.setattr(pool, "as_completed", original)
    again = run_all(experiment(folder), folder / "runs", cores=1, resume=True, execute_run=fakes.one_after_another)
    assert again.is_complete


def test_problems_of_all_traces_come_before_any_run(folder: Path) -> None:
    (folder / "bad.csv").write_text("submit,run_time,replicas,cpu\nx,10,1,1\n")
    (folder / "none.swf").write_text("; nothing\n")
    wrong = experiment(folder, variants={"a": {"trace": "bad.csv"}, "b": {"trace": "none.swf"}})
    with pytest.raises(InvalidInput) as refused:
        run_all(wrong, folder / "runs", cores=1, execute_run=fakes.failing)
    assert "bad.csv" in str(refused.value)
    assert "none.swf" in str(refused.value)
    assert not (folder / "runs").exists()


def test_a_folder_that_cannot_be_made_is_refused(folder: Path) -> None:
    with pytest.raises(StateError, match="cannot be made"):
        run_all(experiment(folder), folder / "t.csv" / "runs", cores=1, execute_run=fakes.one_after_another)


def test_performance_models_are_switched_on_and_their_files_are_inputs(folder: Path) -> None:
    plain = experiment(folder, fidelity="decisions", policies={"p": None}, seeds=1)
    slow = experiment(
        folder, fidelity="decisions", policies={"p": None}, seeds=1, models={"startCost": {"medianSeconds": 100}}
    )
    finish = {}
    for name, one in (("plain", plain), ("slow", slow)):
        outcome = run_all(one, folder / "runs", cores=1)
        finish[name] = outcome.record(outcome.finished[0]).finish_seconds
    assert finish["slow"] == pytest.approx(finish["plain"] + 100)
    (folder / "table.json").write_text("1")
    first = files_digest({"x": {"throughputs": str(folder / "table.json")}})
    (folder / "table.json").write_text("2")
    assert files_digest({"x": {"throughputs": str(folder / "table.json")}}) != first
    assert files_digest({"x": {"seed": 1}}) == ""
