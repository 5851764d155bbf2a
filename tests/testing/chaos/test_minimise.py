from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from strato.testing.chaos.invariants import BrokenInvariant
from strato.testing.chaos.minimise import minimise, smallest
from strato.testing.chaos.plan import ChaosPlan, UserRequest, from_json, to_json
from strato.testing.chaos.run import ChaosResult, draw_plan


@given(st.sets(st.integers(0, 40), min_size=1, max_size=5), st.integers(41, 60))
def test_nothing_is_left_that_does_not_matter(needed: set[int], count: int) -> None:
    assert set(smallest(list(range(count)), lambda rest: needed <= set(rest))) == needed


def test_what_always_fails_becomes_nothing() -> None:
    assert smallest([1, 2, 3], lambda rest: True) == []


def outcome(plan: ChaosPlan, *rules: str) -> ChaosResult:
    return ChaosResult(plan, [BrokenInvariant(0.0, rule, "x") for rule in rules], "", 0, [])


def beginning(plan: ChaosPlan) -> list[UserRequest]:
    """Return the steps that make what the others refer to: queues, a namespace, classes."""
    steps = [step for step in plan.steps if step.at == 0]
    assert len(steps) > 3
    return steps


def test_a_run_is_made_small_and_goes_on_breaking_the_same_rule() -> None:
    plan = draw_plan(3)
    step, fault = plan.steps[9], plan.faults[7]

    def run(tried: ChaosPlan) -> ChaosResult:
        if step in tried.steps and fault in tried.faults:
            return outcome(tried, "the rule")
        return outcome(tried, "another rule")

    smaller = minimise(outcome(plan, "the rule"), run=run)
    assert (smaller.plan.steps, smaller.plan.faults) == ([*beginning(plan), step], [fault])
    assert smaller.plan.setting == plan.setting


def test_a_run_in_which_another_rule_is_broken_first_is_no_smaller_one() -> None:
    plan = draw_plan(3)
    step = plan.steps[9]

    def run(tried: ChaosPlan) -> ChaosResult:
        if step in tried.steps and plan.faults[7] in tried.faults:
            return outcome(tried, "the rule", "another rule")
        return outcome(tried, "another rule", "the rule")

    smaller = minimise(outcome(plan, "the rule"), run=run)
    assert smaller.findings[0].rule == "the rule"
    assert (smaller.plan.steps, smaller.plan.faults) == ([*beginning(plan), step], [plan.faults[7]])


def test_minimising_ends_when_its_runs_are_used_up() -> None:
    plan = draw_plan(3)
    runs: list[ChaosPlan] = []

    def run(tried: ChaosPlan) -> ChaosResult:
        runs.append(tried)
        return outcome(tried)

    assert minimise(outcome(plan, "r"), most_runs=10, run=run).plan == plan
    assert len(runs) == 10
    assert minimise(outcome(plan), run=run).plan == plan


def test_a_plan_is_data() -> None:
    plans: Sequence[ChaosPlan] = [draw_plan(seed) for seed in range(30)]
    assert [from_json(to_json(plan)) for plan in plans] == plans
    assert plans == [draw_plan(seed) for seed in range(30)]
    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert len(kinds) == 13
