"""What samples say of the host and its containers, and what counts as too long between two."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strato.agent.sampling.layouts import ControlGroup
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


@pytest.mark.parametrize(
    ("before", "after", "used", "throttled"),
    [
        pytest.param((0, 0, 0), (0, 0, 0), 0.0, 0.0, id="nothing at all"),
        pytest.param((0, 0, 0), (250_000, 10, 4), 0.25, 0.4, id="a part of a CPU, throttled in four periods of ten"),
        pytest.param((0, 5, 5), (250_000, 5, 5), 0.25, 0.0, id="no period has passed"),
        pytest.param((0, 0, 5), (250_000, 10, 4), 0.25, 0.0, id="fewer throttled periods than before"),
        pytest.param((500_000, 0, 0), (250_000, 10, 4), None, 0.0, id="started again: it has used less"),
        pytest.param((0, 20, 0), (250_000, 10, 4), None, 0.0, id="started again: fewer periods have passed"),
    ],
)
def test_what_a_container_used_between_two_samples(
    tmp_path: Path, before: tuple[int, int, int], after: tuple[int, int, int], used: float | None, throttled: float
) -> None:
    sampler = Sampler(2, 1.0, str(tmp_path), str(tmp_path))
    group = ControlGroup(str(tmp_path), str(tmp_path), str(tmp_path), is_unified=True)
    for at, (usage, periods, count) in ((10.0, before), (11.0, after)):
        text = f"usage_usec {usage}\nnr_periods {periods}\nnr_throttled {count}\n"
        (tmp_path / "cpu.stat").write_text(text)
        sampler.sample(at, {"a": group})
    known = sampler.containers["a"]
    assert known.cpu.mean_since(0) == (used if used is None else pytest.approx(used))
    assert known.throttled_ratio == pytest.approx(throttled)
    sampler.sample(12.0, {})
    assert sampler.containers == {}


def test_traffic_is_the_used_part_of_the_busiest_physical_link(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    for name, speed in (("eth0", "1000"), ("eth1", "100"), ("veth0", "-1")):
        (tmp_path / "class/net" / name).mkdir(parents=True)
        (tmp_path / "class/net" / name / "speed").write_text(speed)
    sampler = Sampler(2, 1.0, str(tmp_path), str(tmp_path))
    start = {"eth0": (10**9, 2 * 10**9), "eth1": (0, 0), "veth0": (0, 0), "lo": (0, 0)}
    # in 10 s a link of 1000 Mbit/s carries 1.25e9 bytes at most, and one of 100 Mbit/s 1.25e8
    later = {"eth0": (10**9 + 125_000_000, 2 * 10**9 + 625_000_000), "eth1": (100_000_000, 0), "veth0": (10**9, 10**9)}
    for at, carried in ((10.0, start), (20.0, start | later)):
        lines = [f"{name}: {got} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0" for name, (got, sent) in carried.items()]
        (tmp_path / "net/dev").write_text("\n".join(["head", "head", *lines]))
        sampler.sample_slowly(at)
    assert sampler.host.receive.mean_since(15.0) == pytest.approx(0.8)
    assert sampler.host.send.mean_since(15.0) == pytest.approx(0.5)
