from __future__ import annotations

from strato.sim.results.sizes import jobs_by_size
from tests.sim.results.build import columns, job


def test_sizes_are_pods_where_jobs_differ_in_them() -> None:
    run = columns([job("a", replicas=3), job("b", replicas=1), job("c", replicas=300), job("d", replicas=4)], [])
    unit, sizes = jobs_by_size(run)
    assert (unit, sizes.names) == ("pods", ("1", "2–4", "≥ 257"))
    assert sizes.of_job.tolist() == [1, 0, 2, 1]


def test_sizes_are_cores_where_all_jobs_have_as_many_pods() -> None:
    unit, sizes = jobs_by_size(columns([job("a", cpu="500m"), job("b", cpu="5")], []))
    assert (unit, sizes.names, sizes.of_job.tolist()) == ("cores", ("1", "5–16"), [0, 1])


def test_no_jobs_have_no_sizes() -> None:
    assert jobs_by_size(columns([], []))[1].names == ()
