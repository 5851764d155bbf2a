"""What is lent, when offline pods go, and how the best-effort ones are held: the formulas and what never happens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.volcano.lending import Lending, has_changed, sample, weighted_mean
from strato.agent.volcano.levels import ResourceNames, is_offline, qos_level, requested
from strato.agent.volcano.pressure import Pressure, Watermarks, is_relieved, victims, watermarks
from strato.agent.volcano.throttling import Throttle, next_available, quota_milli
from strato.api.core import Pod

NAMES = ResourceNames()
MARKS = {"cpu": Watermarks(high=80, low=30), "memory": Watermarks(high=60, low=30)}
BE = {"volcano.sh/qos-level": "BE"}


def pod(
    name: str, annotations: dict[str, str] | None = None, requests: dict[str, str] | None = None, **more: Any
) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations or {}}
    container = {"name": "main", "image": "i", "resources": {"requests": requests or {}}}
    spec = {"containers": [container], **more}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, Pod)


@pytest.mark.parametrize(
    ("annotation", "level"), [("LC", 2), ("HLS", 2), ("LS", 1), ("BE", -1), ("", 0), ("be", 0), (None, 0)]
)
def test_levels_are_those_of_the_annotation(annotation: str | None, level: int) -> None:
    one = pod("a", None if annotation is None else {"volcano.sh/qos-level": annotation})
    assert (qos_level(one), is_offline(one)) == (level, level < 0)


def test_a_part_of_what_is_left_is_lent() -> None:
    assert sample(4000, 1000, 60) == 1800
    assert sample(4000, 5000, 60) == 0, "never less than nothing"
    assert sample(4000, 1000, 150) == 4500


def test_the_newest_sample_counts_most() -> None:
    assert weighted_mean([100, 200, 400]) == (100 * 1 + 200 * 2 + 400 * 4) // 7
    assert weighted_mean([]) == 0
    lending = Lending()
    for amount in [10**6, *[500] * 10]:
        lending.note("cpu", amount)
    assert lending.offer(("cpu", "memory")) == {"cpu": 500, "memory": 0}, "ten are kept"
    assert lending.offer(("memory",)) == {"cpu": 0, "memory": 0}, "what is not to be lent"


def test_an_offer_is_published_when_it_differs_or_every_sixth_time() -> None:
    current = {"cpu": 1000, "memory": 0}
    assert [has_changed(*pair) for pair in ((1100, 1000), (1101, 1000), (899, 1000), (0, 0), (1, 0))] == [
        False, True, True, False, True
    ]  # fmt: skip
    lending = Lending()
    assert [lending.is_due({"cpu": 1000, "memory": 0}, current) for _ in range(12)] == ([False] * 5 + [True]) * 2
    assert lending.is_due({"cpu": 1200, "memory": 0}, current)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=30), st.floats(0, 1e13), st.integers(1, 300))
def test_never_is_less_than_nothing_lent_nor_more_than_the_largest_sample(
    totals: list[int], used: float, ratio: int
) -> None:
    lending = Lending()
    samples = [sample(total, used, ratio) for total in totals]
    for one in samples:
        lending.note("cpu", one)
    assert 0 <= min(samples[-10:]) <= lending.offer(("cpu",))["cpu"] <= max(samples[-10:])


@pytest.mark.parametrize(
    ("annotations", "cpu", "memory"),
    [
        pytest.param({}, (80, 30), (60, 30), id="none: the configuration's"),
        pytest.param(
            {"volcano.sh/evicting-cpu-high-watermark": "70"}, (70, 30), (60, 30), id="one, the others' defaults"
        ),
        pytest.param(
            {
                "volcano.sh/oversubscription-evicting-cpu-high-watermark": "50",
                "volcano.sh/oversubscription-evicting-memory-low-watermark": "10",
            },
            (50, 30),
            (60, 10),
            id="the older form",
        ),
        pytest.param(
            {
                "volcano.sh/evicting-cpu-high-watermark": "70",
                "volcano.sh/oversubscription-evicting-cpu-high-watermark": "50",
            },
            (70, 30),
            (60, 30),
            id="the newer form counts",
        ),
        pytest.param({"volcano.sh/evicting-cpu-high-watermark": "30"}, (90, 40), (60, 30), id="not above the low one"),
        pytest.param({"volcano.sh/evicting-cpu-high-watermark": "7O"}, (90, 40), (60, 30), id="no number"),
        pytest.param({"volcano.sh/evicting-cpu-low-watermark": "0"}, (90, 40), (60, 30), id="nothing is below 0"),
    ],
)
def test_watermarks_of_the_node_go_before(
    annotations: dict[str, str], cpu: tuple[int, int], memory: tuple[int, int]
) -> None:
    configured = {**MARKS, "cpu": Watermarks(high=90, low=40)} if cpu == (90, 40) else MARKS
    found = watermarks(configured, annotations)
    assert [(one.high, one.low) for one in (found["cpu"], found["memory"])] == [cpu, memory]


def test_pressure_is_six_rounds_running_above_the_high_watermark() -> None:
    pressure = Pressure()
    rounds = [{"cpu": 80.0, "memory": 10.0}] * 5 + [{"cpu": 79.9, "memory": 10.0}] + [{"cpu": 95.0, "memory": 60.0}] * 7
    found = [pressure.step(percents, MARKS) for percents in rounds]
    assert found == [[]] * 11 + [["cpu", "memory"]] * 2
    pressure.reset()
    assert pressure.step({"cpu": 99.0}, MARKS) == []
    assert is_relieved({"cpu": 30.0, "memory": 30.0}, MARKS)
    assert not is_relieved({"cpu": 30.0, "memory": 30.1}, MARKS)
    assert not is_relieved({"cpu": 1.0}, MARKS), "what was not measured is not low"


def test_the_offline_pod_that_asks_for_most_goes_first_and_no_other_ever() -> None:
    pods = [
        pod("online", None, {"cpu": "8"}),
        pod("latency", {"volcano.sh/qos-level": "LC"}, {"cpu": "8"}),
        pod("small", BE, {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "2Gi"}),
        pod("large", BE, {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "1Gi"}),
        pod("own", BE, {"cpu": "1"}),
        pod("critical", BE, {"cpu": "9"}, priority=2_000_000_000),
        pod("class", BE, {"cpu": "9"}, priorityClassName="system-node-critical"),
        pod("static", {**BE, "kubernetes.io/config.source": "file"}, {"cpu": "9"}),
    ]
    assert [one.metadata.name for one in victims(pods, "cpu", NAMES)] == ["large", "own", "small"]
    assert [one.metadata.name for one in victims(pods, "memory", NAMES)] == ["small", "large", "own"]
    assert requested(pods[3], "cpu", NAMES) == 3000
    assert requested(pods[4], "cpu", NAMES) == 1000


LEVELS = st.sampled_from(["LC", "HLS", "LS", "BE", "", "other"])


@given(st.lists(st.tuples(LEVELS, st.integers(0, 2_000_001_000), st.integers(0, 10**6)), max_size=8))
def test_none_that_is_online_or_critical_is_ever_a_victim(rows: list[tuple[str, int, int]]) -> None:
    pods = [
        pod(str(index), {"volcano.sh/qos-level": level}, {"cpu": f"{milli}m"}, priority=priority)
        for index, (level, priority, milli) in enumerate(rows)
    ]
    found = victims(pods, "cpu", NAMES)
    assert all(qos_level(one) < 0 and (one.spec.priority or 0) < 2_000_000_000 for one in found)
    asked = [requested(one, "cpu", NAMES) for one in found]
    assert asked == sorted(asked, reverse=True)


@pytest.mark.parametrize(
    ("used", "last", "want"),
    [
        pytest.param(2000, -1, 4400, id="the first time: all that is left of 80 %"),
        pytest.param(9000, -1, 0, id="nothing is left"),
        pytest.param(2000, 1000, 1100, id="it grows by a tenth of the last"),
        pytest.param(6000, 4400, 400, id="and shrinks at once"),
        pytest.param(2000, 4400, None, id="the same"),
        pytest.param(2040, 4400, None, id="less than a hundredth off"),
        pytest.param(2044, 4400, 4356, id="a hundredth off"),
        pytest.param(9000, 0, None, id="still nothing"),
        pytest.param(2000, 0, 4400, id="something after nothing"),
    ],
)
def test_best_effort_pods_get_what_is_left_of_the_threshold(used: float, last: int, want: int | None) -> None:
    assert next_available(8000, used, last, Throttle()) == want


@given(st.integers(0, 10**6), st.floats(0, 1e6), st.integers(-1, 10**6), st.integers(1, 100), st.integers(1, 50))
def test_the_quota_never_exceeds_what_is_left_and_is_one_the_kernel_takes(
    total: int, used: float, last: int, threshold: int, recover: int
) -> None:
    lines = Throttle(threshold=threshold, recover=recover)
    found = next_available(total, used, last, lines)
    if found is not None:
        assert 0 <= found <= max(0.0, total * threshold / 100 - used)
        assert quota_milli(found) >= 10
        if 0 < last < found:
            assert found <= last + max(1, last * recover // 100)
