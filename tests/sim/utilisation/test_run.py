"""Small experiments: what a variant brings, the same numbers for the same seed, and the command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from strato.cli.main import cli
from strato.sim.utilisation.options import ArrivalOptions, PodOptions, TrainingKind, parse_experiment
from strato.sim.utilisation.report import UtilisationReport
from strato.sim.utilisation.run import UtilisationProgress, run_experiment
from strato.sim.utilisation.workload import draw_trainings, training_job

SMALL = """
hours: 4
warmUpHours: 1
nodes: 3x16cpu,64Gi,overcommit=2
services:
- {name: web, replicas: 6, cpu: "1", memory: 1Gi, demand: phases repeat 13m=4 29m=1}
trainings:
  perDay: 120
  giveUpMinutes: 60
  kinds:
  - name: ctr
    medianMinutes: 20
    spread: 0.3
    roles:
      ps: {cpu: "2", memory: 1Gi, demand: "1", setsPace: true}
      worker: {replicas: 4, cpu: "5", memory: 1Gi, demand: phases repeat 4m=5 3m=1}
variants:
  none: {}
  gang: {gang: true}
  both: {gang: true, overcommit: true}
  all: {gang: true, overcommit: true, suppression: true}
"""


@cache
def small(*variants: str, seed: int = 3) -> UtilisationReport:
    return run_experiment(
        parse_experiment(SMALL, "e.yaml", Path()), name="e.yaml", variants=variants, seed=seed, progress=None
    )


def test_what_each_contributes() -> None:
    none, gang, both, everything = small("none", "gang", "both", "all").variants
    assert none.training.held_core_hours > 10, "pods of half a training hold cores"
    assert gang.training.held_core_hours < 0.1
    assert gang.runs.runs > none.runs.runs, "who holds nothing blocks nobody"
    assert both.runs.runs > gang.runs.runs, "more trainings fit"
    assert (both.hosts.mean or 0) > (gang.hosts.mean or 0)
    assert both.online.unserved_ratio > 0.02, "at the cost of the services"
    assert everything.online.unserved_ratio < both.online.unserved_ratio / 3, "who get their CPU back"
    assert everything.suppressions > 0
    assert (everything.runs.mean_run or 0) > (both.runs.mean_run or 0), "for which trainings take longer"


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    again = run_experiment(parse_experiment(SMALL, "e.yaml", Path()), name="e.yaml", variants=["all"], seed=3)
    first = small("none", "gang", "both", "all")
    assert again.variants[0] == first.variants[3]
    assert again.to_json() == UtilisationReport("e.yaml", 3, 4.0, [first.variants[3]]).to_json()
    assert small("gang", seed=4).variants[0] != first.variants[1]


def test_nobody_uses_more_than_there_is() -> None:
    for one in small("none", "gang", "both", "all").variants:
        assert all(0 <= ratio <= 1 for ratio in one.series)
        assert len(one.series) == 4 * 12
        assert one.hosts.coverage == 1
        used = one.training.used_core_hours + one.online.used_core_hours
        assert used == pytest.approx((one.hosts.mean or 0) * 48 * 4, rel=0.001), "what was used is what nodes gave"


def test_as_many_trainings_a_day_as_are_asked_for() -> None:
    kinds = [TrainingKind(name="a", roles={"worker": PodOptions(demand="1")}, most_minutes=70)]
    day = draw_trainings(kinds, ArrivalOptions(per_day=200, peak_hour=14, peak_ratio=1), 86400, Random(1))
    assert len(day) == 200
    assert [one.at for one in day] == sorted(one.at for one in day)
    assert all(one.run_seconds <= 4200 for one in day)
    near_peak = sum(8 * 3600 <= one.at < 20 * 3600 for one in day)
    assert near_peak > 130, "more around the peak: 82 % are expected"
    assert draw_trainings([], ArrivalOptions(), 86400, Random(1)) == []


def test_a_training_without_gang_is_placed_pod_by_pod() -> None:
    kind = TrainingKind(name="a", roles={"chief": PodOptions(demand="1"), "worker": PodOptions(demand="1", replicas=2)})
    (one, *_) = draw_trainings([kind], ArrivalOptions(), 86400, Random(1))
    policies = [training_job(one, gang=gang)["spec"]["runPolicy"]["schedulingPolicy"] for gang in (True, False)]
    assert policies == [{"priorityClass": "p-100"}, {"priorityClass": "p-100", "minAvailable": 1}]
    notes = training_job(one, gang=True)["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"]
    assert notes["strato.dev/waits-for-pods"] == "3"


def test_progress_is_reported() -> None:
    seen: list[UtilisationProgress] = []
    text = SMALL.replace("hours: 4", "hours: 0.5").replace("warmUpHours: 1", "warmUpHours: 0")
    experiment = parse_experiment(text, "e.yaml", Path())
    run_experiment(experiment, name="e.yaml", variants=["gang"], progress=seen.append)
    assert seen[-1] == UtilisationProgress("gang", 1800, 1800)


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(SMALL.replace("hours: 4", "hours: 0.5").replace("warmUpHours: 1", "warmUpHours: 0"))
    target = tmp_path / "r.json"
    result = CliRunner().invoke(
        cli, ["sim", "utilisation", str(file), "--variant", "all", "--json", str(target)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    header, row = result.output.splitlines()
    assert header.split()[:4] == ["VARIANT", "RUNS", "MEAN", "RUN"]
    assert row.startswith("all ")
    assert json.loads(target.read_text())["variants"][0]["name"] == "all"


def test_the_command_refuses_a_variant_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(SMALL)
    result = CliRunner().invoke(cli, ["sim", "utilisation", str(file), "--variant", "al"])
    assert result.exit_code != 0
    assert "has no variant 'al'; did you mean 'all'?" in str(result.exception) + result.output


def test_a_training_that_is_given_up_leaves_nothing_behind() -> None:
    """Without it every training that was deleted kept its pods, and after a few hours nothing fitted any more."""
    text = """
hours: 6
warmUpHours: 0
nodes: 1x8cpu,32Gi
trainings:
  perDay: 192
  giveUpMinutes: 20
  kinds:
  - {name: long, medianMinutes: 30, spread: 0.1, roles: {worker: {replicas: 2, cpu: "3", memory: 1Gi, demand: "3"}}}
variants: {none: {}}
"""
    (one,) = run_experiment(parse_experiment(text, "e.yaml", Path()), name="e", seed=1).variants
    assert one.given_up >= 3
    assert one.runs.runs >= 4
    assert max(one.series[-12:]) > 0.5, "trainings still run in the last hour"
