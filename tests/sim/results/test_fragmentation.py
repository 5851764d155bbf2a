from __future__ import annotations

import numpy as np
import pytest

from strato.sim.results.columns import RunColumns
from strato.sim.results.fragmentation import fragmented, typical_pods
from tests.sim.results.build import Ran, columns, job, nodes, record


def test_what_no_typical_job_fits_is_fragmented() -> None:
    """Two nodes of four cores with three in use each: two cores are free, and nothing of two cores fits."""
    jobs = [job("a", cpu="3"), job("b", cpu="3"), job("wide", cpu="2", replicas=2)]
    run = columns(jobs, [Ran(0, 0, 10), Ran(1, 0, 10, node=1)], nodes(2))
    at = np.array([5.0, 20.0])
    assert fragmented(run, at)["cpu"].tolist() == pytest.approx([2 / 8, 0.0])


def test_classes_are_weighed_by_their_pods() -> None:
    jobs = [job("a", cpu="3"), job("small", cpu="1", replicas=3)]
    run = columns(jobs, [Ran(0, 0, 10)], nodes(1))
    assert fragmented(run, np.array([5.0]))["cpu"].tolist() == pytest.approx([1 / 4 * 1 / 4])


def test_a_node_that_a_class_may_not_use_has_nothing_for_it() -> None:
    made = record([job("a", cpu="1", node_selector={"model": "T4"})], [], nodes(2), end=10)
    object.__setattr__(made.nodes, "labels", ({"model": "T4"}, {}))
    run = RunColumns(made)
    assert typical_pods(run).may_use.tolist() == [[True, False]]
    assert fragmented(run, np.array([1.0]))["cpu"].tolist() == pytest.approx([0.5])


def test_a_resource_counts_only_for_those_that_request_it() -> None:
    """A pod without GPUs that fits nowhere leaves the GPUs whole for those that want them."""
    gpu = {"nvidia.com/gpu": 4}
    trained = job("a")
    object.__setattr__(trained, "requests", {"cpu": "1", "nvidia.com/gpu": "1"})
    run = columns([trained, job("huge", cpu="64")], [Ran(0, 0, 10)], nodes(1, **gpu))
    found = fragmented(run, np.array([5.0]))
    assert found["nvidia.com/gpu"].tolist() == [0.0]
    assert found["cpu"].tolist() == pytest.approx([0.5 * 3 / 4])
