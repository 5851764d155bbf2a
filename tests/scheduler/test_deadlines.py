"""Deadlines against a plain dictionary: whatever is put, the newest under a key comes out, when it is due, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strato.scheduler.reporting.deadlines import Deadlines

PUTS = st.tuples(st.sampled_from("abcd"), st.integers(0, 9))


@given(st.lists(st.one_of(PUTS, st.integers(0, 9))))
def test_deadlines_are_a_dictionary_that_gives_up_what_is_due(steps: list[tuple[str, int] | int]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[str, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            key, at = step
            deadlines.put(key, at, number)
            model[key] = (at, number)
        else:
            due = [key for key, (at, _) in model.items() if at <= step]
            assert set(deadlines.take_due(step)) == {model.pop(key)[1] for key in due}
        assert len(deadlines) == len(model)
        assert deadlines.next_at == min((at for at, _ in model.values()), default=None)
        assert {key: entry for key in "abcd" if (entry := deadlines.get(key)) is not None} == model
