"""Amounts as the vertical autoscaler computes with them: whole, truncated, never below nothing."""

from __future__ import annotations

import math

import pytest

from strato.advice.estimators import Amounts, container_minimum, truncated

LARGEST = 10**14


@pytest.mark.parametrize(
    ("amount", "whole"),
    [
        (0.0, 0),
        (-1.0, 0),
        (0.99, 0),
        (1.0, 1),
        (1.99, 1),
        (float(LARGEST), LARGEST),
        (math.inf, LARGEST),
        (math.nan, 0),
    ],
)
def test_amounts_are_whole_and_there(amount: float, whole: int) -> None:
    assert truncated(amount) == whole


@pytest.mark.parametrize(
    ("one", "other", "larger"),
    [((5, 1), (2, 7), (5, 7)), ((2, 7), (5, 1), (5, 7)), ((3, 3), (3, 3), (3, 3)), ((0, 9), (1, 8), (1, 9))],
)
def test_at_least_is_the_larger_of_each(one: tuple[int, int], other: tuple[int, int], larger: tuple[int, int]) -> None:
    assert Amounts(*one).at_least(Amounts(*other)) == Amounts(*larger)


def test_a_margin_is_truncated_by_itself() -> None:
    assert Amounts(19, 1003).with_margin(0.15) == Amounts(19 + 2, 1003 + 150)
    assert Amounts(19, 1003).with_margin(0.0) == Amounts(19, 1003)
    assert Amounts(19, 1003).scaled(0.5) == Amounts(9, 501)


def test_little_confidence_widens_an_estimate_and_none_has_no_end() -> None:
    assert Amounts(100, 1000).with_confidence(1.0, 1.0, 1.0) == Amounts(200, 2000)
    assert Amounts(100, 1000).with_confidence(0.5, 1.0, 1.0) == Amounts(300, 3000)
    assert Amounts(100, 1000).with_confidence(1.0, 1.0, -1.0) == Amounts(50, 500)
    assert Amounts(1, 1).with_confidence(0.0, 1.0, 1.0) == Amounts(LARGEST, LARGEST)
    assert Amounts(1, 1).with_confidence(0.0, 1.0, -2.0) == Amounts(0, 0)


def test_containers_share_what_a_pod_gets_at_least() -> None:
    assert container_minimum(Amounts(25, 250), 1) == Amounts(25, 250)
    assert container_minimum(Amounts(25, 250), 2) == Amounts(12, 125)
