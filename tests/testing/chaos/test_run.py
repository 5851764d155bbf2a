"""Whole runs: they come to rest, they are the same each time, and what was found once is not found again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from strato.testing.chaos.__main__ import main
from strato.testing.chaos.campaign import read_results, run_seeds, try_seed
from strato.testing.chaos.invariants import BrokenInvariant
from strato.testing.chaos.plan import ChaosPlan, from_json
from strato.testing.chaos.run import ChaosResult, draw_plan, play

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("seed", [0, 3, 23])
def test_a_cluster_without_faults_comes_to_rest(seed: int) -> None:
    plan = msgspec.structs.replace(draw_plan(seed), faults=[])
    outcome = play(plan)
    assert outcome.findings == []
    assert outcome.changes > 50


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_is_mended(path: Path) -> None:
    """The minimised runs of bugs there were; the name of each says which."""
    assert play(from_json(path.read_bytes())).findings == []


def hash_of(seed: int, hash_seed: str) -> str:
    code = f"from strato.testing.chaos.run import *; print(play(draw_plan({seed})).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_a_seed_is_the_same_run_each_time() -> None:
    """Also where sets are in another order; seed 23 was not, as pods and services of a job were in a set."""
    digests = {hash_of(23, hash_seed) for hash_seed in ("1", "2")}
    assert digests == {play(draw_plan(23)).digest}


def test_a_campaign_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "results"
    results = list(run_seeds([4, 5], jobs=1, minimises=False))
    assert [(result.seed, result.findings) for result in results] == [(4, []), (5, [])]
    lines = b"".join(msgspec.json.encode(result) + b"\n" for result in results)
    file.write_bytes(lines[:-9])
    assert list(read_results(file)) == [4]
    assert list(read_results(tmp_path / "none")) == []


def test_a_run_that_breaks_off_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("strato.testing.chaos.campaign.play", broken)
    result = try_seed(1)
    assert "ZeroDivisionError" in result.findings[0]
    assert result.plan == draw_plan(1)


@pytest.mark.parametrize(("flag", "is_minimised"), [("--minimise", True), ("--no-minimise", False)])
def test_a_saved_plan_is_as_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str, is_minimised: bool
) -> None:
    plan = draw_plan(1)
    smaller = msgspec.structs.replace(plan, steps=plan.steps[:1], faults=[])

    def failing(played: ChaosPlan) -> ChaosResult:
        return ChaosResult(played, [BrokenInvariant(1.0, "a rule", "it is broken")], "", 0, [])

    monkeypatch.setattr("strato.testing.chaos.campaign.play", failing)
    monkeypatch.setattr("strato.testing.chaos.campaign.minimise", lambda _: failing(smaller))
    file = tmp_path / "plan.json"
    result = CliRunner().invoke(main, ["--seed", "1", "--save", str(file), flag])
    assert result.exit_code == 1, result.output
    assert from_json(file.read_bytes()) == (smaller if is_minimised else plan)
    assert ("minimised to 1 steps and 0 faults" in result.output) is is_minimised
    assert "a rule: it is broken" in result.output
