"""`GpuPool`: which pod and which container has which GPU.

The node chooses whole GPUs (``nvidia.com/gpu``): the free ones with the lowest numbers, each for one pod. It notes them
in the pod's directory before the containers start, so that they are still taken after a restart of the node. The
scheduler chooses shared GPUs: it writes their numbers into the annotation ``volcano.sh/gpu-index``.
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
"""Annotation of a pod: the numbers, from 0, of the cards that the scheduler has chosen."""


class GpuOffer(Enum):
    """How the node offers this machine's GPUs."""

    ALL = "all"
    """Whole GPUs, each to one pod."""
    SHARED = "shared"
    """Shared GPUs, by memory or number, which the scheduler's plugin deviceshare assigns."""
    NONE = "none"
    """No GPUs."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs of one container."""

    gpus: tuple[Gpu, ...] = ()
    memory_mib: int = 0
    """Its part of a shared card's memory; 0 if it asks for a number of cards."""
    shared: bool = False


def slices(spec: PodSpec, resource: str) -> dict[str, range]:
    """Return for each container the range of the pod's cards that it has.

    Containers that run at the same time have different cards; the cards of an init container are used again by later
    containers.
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
    """The machine's GPUs and the pods that have them.

    Args:
        gpus: The cards to offer, in the order of their numbers.
        offer: How the cards are offered.
    """

    def __init__(self, gpus: Sequence[Gpu] = (), offer: GpuOffer = GpuOffer.ALL) -> None:
        self.gpus = tuple(gpus) if offer is not GpuOffer.NONE else ()
        self.offer = offer
        self._held: dict[str, tuple[str, ...]] = {}
        """Pod's uid → names of its whole GPUs. No GPU is in two of them."""

    def keep(self, uid: str, names: Sequence[str]) -> None:
        """Record the GPUs that a pod got before a restart."""
        if names:
            self._held[uid] = tuple(names)

    def release(self, uid: str) -> None:
        """Take a pod's GPUs back."""
        self._held.pop(uid, None)

    def take(self, pod: Pod) -> tuple[str, ...]:
        """Return the names of a pod's whole GPUs, chosen now unless it has them.

        Raises:
            ConfigProblem: There are not enough free GPUs.
        """
        uid, count = pod.metadata.uid, need(pod.spec, WHOLE)
        held = self._held.get(uid, ())
        names = [gpu.name for gpu in self.gpus]
        if len(held) == count:  # even if some cards have vanished, because its containers may still use them
            return held
        taken = {name for other, those in self._held.items() if other != uid for name in those}
        free = [name for name in names if name not in taken] if self.offer is GpuOffer.ALL else []
        if len(free) < count:
            raise ConfigProblem(f"{WHOLE}: {count} wanted, {len(free)} of this machine's {len(names)} are free")
        self._held[uid] = tuple(free[:count])
        return self._held[uid]

    def free(self) -> int:
        """Return the number of free whole GPUs."""
        taken = {name for names in self._held.values() for name in names}
        return sum(gpu.name not in taken for gpu in self.gpus)

    def grant(self, pod: Pod, container: Container) -> Grant:
        """Return a container's GPUs; none for one that asks for none.

        Raises:
            ConfigProblem: The scheduler has chosen no shared card, or one that does not exist.
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
        if self.offer is not GpuOffer.SHARED:
            raise ConfigProblem(f"this machine shares no GPUs: start it with --gpus {GpuOffer.SHARED.value}")
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
    """Return the variables that tell a container's programs which GPUs they may use.

    Args:
        grant: The container's GPUs.
        all_gpus: The machine's GPUs, in the order of their numbers.
        fenced: Whether the container sees only the device files of its own GPUs.
    """
    if not grant.gpus:
        return {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    numbers = [str(all_gpus.index(gpu)) for gpu in grant.gpus]
    names = [gpu.uuid for gpu in grant.gpus]
    found: dict[str, str] = {"NVIDIA_VISIBLE_DEVICES": ",".join(names if all(names) else numbers)}
    if all(names):
        found["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    elif fenced:  # CUDA numbers the devices that it can open
        found["CUDA_VISIBLE_DEVICES"] = ",".join(str(position) for position in range(len(numbers)))
    else:
        found |= {"CUDA_VISIBLE_DEVICES": ",".join(numbers), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return found | _shares(grant, numbers)


def _shares(grant: Grant, numbers: Sequence[str]) -> dict[str, str]:
    """Return the variables that Volcano's device plugin sets in containers with shared cards."""
    if not grant.shared:
        return {}
    found = {"NVIDIA_VISIBLE_DEVICES": ",".join(numbers)}
    if not grant.memory_mib:
        return found | {"VOLCANO_GPU_ALLOCATED": str(len(grant.gpus))}
    total = str(grant.gpus[0].memory_mib)
    return found | {
        "VOLCANO_GPU_ALLOCATED": str(grant.memory_mib),
        "VOLCANO_GPU_TOTAL": total,
        "VOLCANO_GPU_MEMORY_TOTAL": total,  # Volcano's user guide has this name
    }
