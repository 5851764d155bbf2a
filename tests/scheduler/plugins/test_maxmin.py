"""Gavel's allocation: against another solver, against its certificate, and in examples whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.plugins.gavelrounds import OBJECTIVES, Account, Rounds, fairness
from strato.scheduler.plugins.maxmin import Floats, Shares, max_min_shares


def best_by_glop(gain: Floats, machines: Floats, held: Floats) -> float:
    """The same problem for an independent solver."""
    linear = pytest.importorskip("ortools.linear_solver.pywraplp")
    solver = linear.Solver.CreateSolver("GLOP")
    jobs, kinds = gain.shape
    time = [[solver.NumVar(0, 1, "") for _ in range(kinds)] for _ in range(jobs)]
    least = solver.NumVar(0, solver.infinity(), "")
    for job in range(jobs):
        solver.Add(sum(gain[job, kind] * time[job][kind] for kind in range(kinds)) >= least)
        solver.Add(sum(time[job]) <= 1)
    for kind in range(kinds):
        solver.Add(sum(held[job] * time[job][kind] for job in range(jobs)) <= machines[kind])
    solver.Maximize(least)
    assert solver.Solve() == linear.Solver.OPTIMAL
    return float(least.solution_value())


def check(found: Shares, gain: Floats, machines: Floats, held: Floats) -> None:
    """An allocation must be one, and gain what it says."""
    assert found.time.min() >= 0
    assert (found.time.sum(axis=1) <= 1 + 1e-9).all()
    assert (held @ found.time <= machines * (1 + 1e-9)).all()
    assert (gain * found.time).sum(axis=1).min() == pytest.approx(found.least)
    assert found.least <= found.bound * (1 + 1e-6) + 1e-9


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    jobs, kinds = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    speeds = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 4.5, 9.0])
    gain = np.array([draw(st.lists(speeds, min_size=kinds, max_size=kinds)) for _ in range(jobs)])
    gain[:, draw(st.integers(0, kinds - 1))] += 0.3
    machines = np.array(draw(st.lists(st.integers(1, 20), min_size=kinds, max_size=kinds)), np.float64)
    held = np.array(draw(st.lists(st.sampled_from([1, 1, 2, 4, 8]), min_size=jobs, max_size=jobs)), np.float64)
    return gain, machines, held


@given(problems())
@settings(max_examples=60, deadline=None)
def test_the_least_gain_is_the_largest_possible(problem: tuple[Floats, Floats, Floats]) -> None:
    gain, machines, held = problem
    found = max_min_shares(gain, machines, held)
    check(found, gain, machines, held)
    assert found.least == pytest.approx(best_by_glop(gain, machines, held), rel=1e-4, abs=1e-6)


def test_equal_jobs_get_equal_time() -> None:
    found = max_min_shares(np.ones((4, 2)), np.array([1.0, 1.0]), np.ones(4))
    assert found.time == pytest.approx(np.full((4, 2), 0.25), abs=1e-4)


def test_what_is_left_is_spread_over_the_jobs() -> None:
    """One slow job bounds the least gain; the others get more than they need for it, and the same."""
    found = max_min_shares(np.array([[0.1], [10.0], [10.0]]), np.array([2.0]), np.ones(3))
    assert found.least == pytest.approx(0.1, rel=1e-4)
    assert found.time[1, 0] == pytest.approx(found.time[2, 0])
    assert found.time[1, 0] > 0.1


def test_no_jobs_and_no_gain() -> None:
    assert max_min_shares(np.zeros((0, 3)), np.ones(3), np.zeros(0)).time.shape == (0, 3)
    assert max_min_shares(np.zeros((2, 3)), np.ones(3), np.ones(2)).least == 0


def test_a_large_problem_is_solved() -> None:
    random = np.random.default_rng(1)
    gain, machines = random.uniform(0.05, 5, (2000, 3)), np.array([400.0, 300.0, 300.0])
    held = random.choice([1.0, 1.0, 2.0, 4.0, 8.0], 2000)
    found = max_min_shares(gain, machines, held)
    check(found, gain, machines, held)
    assert found.least > 0.95 * found.bound


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_jobs_go_where_they_gain_most() -> None:
    """Example of the paper's section 4: two jobs, one that gains 4 times on the fast GPU, one that gains nothing."""
    accounts = [Account(np.array([4.0, 1.0])), Account(np.array([1.0, 1.0]))]
    shares = max_min_shares(fairness(accounts, np.ones(2)), np.ones(2), np.ones(2))
    assert shares.time[0, 0] > 0.6
    assert shares.time[1, 1] > 0.6


def rounds(objective: str = "max-min", **jobs: tuple[float, float]) -> Rounds:
    made = Rounds(np.array([1.0, 1.0]), OBJECTIVES[objective], 360.0)
    for name, speed in jobs.items():
        made.add(name, Account(np.array(speed)))
    return made


def test_time_follows_the_allocation() -> None:
    """Three equal jobs on two GPUs: each has two thirds of the time in the end."""
    made = rounds(a=(1, 1), b=(1, 1), c=(1, 1))
    made.allocate(0.0)
    ran = dict.fromkeys("abc", 0)
    for _ in range(300):
        chosen = made.next_round()
        assert sorted(chosen.values()) == [0, 1]
        for job, kind in chosen.items():
            made.ran(job, kind, 360.0)
            ran[str(job)] += 1
    assert list(ran.values()) == pytest.approx([200, 200, 200], abs=4)


def test_a_job_that_came_later_has_its_turn_after_the_next_allocation() -> None:
    made = rounds(a=(1, 1), b=(1, 1))
    made.allocate(1.0)
    made.add("c", Account(np.array([9.0, 9.0])))
    made.allocate(100.0)
    assert "c" not in made.next_round(), "allocations are not made too often"
    made.allocate(2000.0)
    served = set()
    for _ in range(3):
        for job, kind in made.next_round().items():
            made.ran(job, kind, 360.0)
            served.add(job)
    assert served == {"a", "b", "c"}
    made.remove("c")
    assert "c" not in made


def test_gangs_take_machines_together() -> None:
    made = Rounds(np.array([4.0, 2.0]), OBJECTIVES["makespan"], 360.0)
    made.add("big", Account(np.array([1.0, 1.0]), held=4, steps_left=100))
    made.add("none", Account(np.array([0.0, 0.0]), held=1))
    made.add("small", Account(np.array([1.0, 1.0]), held=2, steps_left=1))
    made.allocate(0.0)
    assert made.next_round() == {"big": 0, "small": 1}


def test_the_largest_rest_ends_last_and_gets_most() -> None:
    made = rounds("makespan", a=(1, 1), b=(1, 1), c=(1, 1))
    made.account("a").steps_left = 3000
    for name in "bc":
        made.account(name).steps_left = 1000
    made.allocate(0.0)
    times = [float(np.asarray(made.account(name).time).sum()) for name in "abc"]
    assert times[0] > times[1] == pytest.approx(times[2], abs=1e-3)
