"""The Node objects of simulated machines, and the columns that a run's record keeps of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from strato.api import quantity
from strato.api.core import Node
from strato.node.hollow.nodes import facts_of
from strato.node.registration import node_body
from strato.node.shapes import NodeShape
from strato.sim.cluster import named_offers
from strato.sim.results.record import NodeColumns


def node_objects(shapes: Sequence[NodeShape], now: float) -> list[Node]:
    """Return the Node objects that hollow nodes of these shapes would register, sorted by name."""
    bodies = (
        node_body(facts_of(name, index, offer), now) for index, (name, offer) in enumerate(named_offers(shapes).items())
    )
    return sorted((msgspec.convert(body, Node) for body in bodies), key=lambda node: node.metadata.name)


def columns_of(nodes: Sequence[Node]) -> NodeColumns:
    """Return names, capacities and labels of nodes as a record's columns, in the order of the nodes."""
    resources = sorted({name for node in nodes for name in node.status.allocatable})
    return NodeColumns(
        names=tuple(node.metadata.name for node in nodes),
        capacity={
            name: np.array([_amount(name, node.status.allocatable.get(name, "0")) for node in nodes], np.int64)
            for name in resources
        },
        labels=tuple(node.metadata.labels or {} for node in nodes),
    )


def _amount(name: str, text: str | float) -> int:
    return quantity.milli(str(text)) if name == "cpu" else quantity.value(str(text))
