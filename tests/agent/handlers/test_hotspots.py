"""What hot spots lead to, reading after reading."""

from __future__ import annotations

from random import Random

import pytest

from strato.agent.events import ActionKind, HostEvent
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
