"""How samples of one container become those of histograms: late, doubled, larger of an interval, killed for memory."""

from __future__ import annotations

from typing import Any

import pytest

from strato.advice.use import CPU_WEIGHT, Aggregation, ContainerUse, UseHistograms, bumped

DAY, MIB = 86_400.0, 1 << 20
OPTIONS = Aggregation()


class Kept:
    """Keeps what it is given, by instant."""

    def __init__(self) -> None:
        self.held: list[tuple[float, float, float]] = []

    def add(self, value: float, weight: float, at: float) -> None:
        self.held.append((value, weight, at))

    def subtract(self, value: float, weight: float, at: float) -> None:
        self.held.remove((value, weight, at))


def use() -> tuple[ContainerUse, Kept, Kept]:
    cpu, memory = Kept(), Kept()
    return ContainerUse(cpu=cpu, memory=memory), cpu, memory


def test_samples_of_cpu_are_taken_once_each_and_in_order() -> None:
    made, cpu, _ = use()
    taken = [made.add_cpu(at, cores) for at, cores in ((10.0, 0.0), (10.0, 1.0), (9.0, 1.0), (11.0, -0.1), (11.0, 2.0))]
    assert taken == [True, False, False, False, True]
    assert cpu.held == [(0.0, CPU_WEIGHT, 10.0), (2.0, CPU_WEIGHT, 11.0)]


PEAKS: list[Any] = [
    pytest.param([(0.0, 5.0)], [(5.0, 1.0, DAY)], id="the first"),
    pytest.param([(0.0, 5.0), (1.0, 7.0)], [(7.0, 1.0, DAY)], id="a larger one takes its place"),
    pytest.param([(0.0, 5.0), (1.0, 5.0)], [(5.0, 1.0, DAY)], id="an equal one does not"),
    pytest.param([(0.0, 5.0), (1.0, 3.0)], [(5.0, 1.0, DAY)], id="nor does a smaller one"),
    pytest.param([(0.0, 5.0), (0.0, 7.0)], [(7.0, 1.0, DAY)], id="of the same instant"),
    pytest.param([(0.0, 5.0), (DAY - 1, 7.0)], [(7.0, 1.0, DAY)], id="at the end of the interval"),
    pytest.param([(0.0, 5.0), (DAY, 3.0)], [(5.0, 1.0, DAY), (3.0, 1.0, 2 * DAY)], id="of the next interval"),
    pytest.param([(0.0, 5.0), (3.5 * DAY, 3.0)], [(5.0, 1.0, DAY), (3.0, 1.0, 4 * DAY)], id="after a gap"),
    pytest.param([(5.0, 5.0), (4.0, 7.0)], [(5.0, 1.0, 5.0 + DAY)], id="a late one"),
    pytest.param([(0.0, -1.0)], [], id="less than nothing"),
    pytest.param([(0.0, 0.0), (1.0, 3.0)], [(0.0, 1.0, DAY)], id="after a sample of nothing"),
]


@pytest.mark.parametrize(("samples", "want"), PEAKS)
def test_memory_counts_once_an_interval_with_its_peak(
    samples: list[tuple[float, float]], want: list[tuple[float, float, float]]
) -> None:
    made, _, memory = use()
    for at, used in samples:
        made.add_memory(at, used)
    assert memory.held == want


@pytest.mark.parametrize(
    ("used", "needed"),
    [
        (0.0, 100 * MIB),
        (100.0 * MIB, 200 * MIB),
        (500.0 * MIB, 600 * MIB),
        (1000.0 * MIB, 1200 * MIB),
        (0.5, 100 * MIB),
    ],
)
def test_what_a_killed_container_needs(used: float, needed: int) -> None:
    assert bumped(used, OPTIONS) == needed


def test_a_killed_container_needs_more_than_its_request_and_its_peak() -> None:
    for peak, request, base in ((300.0, 500.0, 500.0), (500.0, 300.0, 500.0)):
        made, _, memory = use()
        made.add_memory(0.0, peak * MIB)
        assert made.add_oom(1.0, request * MIB)
        assert memory.held == [(float(bumped(base * MIB, OPTIONS)), 1.0, DAY)], "it takes the place of the peak"
        made.add_memory(2.0, 510.0 * MIB)
        assert memory.held == [(float(bumped(base * MIB, OPTIONS)), 1.0, DAY)], "what is less says nothing more"
        made.add_memory(3.0, 2000.0 * MIB)
        assert memory.held == [(2000.0 * MIB, 1.0, DAY)]


def test_use_of_just_what_a_killed_container_was_estimated_to_need_is_no_new_peak() -> None:
    made, _, memory = use()
    made.add_memory(0.0, 300.0 * MIB)
    for at in (1.0, 3.0):
        made.add_oom(at, 500.0 * MIB)
        made.add_memory(at + 1.0, 600.0 * MIB)
        assert memory.held == [(600.0 * MIB, 1.0, DAY)]


@pytest.mark.parametrize(("at", "taken"), [(-1.0, False), (0.0, True), (1.0, True), (DAY, True), (5 * DAY, True)])
def test_a_kill_of_long_ago_says_nothing(at: float, taken: bool) -> None:
    made, _, memory = use()
    made.add_memory(0.0, 1.0)
    assert made.add_oom(at, 500.0 * MIB) is taken
    assert (max(value for value, _, _ in memory.held) > 1.0) is taken
    fresh, _, _ = use()
    assert fresh.add_oom(at, 0.0), "nothing was seen before"


def test_confidence_grows_with_the_days_that_samples_span_or_would_take() -> None:
    made = UseHistograms(OPTIONS)
    assert made.confidence() == 0.0
    made.count_sample(DAY)
    assert made.confidence() == 0.0, "one instant spans nothing"
    made.count_sample(3 * DAY)
    made.count_sample(2 * DAY)
    assert (made.first_sample, made.last_sample, made.samples) == (DAY, 3 * DAY, 3)
    assert made.confidence() == 3 / 1440, "as few samples take three minutes"
    assert made.confidence(120.0) == 3 / 2
    made.samples = 10_000
    assert made.confidence() == 2.0
