"""The experiment with Spark's queries, in small: what it shows holds for other seeds too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "spark-experiment" / "experiment.py"


@pytest.fixture(scope="module")
def experiment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_experiment", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [2])
def test_drivers_starve_executors_unless_room_for_whole_queries_is_reserved(experiment: ModuleType, seed: int) -> None:
    pods, batches, reserved = (one.run() for one in experiment.experiments(52, seed))
    assert (pods.most_drivers, pods.ended) == (32, [])
    assert len(batches.ended) == len(reserved.ended) == 52
    assert reserved.most_drivers <= 6
    assert reserved.seconds < 0.7 * batches.seconds


def test_the_same_seed_gives_the_same_run(experiment: ModuleType) -> None:
    first, again = (experiment.Experiment("reserved", 12, 3, reserved=True, batch=12).run() for _ in range(2))
    assert first == again


def test_the_plot_is_a_picture(experiment: ModuleType) -> None:
    results = [experiment.Result(name, 2, [1.0, 2.0]) for name in ("a", "b")] + [experiment.Result("c <", 2)]
    text = experiment.svg(results)
    assert text.startswith("<svg ")
    assert "c &lt;: 0 of 2" in text
