"""What waits while there is work: nothing is lost, nothing waits too long, and without work nothing waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strato.client.burst import LULL_SECONDS
from strato.client.workqueue import PATIENCE_SECONDS
from strato.scheduler.reporting.patience import Patience

WORK = st.tuples(st.just("work"), st.integers(0, 40))
PUTS = st.tuples(st.just("put"), st.sampled_from("abcdef"))
DROPS = st.tuples(st.just("drop"), st.sampled_from("abcdef"))
LOOKS = st.tuples(st.just("look"), st.sampled_from([0.0, 0.0625, LULL_SECONDS, 1.0]))


@given(st.lists(st.one_of(WORK, PUTS, DROPS, LOOKS)))
def test_patience_hands_out_the_newest_of_each_once_and_in_time(steps: list[tuple[str, object]]) -> None:
    patience: Patience[int] = Patience()
    model: dict[str, tuple[float, int]] = {}
    now = 0.0
    for number, (what, much) in enumerate(steps):
        if what == "work":
            assert isinstance(much, int)
            patience.worked(much, now)
        elif what == "put":
            patience.put(str(much), now, number)
            model[str(much)] = (model[str(much)][0] if str(much) in model else now), number
        elif what == "drop":
            patience.drop(str(much))
            model.pop(str(much), None)
        else:
            assert isinstance(much, float)
            now += much
            taken = patience.take_due(now)
            late = {item for since, item in model.values() if now - since >= PATIENCE_SECONDS}
            assert late <= set(taken)
            assert set(taken) == (late if patience.is_asked(now) else {item for _, item in model.values()})
            model = {key: entry for key, entry in model.items() if entry[1] not in taken}
        assert len(patience) == len(model)
        assert (patience.next_at is None) == (not model)


def test_who_sleeps_until_the_next_instant_gets_everything_a_few_at_a_time() -> None:
    patience: Patience[int] = Patience()
    patience.worked(1000, 10.0)
    for number in range(1000):
        patience.put(f"g{number}", 10.0, number)
    now, taken, calls = 10.0, list[int](), 0
    while (at := patience.next_at) is not None:
        assert at >= now
        now = at
        taken += patience.take_due(now)
        calls += 1
    assert taken == list(range(1000))
    assert calls > 10
    assert 10.0 + LULL_SECONDS <= now < 10.0 + PATIENCE_SECONDS


def test_what_comes_steadily_and_slowly_is_no_burst_however_long() -> None:
    patience: Patience[str] = Patience()
    for number in range(400):
        patience.worked(2, 0.04 * number)
        assert not patience.is_asked(0.04 * number)


def test_work_without_end_keeps_nothing_waiting_for_ever() -> None:
    patience: Patience[str] = Patience()
    now, told = 0.0, None
    patience.worked(20, now)
    patience.put("g", now, "runs")
    while told is None:
        now += 0.125
        patience.worked(20, now)
        told = now if patience.take_due(now) else None
    assert told == PATIENCE_SECONDS
