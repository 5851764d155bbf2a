from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.pictures.digest import cumulative, digest_run
from strato.sim.results.gantt import JOBS_DRAWN, NodeBars, NodeUse, job_bars, node_rows, packed
from tests.sim.results.build import Ran, columns, job, nodes, record


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=40))
def test_no_two_bars_of_a_lane_overlap(spans: list[tuple[float, float]]) -> None:
    begin = np.array([one[0] for one in spans])
    end = begin + np.array([one[1] for one in spans])
    lanes = packed(begin, end)
    for lane in set(lanes.tolist()):
        mine = sorted(zip(begin[lanes == lane], end[lanes == lane], strict=True))
        assert all(one[1] <= other[0] for one, other in pairwise(mine))


def test_few_nodes_get_bars_within_their_row() -> None:
    run = columns([job("a"), job("b"), job("c")], [Ran(0, 0, 10), Ran(1, 5, 15), Ran(2, 0, 9, node=1)], nodes(2))
    found = node_rows(run)
    assert isinstance(found, NodeBars)
    by_begin = sorted(zip(found.begin.tolist(), found.lane.tolist(), found.height.tolist(), strict=True))
    assert by_begin == [(0.0, 0.0, 0.5), (0.0, 1.0, 1.0), (5.0, 0.5, 0.5)]


def test_many_nodes_become_an_image_of_how_full_they_are() -> None:
    jobs = [job(f"j{i}", cpu="4") for i in range(100)]
    found = node_rows(columns(jobs, [Ran(i, 0, 10 if i else 20, node=i) for i in range(100)], nodes(200)))
    assert isinstance(found, NodeUse)
    assert (found.groups, found.nodes, found.end_seconds) == (120, 200, 20.0)
    assert found.ratio[0, 0] == 1.0
    assert found.ratio[:, -1].sum() == 0.5, "one of the two nodes of the first group is full to the end"
    assert found.ratio.max() <= 1.0


def test_the_largest_jobs_are_drawn_and_the_others_counted() -> None:
    jobs = [job(f"j{i}", cpu=str(1 + i % 7), queue=f"q{i % 3}") for i in range(JOBS_DRAWN + 50)]
    found = job_bars(columns(jobs, [Ran(i, float(i), i + 3.0) for i in range(len(jobs))], nodes(10)))
    assert (len(found.begin), found.left_out, found.queues) == (JOBS_DRAWN, 50, ("q0", "q1", "q2"))
    assert found.lane.max() < sum(found.lanes)


def test_a_curve_keeps_its_ends_however_few_points_it_has() -> None:
    values = np.arange(1.0, 1001.0)
    x, y = cumulative(values, 10)
    assert (len(x), x[0], x[-1], y[-1]) == (10, 1.0, 1000.0, 1.0)
    assert np.allclose(x / 1000, y)
    assert len(cumulative(np.array([np.nan]), 10)[0]) == 0


def test_a_run_of_nothing_has_a_digest() -> None:
    assert digest_run(record([], [])).report.jobs == 0
