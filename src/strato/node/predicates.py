"""Whether a pod finds room beside the others of its node. Pure.

Named after what a kubelet asks before it starts a pod; the texts are its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from strato.api.core import PodSpec
from strato.api.pods import effective_requests
from strato.api.quantity import Quantity, milli, parse, value
from strato.api.usage import add

_ASKED = ("pods", "cpu", "memory", "ephemeral-storage")
"""In the order in which shortages are told. Devices have a pool of their own."""


class Insufficient(NamedTuple):
    """What a node has too little of: cpu in thousandths, everything else in whole units."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def is_never(self) -> bool:
        """Whether the node would have too little also without its other pods."""
        return self.requested > self.capacity

    def __str__(self) -> str:
        amounts = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return f"Node didn't have enough resource: {self.resource}, {amounts}"


def insufficient(
    wanted: PodSpec,
    others: Iterable[PodSpec],
    allocatable: Mapping[str, str],
    resources: Collection[str] = _ASKED,
) -> list[Insufficient]:
    """Return what a node has too little of for one more pod.

    Args:
        wanted: The pod.
        others: What the node has given its other pods.
        allocatable: What it has for all of them.
        resources: Which are looked at; no others than those of this default.
    """
    one = Quantity(10**9)
    requests, used = {**effective_requests(wanted), "pods": one}, dict.fromkeys(_ASKED, Quantity(0))
    for spec in others:
        add(used, {name: amount for name, amount in effective_requests(spec).items() if name in used})
        add(used, {"pods": one})
    found = []
    for name in (one for one in _ASKED if one in resources and one in requests):
        most, request = parse(allocatable.get(name, "0")), requests[name]
        if request and used[name] + request > most:
            count = milli if name == "cpu" else value
            found.append(Insufficient(name, *(count(str(amount)) for amount in (request, used[name], most))))
    return found
