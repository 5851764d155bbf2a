"""Room of a node that is held for a system beside the scheduler: an annotation, which the scheduler's cache subtracts.

A front door of another system (Mesos' offers) promises room before there are pods that ask for it. While the annotation
stands nobody else gets that room; it outlives a crash of who wrote it, whose next start corrects it.
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
    """Return what is held; an annotation that cannot be read holds nothing, and none gives room."""
    text = node.metadata.annotation(HELD_ROOM)
    if not text:
        return {}
    try:
        return {name: amount for name, amount in _decoder.decode(text).items() if parse(amount).nanos > 0}
    except (*UNDECODABLE, InvalidQuantity):
        return {}
