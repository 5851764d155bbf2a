from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import quantity
from strato.api.quantity import InvalidQuantity, Quantity, canonical, milli, parse, value

TABLE = [
    # text, canonical, value, milli
    ("1", "1", 1, 1000),
    ("1.5", "1500m", 2, 1500),
    ("100m", "100m", 1, 100),
    ("1024Mi", "1Gi", 1 << 30, (1 << 30) * 1000),
    ("1.5Gi", "1536Mi", 1610612736, 1610612736000),
    ("0.1Gi", "107374182400m", 107374183, 107374182400),
    ("1023", "1023", 1023, 1023000),
    ("2000", "2k", 2000, 2000000),
    ("12e6", "12e6", 12000000, 12000000000),
    ("1e-3", "1e-3", 1, 1),
    (".5", "500m", 1, 500),
    ("1E", "1E", 10**18, quantity.INT64_MAX),
    ("1E3", "1e3", 1000, 1000000),
    ("0.1n", "1n", 1, 1),
    ("-1.5", "-1500m", -2, -1500),
    ("+1", "1", 1, 1000),
    ("0", "0", 0, 0),
    ("512Ki", "512Ki", 524288, 524288000),
    (4, "4", 4, 4000),
    (2.5, "2500m", 3, 2500),
]


@pytest.mark.parametrize(("text", "want", "whole", "thousandths"), TABLE)
def test_quantity_is_read_and_written_as_kubernetes_does(text: str, want: str, whole: int, thousandths: int) -> None:
    assert (canonical(text), value(text), milli(text)) == (want, whole, thousandths)


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1.2.3", "1 Gi", "1e", "Gi", "--1", "1e2k", "1e99999", True, None, "١"]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        parse(text)  # type: ignore[arg-type]  # that is the point


amounts = st.integers(min_value=-(10**15), max_value=10**15)
suffixes = st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"])


@given(amounts, suffixes)
def test_canonical_text_is_the_same_amount_and_stable(amount: int, suffix: str) -> None:
    first = parse(f"{amount}{suffix}")
    again = parse(first.canonical)
    assert again == first
    assert again.canonical == first.canonical


@given(amounts, amounts)
def test_arithmetic_is_exact(left: int, right: int) -> None:
    a, b = parse(f"{left}m"), parse(f"{right}u")
    total = a + b
    assert Fraction(total.nanos, 10**9) == Fraction(left, 1000) + Fraction(right, 10**6)
    assert total - b == a
    assert (a < b) == (Fraction(left, 1000) < Fraction(right, 10**6))
    assert isinstance(-a, Quantity)


@pytest.mark.parametrize("text", ["9" * 5000, "1e999999999", "0." + "1" * 100_000, "1e-" + "9" * 5000])
def test_numbers_beyond_all_measure_are_no_quantities(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        parse(text)
