"""GPUs shared by memory, or given whole, by the annotations of Volcano's device plugin (spec volcano-plugins 20.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from strato.api.core import Node, PodSpec
from strato.api.quantity import value

MEMORY: Final = "volcano.sh/gpu-memory"
NUMBER: Final = "volcano.sh/gpu-number"
UNHEALTHY: Final = "volcano.sh/gpu-unhealthy-ids"
INDEX: Final = "volcano.sh/gpu-index"
TIME: Final = "volcano.sh/predicate-time"
MOST_CARDS: Final = 4096
"""Most cards of a node that count, because a node may declare any number."""
_SHORT: Final = 64
"""Annotations up to this length are cached; users may write longer ones."""


@dataclass(frozen=True, slots=True)
class GpuShareRequest:
    """What a pod asks for: memory of one card, or whole cards."""

    memory: int
    number: int


@dataclass(slots=True)
class Cards:
    """The healthy cards of a node.

    Attributes:
        memory: Of each card.
        used: By card, memory that pods were given.
        taken: Cards that any pod was given.
    """

    memory: int
    used: dict[int, int]
    taken: set[int]

    def take(self, ids: Iterable[int], want: GpuShareRequest) -> None:
        """Give cards to a pod."""
        for card in ids:
            if card in self.used:
                self.used[card] += want.memory if want.memory else self.memory
                self.taken.add(card)

    def choose(self, want: GpuShareRequest) -> tuple[int, ...] | None:
        """Return the cards a pod would get, lowest first; None when there are not enough."""
        if want.memory:
            fitting = [card for card, used in sorted(self.used.items()) if self.memory - used >= want.memory]
            return tuple(fitting[:1]) or None
        idle = [card for card in sorted(self.used) if card not in self.taken]
        return tuple(idle[: want.number]) if len(idle) >= want.number else None


def wanted(spec: PodSpec, *, memory: bool, number: bool) -> GpuShareRequest | None:
    """Return what a pod's limits ask for, of the kinds that are switched on; None for nothing."""
    want = GpuShareRequest(_limit(spec, MEMORY) if memory else 0, _limit(spec, NUMBER) if number else 0)
    return want if want.memory or want.number else None


def _limit(spec: PodSpec, name: str) -> int:
    containers = sum(value(c.resources.limits.get(name, 0)) for c in spec.containers)
    return max([containers, *(value(c.resources.limits.get(name, 0)) for c in spec.init_containers)])


def cards_of(node: Node) -> Cards | None:
    """Return the cards of a node, all free; None when it has none to share."""
    capacity = node.status.capacity or node.status.allocatable
    number, memory = value(capacity.get(NUMBER, 0)), value(capacity.get(MEMORY, 0))
    if number <= 0 or memory <= 0:
        return None
    sick = {part.strip() for part in node.metadata.annotation(UNHEALTHY).split(",")}
    free = {card: 0 for card in range(min(number, MOST_CARDS)) if str(card) not in sick}
    return Cards(memory // number, free, set())


def ids_of(annotations: Mapping[str, str]) -> tuple[int, ...]:
    """Return the cards a pod was given."""
    text = annotations.get(INDEX, "")
    return _known_numbers(text) if len(text) <= _SHORT else _numbers(text)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    return tuple(int(part) for part in parts if part.strip().isdecimal())


_known_numbers: Final = lru_cache(maxsize=4096)(_numbers)


def annotations_for(cards: Iterable[int], now: float) -> dict[str, str]:
    """Return the annotations from which the device plugin reads which cards to hand over."""
    return {INDEX: ",".join(str(card) for card in cards), TIME: str(int(now * 1e9))}
