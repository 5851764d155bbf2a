"""Durations between text and seconds."""

import pytest

from strato.units import duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90s", 90),
        ("1h30m", 5400),
        ("-2s", -2),
        ("+.5m", 30),
        ("1.s", 1),
        ("250ms", 0.25),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("2562047h", 2_562_047 * 3600),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "1", "s", ".s", "1h x", "--1s", "+-1s", "1s2", "٣s", "3e9s", "2562048h", "9" * 400 + "h", "9" * 5000 + "ns"],
)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_seconds(text)
