"""Room that another system holds of a node is nobody else's."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from strato.api.core import Node
from strato.api.heldroom import HELD_ROOM
from strato.scheduler.cache.world import World


def _allocatable(annotation: str | None) -> tuple[int, int]:
    world = World()
    node: dict[str, Any] = {
        "metadata": {"name": "n", "annotations": {} if annotation is None else {HELD_ROOM: annotation}},
        "status": {"allocatable": {"cpu": "4", "memory": "1Ki", "pods": "10"}},
    }
    world.set_node(msgspec.convert(node, Node))
    row = world.nodes.row_of["n"]
    return int(world.nodes.allocatable[row, 0]), int(world.nodes.allocatable[row, 1])


@pytest.mark.parametrize(
    ("held", "cpu", "memory"),
    [
        ({}, 4000, 1024),
        ({"cpu": "1500m"}, 2500, 1024),
        ({"cpu": "1", "memory": "24"}, 3000, 1000),
        ({"cpu": "9", "example.com/none": "1"}, 0, 1024),
    ],
)
def test_what_is_held_is_not_allocatable(held: dict[str, str], cpu: int, memory: int) -> None:
    assert _allocatable(json.dumps(held)) == (cpu, memory)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"cpu": "x"}', '{"cpu": 1}', '{"cpu": "-4"}', "[" * 9999])
def test_what_cannot_be_read_holds_nothing(text: str | None) -> None:
    assert _allocatable(text) == (4000, 1024)
