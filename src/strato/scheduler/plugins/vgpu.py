"""Virtual GPUs: parts of cards by memory and cores, as HAMi's device plugin gives them to pods (plugins 20.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from strato.api.core import Container, Node, PodSpec
from strato.api.quantity import value

NUMBER: Final = "volcano.sh/vgpu-number"
MEMORY: Final = "volcano.sh/vgpu-memory"
CORES: Final = "volcano.sh/vgpu-cores"
PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
REGISTER: Final = "volcano.sh/node-vgpu-register"
IDS: Final = "volcano.sh/vgpu-ids-new"
MODE: Final = "volcano.sh/vgpu-mode"
HAMI_CORE, MIG = "hami-core", "mig"

_USE_IDS, _AVOID_IDS = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"
_USE_TYPES, _AVOID_TYPES = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
_GROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"

BINPACK, SPREAD = "binpack", "spread"


class VGpuRequest(NamedTuple):
    """What one container asks for: a number of cards, and memory (MiB, or percent) and cores (percent) of each."""

    number: int
    memory: int
    percent: int
    cores: int


class Piece(NamedTuple):
    """A part of a card that a container was given."""

    uuid: str
    type: str
    memory: int
    cores: int


@dataclass(slots=True)
class Card:
    """One card and what pods hold of it.

    Attributes:
        count: How many pods may share it.
        memory: MiB.
        groups: Pod groups with a pod on it.
        holders: Labels of the pods on it.
    """

    uuid: str
    count: int
    memory: int
    type: str
    healthy: bool
    mode: str
    used_count: int = 0
    used_memory: int = 0
    used_cores: int = 0
    groups: set[str] = field(default_factory=set)
    holders: list[Mapping[str, str]] = field(default_factory=list)


class Asker(NamedTuple):
    """What the choice of cards depends on besides a pod's containers."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    group: str


def wanted(spec: PodSpec) -> list[VGpuRequest] | None:
    """Return what each container asks for; None when no container asks for cards."""
    wants = [_of(container) for container in spec.containers]
    return wants if any(want.number for want in wants) else None


def _of(container: Container) -> VGpuRequest:
    limits = container.resources.limits
    memory, percent = value(limits.get(MEMORY, 0)), value(limits.get(PERCENTAGE, 0))
    number = value(limits.get(NUMBER, 0)) or (1 if memory or percent else 0)
    if not memory and not percent:
        percent = 100
    return VGpuRequest(number, memory, percent, value(limits.get(CORES, 0)))


def cards_of(node: Node) -> list[Card]:
    """Return the cards a node registers; none while it does not offer their resources."""
    have = node.status.allocatable
    if not all(value(have.get(name, 0)) > 0 for name in (NUMBER, MEMORY, CORES)):
        return []
    cards = []
    for entry in node.metadata.annotation(REGISTER).split(":"):
        parts = entry.split(",")
        if len(parts) >= 6 and parts[1].isdecimal() and parts[2].isdecimal():
            healthy = parts[4].strip().lower() == "true"
            cards.append(Card(parts[0], int(parts[1]), int(parts[2]), parts[3], healthy, parts[5].strip() or HAMI_CORE))
    return cards


def read_pieces(text: str) -> list[list[Piece]]:
    """Read the parts that the containers of a pod were given; unreadable ones are left out."""
    out = []
    for container in text.split(";"):
        pieces = []
        for entry in container.split(":"):
            parts = entry.split(",")
            if len(parts) >= 4 and parts[2].lstrip("-").isdecimal() and parts[3].lstrip("-").isdecimal():
                pieces.append(Piece(parts[0], parts[1], int(parts[2]), int(parts[3])))
        out.append(pieces)
    return out


def write_pieces(given: Sequence[Sequence[Piece]]) -> str:
    """Write the parts that the containers of a pod were given."""
    return ";".join("".join(f"{p.uuid},{p.type},{p.memory},{p.cores}:" for p in pieces) for pieces in given)


