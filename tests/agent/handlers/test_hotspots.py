"""What hot spots lead to, reading after reading."""

from __future__ import annotations

from random import Random

import pytest

from strato.agent.events import HOTSPOT_CLEARED, ActionKind, HostEvent
from strato.agent.handlers.hotspots import Hotspots

HOUR_READINGS = 720
"""One each five seconds."""


def actions(memory: list[float]) -> list[tuple[int, ActionKind]]:
    """Return what a new agent does to the node: at which second, and what."""
    handler, found = Hotspots(Hotspots.defaults, Random(1)), []
    for place, value in enumerate(memory):
        event = HostEvent(at=1000.0 + 5 * place, capacity_cores=4, cpu=0.1, memory=value)
        found += [(5 * place, one.kind) for one in handler.on_host(event) if one.kind in _OF_NODES]
    return found


_OF_NODES = (ActionKind.CORDON, ActionKind.UNCORDON)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param([0.5] * HOUR_READINGS, [(300, ActionKind.UNCORDON)], id="cool from the beginning"),
        pytest.param([0.85] * HOUR_READINGS, [], id="between the lines"),
        pytest.param([0.85] * 20 + [0.5] * 100, [(400, ActionKind.UNCORDON)], id="cool later"),
        pytest.param(([0.5] * 30 + [0.85]) * 20, [], id="never cool for long enough"),
    ],
)
def test_a_node_that_an_agent_before_cordoned_is_opened_once_memory_is_cool(
    memory: list[float], expected: list[tuple[int, ActionKind]]
) -> None:
    assert actions(memory) == expected


def test_a_node_is_closed_while_memory_is_hot_and_opened_once() -> None:
    found = actions([0.95] * 20 + [0.5] * HOUR_READINGS)
    assert [second for second, kind in found if kind is ActionKind.UNCORDON] == [400]
    assert {second for second, kind in found if kind is ActionKind.CORDON} == set(range(10, 400, 5))


@pytest.mark.parametrize(
    ("cpu", "hot", "cleared"),
    [
        pytest.param([0.89] * 20, [], [], id="below the line"),
        pytest.param([0.9] * 3, [], [], id="at the line, not for long enough"),
        pytest.param([0.9] * 4, [15], [], id="at the line for long enough"),
        pytest.param([0.9] * 3 + [0.89] + [0.9] * 3, [], [], id="with a break"),
        pytest.param([0.95] * 4 + [0.5] * 20, [*range(15, 80, 5)], [(80, "cpu is down to 50%")], id="cooled down"),
        pytest.param([0.95] * 4 + [0.8] * 20, [*range(15, 120, 5)], [], id="at the lower line it stays hot"),
    ],
)
def test_processors_are_hot_at_the_line_and_that_they_cooled_down_is_reported_once(
    cpu: list[float], hot: list[int], cleared: list[tuple[int, str]]
) -> None:
    handler = Hotspots(Hotspots.defaults, Random(1))
    calls, events = [], []
    for place, value in enumerate(cpu):
        event = HostEvent(at=1000.0 + 5 * place, capacity_cores=4, cpu=value, memory=0.5)
        found = handler.on_host(event)
        calls += [5 * place for one in found if one.kind is ActionKind.TRAFFIC and one.value is not None]
        events += [(5 * place, one.message) for one in found if one.reason == HOTSPOT_CLEARED]
    assert (calls, events) == (hot, cleared)
