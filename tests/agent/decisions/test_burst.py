"""Bursts, hot spots, weights and merging: a table each, and what holds for every host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.decisions.burst import BurstMemory, BurstOptions, choose_bursts
from strato.agent.decisions.hotspots import CPU, MEMORY, HotspotState, after_cut, next_state
from strato.agent.decisions.merging import merge
from strato.agent.decisions.traffic import ServingPod, choose_weights, regain
from strato.agent.events import (
    BURST,
    RESTORED,
    SUPPRESSED,
    Action,
    ActionKind,
    ContainerEvent,
    Level,
    Workload,
)

OPTIONS = BurstOptions()
ONLINE = ContainerEvent(
    at=0, pod_uid="web", workload=Workload.ONLINE, used_cores=1.0, base_milli=1000, limit_milli=1000
)


def memory(one: ContainerEvent, *, rounds: int = 3, options: BurstOptions = OPTIONS) -> BurstMemory:
    found = BurstMemory()
    for _ in range(rounds):
        found.note(one, options)
    return found


def quota_of(one: ContainerEvent, cpu: float, *, rounds: int = 3, options: BurstOptions = OPTIONS) -> int | None:
    pairs = [(one, memory(one, rounds=rounds, options=options))]
    return choose_bursts(10, cpu, pairs, options).get(one.key)


BURSTING = replace(ONLINE, limit_milli=2000, used_cores=1.95)
TRAINING = replace(ONLINE, workload=Workload.TRAINING)
BURSTS = [
    pytest.param(ONLINE, 0.5, 3, OPTIONS, 1200, id="one that is held back gets a step"),
    pytest.param(ONLINE, 0.5, 1, OPTIONS, None, id="once is not enough"),
    pytest.param(ONLINE, 0.8, 3, OPTIONS, None, id="not at the alarm line"),
    pytest.param(ONLINE, 0.795, 3, OPTIONS, 1050, id="no more than there is room for"),
    pytest.param(replace(ONLINE, limit_milli=2900, used_cores=2.9), 0.1, 3, OPTIONS, 3000, id="up to the maximum"),
    pytest.param(replace(ONLINE, used_cores=0.5), 0.5, 3, OPTIONS, None, id="one that has enough gets nothing"),
    pytest.param(BURSTING, 0.95, 3, OPTIONS, 1600, id="an overloaded host takes it back"),
    pytest.param(replace(BURSTING, used_cores=0.3), 0.5, 12, OPTIONS, 1600, id="who no longer needs it gives it back"),
    pytest.param(TRAINING, 0.5, 3, OPTIONS, None, id="training does not burst"),
    pytest.param(TRAINING, 0.5, 3, BurstOptions(training=True), 1200, id="unless it may"),
    pytest.param(TRAINING, 0.75, 3, BurstOptions(training=True), None, id="and stops earlier"),
    pytest.param(replace(ONLINE, base_milli=None, limit_milli=None), 0.5, 3, OPTIONS, None, id="no limit, no burst"),
]


@pytest.mark.parametrize(("one", "cpu", "rounds", "options", "want"), BURSTS)
def test_bursts(one: ContainerEvent, cpu: float, rounds: int, options: BurstOptions, want: int | None) -> None:
    assert quota_of(one, cpu, rounds=rounds, options=options) == want


IDLE = replace(BURSTING, used_cores=0.59)
NOT_IDLE = replace(BURSTING, used_cores=0.6)
STEPS_DOWN = [
    pytest.param([IDLE] * 11, None, id="one idle round too few"),
    pytest.param([IDLE] * 12, 1600, id="enough"),
    pytest.param([IDLE] * 11 + [NOT_IDLE] + [IDLE] * 11, None, id="a round that is not idle starts the count anew"),
    pytest.param([IDLE] * 11 + [NOT_IDLE] + [IDLE] * 12, 1600, id="enough after that"),
    pytest.param([NOT_IDLE] * 12, None, id="at the line it is not idle"),
    pytest.param([replace(IDLE, base_milli=1900, used_cores=0.1)] * 12, 1900, id="never below its own limit"),
]


def test_a_container_without_a_limit_of_its_own_is_never_idle() -> None:
    found = memory(replace(ONLINE, base_milli=None, used_cores=0.0))
    assert found.idle_rounds == 0


@pytest.mark.parametrize(("rounds", "want"), STEPS_DOWN)
def test_a_burst_ends_after_idle_rounds_without_a_break(rounds: list[ContainerEvent], want: int | None) -> None:
    found = BurstMemory()
    for one in rounds:
        found.note(one, OPTIONS)
    assert choose_bursts(10, 0.5, [(rounds[-1], found)], OPTIONS).get(ONLINE.key) == want


HELD, FREE = replace(ONLINE, used_cores=0.9), replace(ONLINE, used_cores=0.89)
THROTTLED = replace(FREE, throttled_ratio=0.01)
HELD_BACK = [
    pytest.param([], False, id="no round yet"),
    pytest.param([HELD], False, id="one round"),
    pytest.param([HELD, HELD], True, id="two rounds at the line"),
    pytest.param([THROTTLED, THROTTLED], True, id="two rounds throttled"),
    pytest.param([HELD, FREE, THROTTLED], True, id="two of three"),
    pytest.param([HELD, FREE, FREE, HELD], False, id="the first of four is forgotten"),
    pytest.param([FREE] * 3, False, id="below the line"),
]


@pytest.mark.parametrize(("rounds", "want"), HELD_BACK)
def test_a_container_is_held_back_in_two_of_three_rounds(rounds: list[ContainerEvent], want: bool) -> None:
    found = BurstMemory()
    for one in rounds:
        found.note(one, OPTIONS)
    assert found.is_held_back is want


@given(st.lists(st.tuples(st.floats(0, 8), st.integers(100, 4000)), max_size=30), st.floats(0, 1))
def test_bursts_never_take_more_than_the_room(uses: list[tuple[float, int]], cpu: float) -> None:
    pairs = []
    for number, (used, base) in enumerate(uses):
        one = replace(ONLINE, pod_uid=str(number), used_cores=used, base_milli=base, limit_milli=base)
        pairs.append((one, memory(one)))
    quotas = choose_bursts(32, cpu, pairs, OPTIONS)
    grown = sum(quotas[one.key] - (one.limit_milli or 0) for one, _ in pairs if one.key in quotas)
    assert grown <= max(0.0, (OPTIONS.alarm - cpu) * 32 * 1000) + 1e-6
    assert all(quotas[one.key] <= 3 * (one.base_milli or 0) for one, _ in pairs if one.key in quotas)


def chosen(pairs: list[ContainerEvent], capacity_cores: float, cpu: float, options: BurstOptions) -> list[str]:
    return list(choose_bursts(capacity_cores, cpu, [(one, memory(one)) for one in pairs], options))


EITHER = BurstOptions(training=True, training_margin=0.0)
ORDERS = [
    pytest.param({"workload": Workload.TRAINING, "priority": 9}, {}, id="online before training"),
    pytest.param({"priority": 1}, {"priority": 2}, id="the higher priority"),
    pytest.param({"throttled_ratio": 0.1}, {"throttled_ratio": 0.2}, id="the more throttled"),
    pytest.param({"throttled_ratio": 0.9}, {"priority": 1}, id="priority before throttling"),
    pytest.param({"container": "z"}, {"container": "a"}, id="the name"),
]


@pytest.mark.parametrize(("later", "first"), ORDERS)
def test_who_gets_the_room_that_is_enough_for_one(later: dict[str, Any], first: dict[str, Any]) -> None:
    last, one = replace(ONLINE, pod_uid="a", **later), replace(ONLINE, pod_uid="a", **{"container": "m"} | first)
    for pairs in ([last, one], [one, last]):
        assert chosen(pairs, 10, 0.785, EITHER) == [one.key]


GIVING = [
    pytest.param({"priority": 2}, {"priority": 1}, id="the lower priority"),
    pytest.param({"used_cores": 1.94}, {}, id="who uses more"),
    pytest.param({"priority": 1, "used_cores": 1.99}, {}, id="priority before use"),
    pytest.param({"container": "z"}, {"container": "a"}, id="the name"),
]


@pytest.mark.parametrize(("kept", "gives"), GIVING)
def test_who_gives_a_burst_back_when_one_is_enough(kept: dict[str, Any], gives: dict[str, Any]) -> None:
    keeps, one = replace(BURSTING, pod_uid="a", **kept), replace(BURSTING, pod_uid="a", **{"container": "m"} | gives)
    for pairs in ([keeps, one], [one, keeps]):
        assert chosen(pairs, 1, 0.9, OPTIONS) == [one.key]


def test_a_hot_spot_lasts_until_it_has_been_cool_for_long_enough() -> None:
    state = HotspotState()
    levels = {}
    for second in range(400):
        value = 0.95 if second < 60 else 0.5
        state = next_state(state, value, float(second), MEMORY)
        levels[second] = state.level
    assert levels[9] is Level.WARN
    assert levels[10] is Level.HOT
    assert levels[359] is Level.HOT
    assert levels[360] is Level.OK
    cut = after_cut(next_state(HotspotState(), 0.95, 0.0, CPU), 10.0)
    assert next_state(cut, 0.95, 15.0, CPU).level is Level.WARN, "the cut may help yet"
    assert next_state(cut, 0.95, 25.0, CPU).level is Level.HOT


def test_the_lowest_priority_loses_traffic_first() -> None:
    pods = [ServingPod(uid="low", priority=0, used_cores=2), ServingPod(uid="high", priority=9, used_cores=2)]
    assert choose_weights(0.4, pods) == {"low": 80}
    assert choose_weights(4, pods) == {"low": 70}, "30 points in one call, and no other priority yet"
    exhausted = [replace(pods[0], weight_percent=10), pods[1]]
    assert choose_weights(4, exhausted) == {"high": 70}
    assert regain({"low": 70, "high": 90}) == {"low": 90, "high": 100}


def test_of_one_container_the_lowest_quota_wins_and_suppression_before_burst() -> None:
    def quota(value: int, reason: str) -> Action:
        return Action(kind=ActionKind.SET_QUOTA, target="c", value=value, reason=reason)

    assert merge([quota(500, BURST), quota(3000, SUPPRESSED), quota(2500, SUPPRESSED)]) == [quota(2500, SUPPRESSED)]
    cleared = Action(kind=ActionKind.CLEAR, target="c", reason=RESTORED)
    assert merge([quota(500, BURST), cleared]) == [cleared]
