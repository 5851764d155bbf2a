from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.cpudemand import CPU_DEMAND, InvalidDemand, Samples, demand_problem, read_demand, read_quietly

DAY = 86400.0
TRACES = {"web": {"a": Samples((0.0, 10.0), (1.0, 3.0), 20.0), "b": Samples((0.0,), (5.0,), 60.0)}}


def test_a_number_is_wanted_at_all_times() -> None:
    demand = read_demand("2.5", "p")
    assert (demand.cores_at(0), demand.cores_at(1e9), demand.next_change(7)) == (2.5, 2.5, math.inf)


def test_phases_follow_each_other_and_the_last_stays() -> None:
    demand = read_demand("phases 60s=1 2m=6 1s=0.5", "p")
    assert not demand.follows_clock
    assert [demand.cores_at(at) for at in (0, 59.9, 60, 179, 180, 1e6)] == [1, 1, 6, 6, 0.5, 0.5]
    assert [demand.next_change(at) for at in (0, 60, 180, 1e6)] == [60, 180, math.inf, math.inf]


def test_phases_repeat() -> None:
    demand = read_demand("phases repeat 60s=1 30s=4", "p")
    assert [demand.cores_at(at) for at in (0, 60, 89, 90, 150)] == [1, 4, 4, 1, 4]
    assert [demand.next_change(at) for at in (0, 60, 90, 170)] == [60, 90, 150, 180]


def test_a_day_has_its_peak_and_its_low() -> None:
    demand = read_demand("daily low=1 high=3 peak=20h", "p")
    assert demand.follows_clock
    assert demand.cores_at(20 * 3600) == pytest.approx(3, abs=0.01)
    assert demand.cores_at(3 * DAY + 8 * 3600) == pytest.approx(1, abs=0.01)
    assert demand.next_change(1000) == 1200


def test_noise_is_the_pods_own_and_bounded() -> None:
    text = "daily low=2 high=2 peak=0 noise=0.5"
    one, same, other = read_demand(text, "web-0"), read_demand(text, "web-0"), read_demand(text, "web-1")
    series = [one.cores_at(at * 300) for at in range(288)]
    assert series == [same.cores_at(at * 300) for at in range(288)]
    assert series != [other.cores_at(at * 300) for at in range(288)]
    assert all(1 <= cores <= 3 for cores in series)
    assert max(series) > 2.8
    assert min(series) < 1.2


def test_a_trace_begins_anew_when_it_is_over() -> None:
    demand = read_demand("trace web series=a scale=2 offset=5s", "p", TRACES)
    assert [demand.cores_at(at) for at in (0, 4, 5, 14, 15, 24)] == [2, 2, 6, 6, 2, 2]
    assert [demand.next_change(at) for at in (0, 5, 15)] == [5, 15, 25]


def test_a_series_is_chosen_by_the_pods_name() -> None:
    chosen = {read_demand("trace web", f"web-{number}", TRACES).cores_at(0) for number in range(20)}
    assert chosen == {1.0, 5.0}


WRONG = [
    ("", "is empty; write cores"),
    ("much", "'much' is no number of cores"),
    ("-1", "'-1' is no number of cores"),
    ("nan", "'nan' is no number of cores"),
    ("1e9", "from 0 to 1e+06"),
    ("sometimes 3", "'sometimes' is no kind of demand"),
    ("phases", "phases has none"),
    ("phases 60s", "'60s' has no '='"),
    ("phases 10ms=1", "must be from 1 s"),
    ("phases soon=1", "'soon' is not a duration"),
    ("daily low=1", "daily needs high and peak"),
    ("daily low=4 high=1 peak=0", "low=4 is more than high=1"),
    ("daily low=1 high=2 peek=3h", "did you mean 'peak'?"),
    ("daily low=1 low=2 high=2 peak=3h", "low is given twice"),
    ("daily low=1 high=2 peak=3h noise=2", "noise=2 is no number from 0 to 1"),
    ("trace", "trace needs a name"),
    ("trace wob", "did you mean 'web'?"),
    ("trace web series=z", "trace web has no series 'z'"),
    ("1 " * 3000, "has 6000 characters"),
]


@pytest.mark.parametrize(("text", "complaint"), WRONG)
def test_what_cannot_be_read_is_said(text: str, complaint: str) -> None:
    with pytest.raises(InvalidDemand) as caught:
        read_demand(text, "p", TRACES)
    assert complaint in str(caught.value)
    assert read_quietly({CPU_DEMAND: text}, "p", TRACES) is None
    assert demand_problem({CPU_DEMAND: text}, "p", TRACES).startswith(f"annotation {CPU_DEMAND} is ignored: ")


DEMANDS = st.sampled_from(
    [
        "2.5",
        "phases 60s=1 2m=6",
        "phases repeat 7s=1 11s=0 13s=2",
        "daily low=1 high=3 peak=20h noise=0.2",
        "trace web series=a offset=3s",
        "trace web",
    ]
)


@given(DEMANDS, st.floats(0, 4e9), st.floats(0, 1))
def test_a_demand_is_constant_until_its_next_change(text: str, at: float, part: float) -> None:
    demand = read_demand(text, "p", TRACES)
    following = demand.next_change(at)
    assert following > at
    between = at + part * (min(following, at + 1e5) - at)
    if between < following - 1e-5:
        assert demand.cores_at(between) == demand.cores_at(at)
