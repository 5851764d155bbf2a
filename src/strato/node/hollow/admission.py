"""What hollow nodes have given their pods, and whether one more may start: a kubelet's admission.

Each node has a running sum, so that a pod costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from strato.api.core import Node, Pod
from strato.api.shapes import EMPTY, ResourceList
from strato.node.hollow.heldpod import HollowPod
from strato.node.predicates import Claims, Refusal, Room, amounts_of, refusal
from strato.node.registration import NodeFacts, first_published


class _NodeRoom(Room):
    """Of a hollow node, with what it has for its pods as of when it was last looked at."""

    __slots__ = ("allocatable", "source")

    def __init__(self) -> None:
        super().__init__()
        self.source: ResourceList = EMPTY
        self.allocatable: Mapping[str, int] = {}


class HollowAdmission:
    """See the module.

    Args:
        facts: Of the nodes, by name.
        node_of: Returns a node as the API has it; None where that is not known.
    """

    def __init__(self, facts: Mapping[str, NodeFacts], node_of: Callable[[str], Node | None]) -> None:
        self._facts = facts
        self._node_of = node_of
        self._rooms: dict[str, _NodeRoom] = {}
        self._claims = Claims()
        self._published: dict[str, ResourceList] = {}
        """What nodes offer of which the API has nothing."""

    def refusal(self, pod: Pod) -> Refusal | None:
        """Return why its node does not start a pod that is new there, None when it does."""
        spec = pod.spec
        node, room = self._node_of(spec.node_name), self._room(spec.node_name)
        source = node.status.allocatable if node is not None else self._facts_of(spec.node_name)
        if source is not room.source:
            room.source, room.allocatable = source, amounts_of(source)
        return refusal(spec, self._claims.of(spec), room, room.allocatable, node)

    def take(self, held: HollowPod) -> None:
        """Give a pod what it claims, also what it claims since it has changed."""
        claim = self._claims.of(held.pod.spec)
        if claim is not held.claim:
            self.give_back(held)
            held.claim = claim
            self._room(held.node).take(claim)

    def give_back(self, held: HollowPod) -> None:
        """Take back what a pod was given, if anything."""
        if held.claim is not None:
            self._rooms[held.node].give_back(held.claim)
            held.claim = None

    def _room(self, node: str) -> _NodeRoom:
        room = self._rooms.get(node)
        if room is None:
            room = self._rooms[node] = _NodeRoom()
        return room

    def _facts_of(self, node: str) -> ResourceList:
        known = self._published.get(node)
        if known is None:
            known = self._published[node] = first_published(self._facts[node]).allocatable
        return known


def in_order(pods: Iterable[Pod]) -> Sequence[Pod]:
    """Return pods that become known together in the order in which they are admitted: those that ran before come first.

    Those keep what they have, so that it does not matter when a node is started anew; the others come by age.
    """
    ran: list[Pod] = []
    new: list[Pod] = []
    for pod in pods:
        (new if pod.status.start_time is None else ran).append(pod)
    new.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.namespace, pod.metadata.name))
    return [*ran, *new]
