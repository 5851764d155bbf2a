"""The share of CPU that a shadow policy may take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strato.scheduler.shadow.budget import Budget


def test_nothing_is_allowed_before_there_was_work() -> None:
    budget = Budget(0.1)
    assert not budget.allows
    budget.worked(1.0)
    assert budget.allows


def test_a_costly_turn_is_saved_up_for() -> None:
    budget = Budget(0.1)
    budget.worked(1.0)
    budget.spend(2.0)
    budget.worked(30.0)
    assert not budget.allows
    budget.worked(45.0)
    assert budget.allows


turns = st.lists(st.tuples(st.floats(0, 5), st.floats(0.001, 3)), max_size=60)


@given(turns=turns, share=st.floats(0.01, 1.0))
def test_share_is_kept(turns: list[tuple[float, float]], share: float) -> None:
    """All but the last turn is paid for, however work and turns alternate."""
    budget, main, spent, last = Budget(share), 0.0, 0.0, 0.0
    for work, cost in turns:
        main += work
        budget.worked(main)
        if budget.allows:
            budget.spend(cost)
            spent, last = spent + cost, cost
    assert spent - last <= share * main + 1e-6


@given(turns=turns, share=st.floats(0.01, 1.0), skipped=st.integers(0, 60))
def test_share_is_kept_in_any_stretch_of_time(turns: list[tuple[float, float]], share: float, skipped: int) -> None:
    """However long it was idle before: the share, the turn that was saved up for and one that cost more than it."""
    budget, main = Budget(share), 0.0
    done: list[tuple[float, float]] = []
    for work, cost in turns:
        main += work
        budget.worked(main)
        if budget.allows:
            budget.spend(cost)
            done.append((main, cost))
    stretch = done[skipped:]
    if stretch:
        saved = max([0.05, *(cost for _, cost in done[:skipped][-1:])])
        largest = max(cost for _, cost in stretch)
        assert sum(cost for _, cost in stretch[:-1]) <= share * (main - stretch[0][0]) + saved + largest + 1e-6


def test_another_policy_starts_over() -> None:
    budget = Budget(0.1)
    budget.worked(1.0)
    budget.spend(60.0)
    budget.worked(2.0)
    assert not budget.allows
    budget.start_over(2.0)
    assert not budget.allows, "what the first one left unused is not the second one's"
    budget.worked(3.0)
    assert budget.allows


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_idle_time_is_not_hoarded(seconds: list[float]) -> None:
    """However long nothing was compared: one turn follows at once."""
    budget, main = Budget(0.15), 0.0
    for more in seconds:
        main += more
        budget.worked(main)
    count = 0
    while budget.allows and count < 100:
        budget.spend(0.1)
        count += 1
    assert count <= 1
