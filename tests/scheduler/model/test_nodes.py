"""The table of nodes: what has to be looked at again."""

from __future__ import annotations

import msgspec

from strato.api.storage import TopologySelectorTerm
from tests.scheduler import worlds


def test_nodes_that_are_marked_are_looked_at_again_and_no_others() -> None:
    nodes = worlds.world(*(worlds.node(name) for name in "abc")).nodes
    seen = nodes.object_clock
    nodes.mark_changed(["b", "gone"])
    again = [name for name, row in nodes.row_of.items() if nodes.changed_at[row] > seen]
    assert again == ["b"]
    seen = nodes.object_clock
    nodes.mark_changed(["gone"])
    assert nodes.object_clock == seen


def test_nodes_that_come_later_are_in_topologies_too() -> None:
    world = worlds.world(worlds.node("a", labels={"zone": "z"}), worlds.node("b", labels={"zone": "y"}))
    terms = msgspec.convert([{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}], list[TopologySelectorTerm])
    assert world.labels.in_topology(terms).tolist() == [True, False]
    worlds.feed(world, worlds.node("c", labels={"zone": "z"}), worlds.node("b", labels={"zone": "z"}))
    assert world.labels.in_topology(terms).tolist() == [True, True, True]
    assert world.labels.in_topology([]).tolist() == [True, True, True]
