"""DRF's and Quincy's examples whole, EASY on the beginning of a log, and the textbook's backfilling."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.papers import drf, easy, quincy
from strato.sim.papers.backfilling import Submitted, waits
from strato.sim.papers.work import ReproductionOptions
from tests.sim.shareddata import data_folder

NO_DATA = ReproductionOptions(data=Path("/nowhere"))


def test_drf_serves_the_users_as_in_the_paper() -> None:
    assert drf.shared_out() == ["B", "A", "A", "B", "A"]
    assert drf.reproduce(NO_DATA).agrees


def test_quincy_prices_and_places_the_example() -> None:
    found = quincy.reproduce(NO_DATA)
    assert found.agrees, found.to_text()
    assert quincy.cheapest() == 25


def test_the_beginning_of_a_log_waits_as_the_algorithm_says() -> None:
    found = easy.waits_of(easy.Log(data_folder(), "hpc2n", 250))
    assert found.plugin == pytest.approx(found.easy, abs=1.5), "to the scheduler's period"
    assert sum(found.easy) < sum(found.fcfs)


# -- the textbook ------------------------------------------------------------------------------------------------------

FOUR = 4
CASES = [
    pytest.param([(0, 10, 10, 4), (1, 5, 5, 4)], [0, 9], [0, 9], id="one after the other"),
    pytest.param([(0, 10, 10, 3), (1, 5, 5, 2), (2, 4, 4, 1)], [0, 9, 0], [0, 9, 8], id="a short one passes"),
    pytest.param([(0, 10, 10, 3), (1, 5, 5, 4), (2, 9, 9, 1)], [0, 9, 13], [0, 9, 13], id="a long one would delay"),
    pytest.param([(0, 10, 10, 3), (1, 5, 5, 3), (2, 90, 90, 1)], [0, 9, 0], [0, 9, 8], id="spare even then"),
    pytest.param([(0, 10, 50, 3), (1, 5, 5, 4), (2, 9, 40, 1)], [0, 10, 0], [0, 9, 13], id="by estimates, not by ends"),
    pytest.param(
        [(0, 10, 10, 2), (0, 10, 10, 2), (1, 5, 5, 3), (2, 90, 90, 1)], [0, 0, 9, 8], [0, 0, 9, 8], id="full is full"
    ),
]


@pytest.mark.parametrize(("jobs", "easy_waits", "fcfs_waits"), CASES)
def test_who_waits_how_long(
    jobs: list[tuple[int, int, int, int]], easy_waits: list[int], fcfs_waits: list[int]
) -> None:
    submitted = [Submitted(*job) for job in jobs]
    assert waits(submitted, FOUR, backfill=True) == easy_waits
    assert waits(submitted, FOUR, backfill=False) == fcfs_waits


JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(0, 30), st.integers(1, FOUR)), min_size=1, max_size=25
)


@given(JOBS, st.booleans())
def test_the_machine_is_never_overfull(jobs: list[tuple[int, int, int, int]], backfill: bool) -> None:
    submitted = [Submitted(at, run, run + more, count) for at, run, more, count in sorted(jobs)]
    waited = waits(submitted, FOUR, backfill=backfill)
    assert min(waited) >= 0
    starts = [job.submit_seconds + wait for job, wait in zip(submitted, waited, strict=True)]
    for now in starts:
        used = sum(j.processors for j, s in zip(submitted, starts, strict=True) if s <= now < s + j.run_seconds)
        assert used <= FOUR
    if not backfill:
        assert starts == sorted(starts)
