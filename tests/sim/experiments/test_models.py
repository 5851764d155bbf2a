"""Performance models in an experiment's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.errors import InvalidInput
from strato.sim.experiments.execute import execute
from strato.sim.experiments.file import read_experiment
from strato.sim.experiments.plan import ExperimentRun

TRACE = "submit,run_time,replicas\n0,100,1\n10,100,1\n"


def experiment(folder: Path, **more: Any) -> Path:
    (folder / "jobs.csv").write_text(TRACE)
    file = folder / "experiment.yaml"
    document = {
        "apiVersion": "sim.strato.dev/v1alpha1",
        "kind": "Experiment",
        "trace": "jobs.csv",
        "nodes": "2x4cpu",
        "policies": {"plain": None},
        "fidelity": "decisions",
        **more,
    }
    file.write_text(yaml.safe_dump(document))
    return file


def test_models_change_a_run(tmp_path: Path) -> None:
    models = {"startCost": {"medianSeconds": 50}}
    found = read_experiment(experiment(tmp_path, variants={"as recorded": {}, "slow starts": {"models": models}}))
    ends = []
    for variant in found.variants:
        run = ExperimentRun(policy=found.policies[0], variant=variant, seed=0, fidelity=found.fidelity)
        ends.append(execute(run, run.trace.read()).finish_seconds)
    assert ends[1] - ends[0] == pytest.approx([50, 50], abs=0.1)


WRONG = [
    ({"models": {"startCost": {"spread": -1}}}, "models.startCost.spread"),
    ({"models": {"locality": {"profiles": "no"}}}, "models.locality.profiles"),
    ({"models": {"elastic": {}}, "fidelity": "objects"}, "models"),
]


@pytest.mark.parametrize(("more", "where"), WRONG)
def test_wrong_models_are_named_with_their_place(more: dict[str, Any], where: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_experiment(experiment(tmp_path, **more))
    assert where in [problem.where for problem in caught.value.problems]
