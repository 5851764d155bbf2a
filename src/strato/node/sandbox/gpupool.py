"""Which pod and which container has which GPU.

Whole GPUs (``nvidia.com/gpu``) are the node's to choose: the free ones with the lowest numbers, one pod each, noted in
the pod's directory before its containers start, so that a restarted node finds them taken. Shared ones are the
scheduler's to choose: it leaves the cards' numbers in the annotation ``volcano.sh/gpu-index``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from strato.api import quantity
from strato.api.core import Container, Pod, PodSpec
from strato.node.restarts import ALWAYS
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.gpus import MEMORY, NUMBER, WHOLE, Gpu

INDEX = "volcano.sh/gpu-index"
"""Annotation of a pod: the cards the scheduler chose, counted from 0."""


class Offer(Enum):
    """How this machine's GPUs are offered."""

    ALL = "all"
    """Whole, each to one pod."""
    SHARED = "shared"
    """By memory or number, as the scheduler's plugin deviceshare gives them out."""
    NONE = "none"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs of one container."""

    gpus: tuple[Gpu, ...] = ()
    memory_mib: int = 0
    """Its part of a shared card; 0 where cards are counted."""
    shared: bool = False


def slices(spec: PodSpec, resource: str) -> dict[str, range]:
    """Return which of a pod's cards each container has, by position.

    Containers that run at the same time have different cards; an init container has cards that later ones get again.
    """
    found: dict[str, range] = {}
    begun = 0
    for container in spec.init_containers:
        count = _limit(container, resource)
        found[container.name] = range(begun, begun + count)
        if container.restart_policy == ALWAYS:
            begun += count
    for container in spec.containers:
        count = _limit(container, resource)
        found[container.name] = range(begun, begun + count)
        begun += count
    return found


def need(spec: PodSpec, resource: str) -> int:
    """Return how many cards a pod needs in all."""
    return max((part.stop for part in slices(spec, resource).values()), default=0)


def _limit(container: Container, resource: str) -> int:
    limits, requests = container.resources.limits, container.resources.requests
    return quantity.value(limits.get(resource, requests.get(resource, 0)))


class GpuPool:
    """The machine's GPUs and who has them.

    Args:
        gpus: The cards to offer, in the order of their numbers.
        offer: How.
    """

    def __init__(self, gpus: Sequence[Gpu] = (), offer: Offer = Offer.ALL) -> None:
        self.gpus = tuple(gpus) if offer is not Offer.NONE else ()
        self.offer = offer
        self._held: dict[str, tuple[str, ...]] = {}
        """Pod's uid → names of its whole GPUs. No GPU is in two of them."""

    def keep(self, uid: str, names: Sequence[str]) -> None:
        """Take over what was given to a pod before a restart."""
        if names:
            self._held[uid] = tuple(names)

    def release(self, uid: str) -> None:
        """Take a pod's GPUs back."""
        self._held.pop(uid, None)

    def take(self, pod: Pod) -> tuple[str, ...]:
        """Return the names of a pod's whole GPUs, chosen now unless it has them.

        Raises:
            ConfigProblem: Not enough are free.
        """
        uid, count = pod.metadata.uid, need(pod.spec, WHOLE)
        held = self._held.get(uid, ())
        names = [gpu.name for gpu in self.gpus]
        if len(held) == count:  # also of cards that are gone: its containers may still run
            return held
        taken = {name for other, those in self._held.items() if other != uid for name in those}
        free = [name for name in names if name not in taken] if self.offer is Offer.ALL else []
        if len(free) < count:
            raise ConfigProblem(f"{WHOLE}: {count} wanted, {len(free)} of this machine's {len(names)} are free")
        self._held[uid] = tuple(free[:count])
        return self._held[uid]

    def free(self) -> int:
        """Return how many whole GPUs nobody has."""
        taken = {name for names in self._held.values() for name in names}
        return sum(gpu.name not in taken for gpu in self.gpus)

    def grant(self, pod: Pod, container: Container) -> Grant:
        """Return a container's GPUs; none for one that asks for none.

        Raises:
            ConfigProblem: The scheduler chose none of the shared cards, or one that is not there.
        """
        if _limit(container, WHOLE):
            by_name = {gpu.name: gpu for gpu in self.gpus}
            names = self._held.get(pod.metadata.uid, ())
            part = slices(pod.spec, WHOLE)[container.name]
            mine = names[part.start : part.stop]
            for name in mine:
                if name not in by_name:
                    raise ConfigProblem(f"GPU {name}, which this pod has, is not there any more")
            return Grant(tuple(by_name[name] for name in mine))
        memory, number = _limit(container, MEMORY), _limit(container, NUMBER)
        if not memory and not number:
            return Grant()
        cards = self._chosen(pod)
        if not memory:
            part = slices(pod.spec, NUMBER)[container.name]
            cards = cards[part.start : part.stop]
            if len(cards) < number:
                raise ConfigProblem(f"annotation {INDEX} names fewer cards than {NUMBER} asks for")
        return Grant(cards, memory, shared=True)

    def _chosen(self, pod: Pod) -> tuple[Gpu, ...]:
        text = pod.metadata.annotation(INDEX)
        if self.offer is not Offer.SHARED:
            raise ConfigProblem(f"this machine shares no GPUs: start it with --gpus {Offer.SHARED.value}")
        if not text:
            raise ConfigProblem(
                f"no annotation {INDEX}: the scheduler's plugin deviceshare writes it, with "
                "deviceshare.GPUSharingEnable or deviceshare.GPUNumberEnable switched on"
            )
        cards = []
        for part in text.split(","):
            index = int(part) if part.strip().isdecimal() else -1
            if not 0 <= index < len(self.gpus):
                raise ConfigProblem(f"annotation {INDEX}: {text!r} is not a list of cards in [0, {len(self.gpus)})")
            cards.append(self.gpus[index])
        return tuple(cards)


def variables(grant: Grant, all_gpus: Sequence[Gpu], *, fenced: bool) -> dict[str, str]:
    """Return what tells a container's programs which GPUs are theirs.

    Args:
        grant: The container's.
        all_gpus: The machine's, in the order of their numbers.
        fenced: Whether the container sees no device file but its own.
    """
    if not grant.gpus:
        return {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    numbers = [str(all_gpus.index(gpu)) for gpu in grant.gpus]
    names = [gpu.uuid for gpu in grant.gpus]
    found: dict[str, str] = {"NVIDIA_VISIBLE_DEVICES": ",".join(names if all(names) else numbers)}
    if all(names):
        found["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    elif fenced:  # CUDA counts what it can open
        found["CUDA_VISIBLE_DEVICES"] = ",".join(str(position) for position in range(len(numbers)))
    else:
        found |= {"CUDA_VISIBLE_DEVICES": ",".join(numbers), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return found | _shares(grant, numbers)


def _shares(grant: Grant, numbers: Sequence[str]) -> dict[str, str]:
    """Return what Volcano's device plugin says to containers with shared cards."""
    if not grant.shared:
        return {}
    found = {"NVIDIA_VISIBLE_DEVICES": ",".join(numbers)}
    if not grant.memory_mib:
        return found | {"VOLCANO_GPU_ALLOCATED": str(len(grant.gpus))}
    total = str(grant.gpus[0].memory_mib)
    return found | {
        "VOLCANO_GPU_ALLOCATED": str(grant.memory_mib),
        "VOLCANO_GPU_TOTAL": total,
        "VOLCANO_GPU_MEMORY_TOTAL": total,  # its name in the user guide
    }
