"""What counts as too long between two samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strato.agent.sampling.sampler import Sampler

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("interval", "gap", "is_too_long"),
    [
        pytest.param(1.0, 3.0, False, id="three intervals"),
        pytest.param(1.0, 3.1, True, id="more than three"),
        pytest.param(5.0, 15.0, False, id="three long intervals"),
        pytest.param(0.25, 2.0, False, id="an agent that waits for a CPU itself still decides"),
        pytest.param(0.25, 3.1, True, id="but not on what is older than that"),
    ],
)
def test_what_was_measured_over_too_long_says_nothing(
    tmp_path: Path, interval: float, gap: float, is_too_long: bool
) -> None:
    sampler = Sampler(2, interval, str(tmp_path), str(tmp_path))
    for at in (10.0, 10.0 + gap):
        (tmp_path / "stat").write_text(f"cpu {round(at * TICKS)} 0 0 0 0 0 0 0\n")
        sampler.sample(at, {})
    assert sampler.has_gap is is_too_long
    assert sampler.host.cpu.mean_since(0) == (None if is_too_long else pytest.approx(0.5))
