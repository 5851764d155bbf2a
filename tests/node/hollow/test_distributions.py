"""Distributions of times: what is read, what is drawn, what is refused."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.node.hollow.distributions import KINDS, BadDistribution, Draws, parse_distribution

EXAMPLES = {
    "30": (30.0, 30.0),
    "constant 30": (30.0, 30.0),
    "constant value=30": (30.0, 30.0),
    "uniform low=10 high=30": (20.0, 20.0),
    "exponential mean=60": (60.0, 60.0 * math.log(2)),
    "normal mean=60 stddev=5": (60.0, 60.0),
    "lognormal mean=60 sigma=1": (60.0, 60.0 * math.exp(-0.5)),
    "lognormal median=60 sigma=0.5": (60.0 * math.exp(0.125), 60.0),
    "weibull shape=2 scale=60": (60.0 * math.gamma(1.5), 60.0 * math.log(2) ** 0.5),
    "weibull shape=2 mean=60": (60.0, 60.0 / math.gamma(1.5) * math.log(2) ** 0.5),
    "empirical 1 5 5 30": (10.25, 5.0),
}
"""Text → mean and median."""


@pytest.mark.parametrize("text", EXAMPLES)
def test_draws_have_the_mean_and_the_median_of_the_distribution(text: str) -> None:
    mean, median = EXAMPLES[text]
    distribution = parse_distribution(text)
    drawn = [distribution.quantile((number + 0.5) / 20000) for number in range(20000)]
    assert statistics.fmean(drawn) == pytest.approx(mean, rel=0.02)
    assert distribution.quantile(0.5) == pytest.approx(median, rel=0.01)


@given(
    text=st.sampled_from([*EXAMPLES, "inf", "weibull shape=0.01 scale=1", "exponential mean=5 min=1 max=9"]),
    uid=st.text(),
)
def test_what_is_drawn_follows_from_the_text_alone_and_is_a_time(text: str, uid: str) -> None:
    first, again = (parse_distribution(text).draw(Draws(uid, 1)) for _ in range(2))
    assert first == again >= 0


@given(st.sampled_from([*EXAMPLES]), st.floats(1e-12, 1 - 1e-12), st.floats(1e-12, 1 - 1e-12))
def test_quantiles_rise(text: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    distribution = parse_distribution(text)
    assert distribution.quantile(low) <= distribution.quantile(high)


def test_bounds_cut_what_is_drawn() -> None:
    distribution = parse_distribution("lognormal mean=60 sigma=3 min=10 max=600")
    assert (distribution.quantile(1e-9), distribution.quantile(1 - 1e-9)) == (10, 600)


class NoNumbers:
    """Has no number to draw."""

    def random(self) -> float:
        raise AssertionError("a number is drawn")


@pytest.mark.parametrize("text", ["5", "inf", "constant 5", "uniform low=5 high=5", "normal mean=9 stddev=1 max=0"])
def test_of_the_only_seconds_there_are_no_number_is_drawn(text: str) -> None:
    distribution = parse_distribution(text)
    assert distribution.draw(NoNumbers()) == distribution.certain


def test_draws_are_spread_evenly() -> None:
    drawn = [Draws(f"uid-{number}", "run").random() for number in range(5000)]
    assert statistics.fmean(drawn) == pytest.approx(0.5, abs=0.02)
    assert all(0 < one < 1 for one in drawn)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "'' is no number of seconds", id="nothing"),
        pytest.param("soon", "'soon' is no number of seconds", id="a word"),
        pytest.param("-1", "'-1' is no number of seconds", id="less than no time"),
        pytest.param("nan", "'nan' is no number", id="not a number"),
        pytest.param("lognorm mean=1 sigma=1", "did you mean 'lognormal'", id="a name misspelt"),
        pytest.param("lognormal mean=60", "lognormal takes mean= sigma= or median= sigma=", id="a parameter missing"),
        pytest.param("uniform low=9 high=1", "low=9 is above high=1", id="bounds that cross"),
        pytest.param("exponential mean=x", "'x' is no number", id="a parameter that is none"),
        pytest.param("exponential mean=1 min=5 max=2", "min=5 is above max=2", id="least above most"),
        pytest.param("empirical", "takes a list", id="a list of nothing"),
        pytest.param("weibull shape=0 scale=1", "shape is not above zero", id="a shape of zero"),
        pytest.param("weibull shape=0.001 mean=1", "too small for a mean", id="a shape without a mean"),
        pytest.param("empirical " + "1 " * 4000, "more than 4096 characters", id="a list without end"),
    ],
)
def test_what_is_no_distribution_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadDistribution) as refused:
        parse_distribution(text)
    assert problem in str(refused.value)


def test_every_kind_is_named() -> None:
    assert {text.split()[0] for text in EXAMPLES} - {"30"} == set(KINDS)
