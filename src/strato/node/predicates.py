"""A kubelet's admission: whether a pod may run on its node, and whether the node has room for it. Pure.

The module is named after the kubelet's predicates; the messages are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from strato.api.core import Node, PodSpec
from strato.api.nodeselection import matches_node, tolerates
from strato.api.pods import HostPort, effective_requests, host_ports, host_ports_clash
from strato.api.quantity import Quantity, milli, value
from strato.api.shapes import ResourceList
from strato.lru import LruCache

_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")
"""The order in which shortages are reported; other resources follow."""
_BYTES: Final = 4 << 20
"""Most bytes of the claims that a `Claims` caches."""


@dataclass(frozen=True, slots=True)
class PodRejection:
    """Why a node refuses to run a pod, which then fails, as a pod that a kubelet rejects."""

    reason: str
    message: str


NO_AFFINITY: Final = PodRejection(
    "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
)
PORTS_TAKEN: Final = PodRejection(
    "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)
NO_TOLERATION: Final = PodRejection(
    "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
)


class Insufficient(NamedTuple):
    """A resource of which a node has too little: cpu in thousandths, everything else in whole units."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def is_never(self) -> bool:
        """Whether the node would have too little even without its other pods."""
        return self.requested > self.capacity

    def __str__(self) -> str:
        amounts = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return f"Node didn't have enough resource: {self.resource}, {amounts}"


class Claim(NamedTuple):
    """The resources and host ports that a pod takes of its node."""

    amounts: tuple[tuple[str, int], ...]
    """Pairs of resource and positive amount: cpu in thousandths, everything else in whole units."""
    ports: tuple[HostPort, ...]


def claim_of(spec: PodSpec) -> Claim:
    """Return the claim of a pod."""
    requests = effective_requests(spec)
    names = (*_FIRST[1:], *sorted(requests.keys() - _FIRST))
    amounts = [(name, _whole(name, requests)) for name in names if requests.get(name)]
    return Claim((("pods", 1), *amounts), host_ports(spec))


def _whole(name: str, requests: Mapping[str, Quantity]) -> int:
    amount = requests[name]
    return amount.milli_value if name == "cpu" else amount.value


def amounts_of(allocatable: ResourceList) -> dict[str, int]:
    """Return a node's allocatable amounts, in the units of claims."""
    return {name: milli(amount) if name == "cpu" else value(amount) for name, amount in allocatable.items()}


class Claims:
    """Claims by spec: pods of one template share decoded parts of their specs, so their claim is computed once."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[int, ...], tuple[PodSpec, Claim]] = LruCache(
            _BYTES, lambda _, known: 1000 + 100 * len(known[1].amounts)
        )
        """Claims by the identity of the spec's parts; an entry holds the spec, so that its ids are not used again."""
        self._last: tuple[PodSpec | None, Claim] = (None, Claim((), ()))
        """The last spec and its claim: an admitted pod needs its claim twice in a row."""

    def of(self, spec: PodSpec) -> Claim:
        """Return the claim of a pod."""
        if spec is not self._last[0]:
            self._last = spec, self._of(spec)
        return self._last[1]

    def _of(self, spec: PodSpec) -> Claim:
        key = (
            id(spec.containers),
            id(spec.init_containers),
            id(spec.resources),
            id(spec.overhead),
            spec.host_network,
        )
        known = self._known.get(key)
        if known is None:
            known = self._known.put(key, (spec, claim_of(spec)))
        return known[1]


class NodeCommitments:
    """The sums of what the pods of one node have been given."""

    __slots__ = ("_ports", "_used")

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._used: dict[str, int] = {}
        self._ports: list[HostPort] = []
        for claim in claims:
            self.take(claim)

    def take(self, claim: Claim) -> None:
        """Add a pod's claim, even if it exceeds what the node has."""
        used = self._used
        for name, amount in claim.amounts:
            used[name] = used.get(name, 0) + amount
        if claim.ports:
            self._ports += claim.ports

    def give_back(self, claim: Claim) -> None:
        """Subtract a pod's claim."""
        used = self._used
        for name, amount in claim.amounts:
            left = used[name] - amount
            if left:
                used[name] = left
            else:
                del used[name]
        for port in claim.ports:
            self._ports.remove(port)

    def lacking(self, claim: Claim, allocatable: Mapping[str, int]) -> list[Insufficient]:
        """Return the resources of which there is too little for one more pod.

        Extended resources that the node does not have are ignored, as by a kubelet: they may be cluster-wide.
        """
        used, found = self._used, []
        for name, amount in claim.amounts:
            given, most = used.get(name, 0), allocatable.get(name)
            if most is None:
                if _is_extended(name):
                    continue
                most = 0
            if given + amount > most:
                found.append(Insufficient(name, amount, given, most))
        return found

    def has_ports(self, claim: Claim) -> bool:
        """Return whether the host ports that a pod claims are free."""
        return not (claim.ports and self._ports and host_ports_clash(claim.ports, self._ports))


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def insufficient(
    wanted: PodSpec, others: Iterable[PodSpec], allocatable: ResourceList, resources: Collection[str]
) -> list[Insufficient]:
    """Return the resources of which a node has too little for one more pod.

    Args:
        wanted: The pod.
        others: Specs of the node's other pods, with the resources allocated to them.
        allocatable: The node's allocatable amounts.
        resources: The resources to compare.
    """
    room = NodeCommitments(map(claim_of, others))
    return [one for one in room.lacking(claim_of(wanted), amounts_of(allocatable)) if one.resource in resources]


def refusal(
    spec: PodSpec, claim: Claim, room: NodeCommitments, allocatable: Mapping[str, int], node: Node | None
) -> PodRejection | None:
    """Return why a node refuses to start a pod that is new there, None when it starts it.

    Args:
        spec: Spec of the pod.
        claim: The pod's claim, or the part of it that is to be checked.
        room: What the other pods have been given.
        allocatable: The node's allocatable amounts.
        node: The node from the API, for its labels and taints; None where it is not known.
    """
    shortages = room.lacking(claim, allocatable)
    if shortages:
        return PodRejection(f"OutOf{shortages[0].resource}", str(shortages[0]))
    if node is not None and (spec.node_selector or spec.affinity is not None) and not matches_node(spec, node):
        return NO_AFFINITY
    if not room.has_ports(claim):
        return PORTS_TAKEN
    for taint in node.spec.taints if node is not None else ():
        if taint.effect == "NoExecute" and not tolerates(spec.tolerations, taint):
            return NO_TOLERATION
    return None
