"""Resources of a node that are reserved for a system beside the scheduler, by an annotation.

The interface of another system (Mesos' offers) promises resources before there are pods for them. The scheduler's cache
subtracts the annotated amounts from the node. The annotation outlives a crash of the component that wrote it, which
corrects it at its next start.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.core import Node
from strato.api.quantity import InvalidQuantity, parse
from strato.decoding import UNDECODABLE

HELD_ROOM = "strato.dev/held-room"
"""Node annotation: a resource list as JSON, such as ``{"cpu": "2", "memory": "1Gi"}``."""
_decoder = msgspec.json.Decoder(dict[str, str])


def held_room(node: Node) -> Mapping[str, str]:
    """Return the reserved amounts of a node; an invalid annotation reserves nothing, negative amounts are ignored."""
    text = node.metadata.annotation(HELD_ROOM)
    if not text:
        return {}
    try:
        return {name: amount for name, amount in _decoder.decode(text).items() if parse(amount).nanos > 0}
    except (*UNDECODABLE, InvalidQuantity):
        return {}
