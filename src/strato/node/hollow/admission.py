"""A kubelet's admission on hollow nodes: the resources that a node has given its pods, and whether one more may start.

Each node keeps running sums, so that admitting a pod costs the same however many pods there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from strato.api.core import Node, Pod
from strato.api.shapes import EMPTY, ResourceList
from strato.node.hollow.heldpod import HollowPod
from strato.node.predicates import Claims, NodeCommitments, PodRejection, amounts_of, refusal
from strato.node.registration import NodeFacts, first_published


class _NodeRoom(NodeCommitments):
    """The room of a hollow node, with the node's allocatable amounts as last read."""

    __slots__ = ("allocatable", "source")

    def __init__(self) -> None:
        super().__init__()
        self.source: ResourceList = EMPTY
        self.allocatable: Mapping[str, int] = {}


class HollowAdmission:
    """See the module.

    Args:
        facts: Facts of the nodes, by name.
        node_of: Returns a node from the API; None where it is not known.
    """

    def __init__(self, facts: Mapping[str, NodeFacts], node_of: Callable[[str], Node | None]) -> None:
        self._facts = facts
        self._node_of = node_of
        self._rooms: dict[str, _NodeRoom] = {}
        self._claims = Claims()
        self._published: dict[str, ResourceList] = {}
        """Allocatable amounts of nodes whose objects are not known from the API."""

    def refusal(self, pod: Pod) -> PodRejection | None:
        """Return why a node refuses to start a pod that is new there, None when it starts it."""
        spec = pod.spec
        node, room = self._node_of(spec.node_name), self._room(spec.node_name)
        source = node.status.allocatable if node is not None else self._facts_of(spec.node_name)
        if source is not room.source:
            room.source, room.allocatable = source, amounts_of(source)
        return refusal(spec, self._claims.of(spec), room, room.allocatable, node)

    def take(self, held: HollowPod) -> None:
        """Give a pod what it claims; call it again when the claim has changed."""
        claim = self._claims.of(held.pod.spec)
        if claim is not held.claim:
            self.give_back(held)
            held.claim = claim
            self._room(held.node).take(claim)

    def give_back(self, held: HollowPod) -> None:
        """Take back the resources that a pod was given, if any."""
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
    """Return pods of one batch of changes in the order in which they are admitted: those that ran before, then by age.

    Pods that ran before must keep their resources, so that a restart of the nodes changes nothing.
    """
    ran: list[Pod] = []
    new: list[Pod] = []
    for pod in pods:
        (new if pod.status.start_time is None else ran).append(pod)
    new.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.namespace, pod.metadata.name))
    return [*ran, *new]