def hold(cards: Sequence[Card], given: Sequence[Sequence[Piece]], asker: Asker) -> None:
    """Charge cards for the parts that a pod was given."""
    by_id = {card.uuid: card for card in cards}
    for piece in (piece for pieces in given for piece in pieces):
        card = by_id.get(piece.uuid)
        if card is not None:
            card.used_count += 1
            card.used_memory += piece.memory
            card.used_cores += piece.cores
            card.groups.add(asker.group)
            card.holders.append(asker.labels)


def copied(cards: Sequence[Card]) -> list[Card]:
    """Return copies that can be charged."""
    return [replace(card, groups=set(card.groups), holders=list(card.holders)) for card in cards]


def choose(
    cards: Sequence[Card], wants: Sequence[VGpuRequest], asker: Asker, policy: str, rules: Sequence[Mapping[str, str]]
) -> tuple[list[list[Piece]], float] | None:
    """Give a pod its parts, charging the cards; None when they do not suffice (``cards`` is invalid then).

    Returns:
        Pieces by container, and the score of the choice.
    """
    mode = asker.annotations.get(MODE, "")
    usable = [card for card in cards if card.healthy and card.mode == HAMI_CORE and mode in ("", card.mode)]
    given: list[list[Piece]] = []
    score = 0.0
    for want in wants:
        pieces: list[Piece] = []
        for card in _order(usable, policy):
            if len(pieces) == want.number:
                break
            memory = want.memory or card.memory * want.percent // 100
            if not _fits(card, memory, want.cores, asker, rules):
                continue
            piece = Piece(card.uuid, card.type, memory, want.cores)
            pieces.append(piece)
            hold((card,), ((piece,),), Asker({}, asker.labels, ""))
            if policy == BINPACK:
                score += 100.0 * card.used_memory / card.memory
            elif policy == SPREAD and card.used_count == 0:
                score += 100.0
        if len(pieces) < want.number:
            return None
        given.append(pieces)
    return given, score


def _order(cards: Sequence[Card], policy: str) -> list[Card]:
    if policy == BINPACK:
        return sorted(cards, key=lambda card: -card.used_memory)
    if policy == SPREAD:
        return sorted(cards, key=lambda card: card.used_count)
    return list(reversed(cards))


def _fits(card: Card, memory: int, cores: int, asker: Asker, rules: Sequence[Mapping[str, str]]) -> bool:
    notes = asker.annotations
    if not _listed(notes, _USE_IDS, _AVOID_IDS, card.uuid, exact=True):
        return False
    if "NVIDIA" not in card.type or not _listed(notes, _USE_TYPES, _AVOID_TYPES, card.type, exact=False):
        return False
    if card.used_count >= card.count or card.memory - card.used_memory < memory or card.used_cores + cores > 100:
        return False
    if (cores == 100 and card.used_count) or (card.used_cores == 100 and cores == 0):
        return False
    if notes.get(_GROUP_POLICY) == SPREAD and asker.group and asker.group in card.groups:
        return False
    return not any(_matches(rule, asker.labels) and any(_matches(rule, h) for h in card.holders) for rule in rules)


def _listed(notes: Mapping[str, str], use: str, avoid: str, name: str, *, exact: bool) -> bool:
    """Whether a card passes a pair of annotations that list cards to use and to avoid."""

    def among(listed: str) -> bool:
        parts = [part.strip() for part in listed.split(",") if part.strip()]
        return name in parts if exact else any(part.lower() in name.lower() for part in parts)

    return (not notes.get(use) or among(notes[use])) and not (notes.get(avoid) and among(notes[avoid]))


def _matches(rule: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == text for key, text in rule.items())


def annotations_for(given: Sequence[Sequence[Piece]], node: str, now: float) -> dict[str, str]:
    """Return the annotations from which the device plugin reads which parts to hand over."""
    pieces, seconds = write_pieces(given), str(int(now))
    return {
        "volcano.sh/vgpu-node": node,
        "volcano.sh/vgpu-time": seconds,
        IDS: pieces,
        "volcano.sh/devices-to-allocate": pieces,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": seconds,
    }
