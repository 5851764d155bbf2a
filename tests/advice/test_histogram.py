"""Histograms: what holds for any samples; the original's own tests run as cases."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strato.advice.histogram import CPU, MEMORY, Checkpoint, Histogram, InvalidCheckpoint

DAY = 86_400.0
SAMPLES = st.lists(
    st.tuples(st.floats(0, 2000), st.floats(0.1, 10), st.floats(1.7e9, 1.7e9 + 30 * DAY)), min_size=1, max_size=30
)


def filled(samples: list[tuple[float, float, float]], half_life: float = DAY) -> Histogram:
    found = Histogram(CPU, half_life)
    for value, weight, at in samples:
        found.add(value, weight, at)
    return found


def test_layouts_are_those_of_the_vertical_autoscaler() -> None:
    assert (CPU.count, MEMORY.count) == (176, 176)
    assert CPU.find(6.0) == 70
    assert (round(CPU.start(70), 3), round(CPU.end(70), 3)) == (5.885, 6.190)
    assert MEMORY.find(3.1e9) == 57


@given(SAMPLES, st.floats(0, 1), st.floats(0, 1))
def test_percentiles_grow_with_the_share(samples: list[tuple[float, float, float]], one: float, two: float) -> None:
    found = filled(samples)
    low, high = sorted((one, two))
    assert found.percentile(low) <= found.percentile(high)


@given(SAMPLES)
def test_the_percentile_of_all_is_never_below_a_sample_that_counts(samples: list[tuple[float, float, float]]) -> None:
    found = filled([(value, weight, 1.7e9) for value, weight, _ in samples], float("inf"))
    assert found.percentile(1.0) >= min(max(value for value, _, _ in samples), CPU.start(CPU.count - 1))


@given(SAMPLES, st.floats(0.01, 0.99))
def test_equal_ages_change_no_percentile(samples: list[tuple[float, float, float]], share: float) -> None:
    same = [(value, 1.0, 1.7e9) for value, _, _ in samples]
    assert filled(same).percentile(share) == filled(same, float("inf")).percentile(share)


@given(SAMPLES, SAMPLES)
@example([(1.0, 1.0, 1.7e9)], [(0.0, 1.0, 1701172800.0)])
def test_merging_is_adding_all_samples(
    one: list[tuple[float, float, float]], two: list[tuple[float, float, float]]
) -> None:
    merged, both = filled(one), filled([*one, *two])
    merged.merge(filled(two))
    # which buckets weigh too little to count depends on the instant that weights refer to, and theirs may differ
    slack = len(one + two) * CPU.epsilon / sum(merged.buckets().values()) + 1e-9
    for share in (0.1, 0.5, 0.9, 1.0):
        low, high = both.percentile(max(share - slack, 0.0)), both.percentile(min(share + slack, 1.0))
        assert low <= merged.percentile(share) <= high


@given(SAMPLES)
def test_a_checkpoint_of_what_was_loaded_is_the_same(samples: list[tuple[float, float, float]]) -> None:
    found, loaded = filled(samples), Histogram(CPU, DAY)
    loaded.load(found.save())
    assert loaded.is_empty == found.is_empty
    assert loaded.reference == found.reference
    assert loaded.save().bucket_weights == found.save().bucket_weights


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param(Checkpoint(1.0, {176: 1}), id="a bucket that there is not"),
        pytest.param(Checkpoint(1.0, {-1: 1}), id="a bucket below the first"),
        pytest.param(Checkpoint(1.0, {1: -1}), id="a negative weight"),
        pytest.param(Checkpoint(float("nan"), {1: 1}), id="a weight that is no number"),
        pytest.param(Checkpoint(float("inf"), {1: 1}), id="a weight without end"),
    ],
)
def test_a_checkpoint_that_no_histogram_wrote_is_refused_whole(saved: Checkpoint) -> None:
    found = Histogram(CPU, DAY)
    with pytest.raises(InvalidCheckpoint):
        found.load(saved)
    assert found.is_empty


def test_what_is_subtracted_weighs_nothing_any_more() -> None:
    found = filled([(1.0, 1.0, 1.7e9), (8.0, 3.0, 1.7e9)], float("inf"))
    found.subtract(8.0, 3.0, 1.7e9)
    assert found.percentile(0.9) == CPU.end(CPU.find(1.0))
    assert found.save().total_weight == pytest.approx(1.0)
