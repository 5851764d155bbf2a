"""Measure the disk usage of pods, and decide which pods to evict for it.

Limits are enforced as by a kubelet: usage is measured every few seconds, and a pod over one of its limits is evicted.
When the disk itself runs low, the pod is evicted whose usage exceeds its request the most.

Source: Kubernetes' eviction manager (local storage capacity isolation, ``nodefs.available``): rules and messages.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from strato.api import quantity
from strato.api.core import Container, Pod
from strato.node.sandbox.paths import PodPaths

EPHEMERAL_STORAGE = "ephemeral-storage"
LOW_BYTES = 1 << 30
LOW_RATIO = 0.1
"""A disk is low if less than this share of its size is free, and less than `LOW_BYTES`: a laptop's disk is used by
others too, and may be mostly full while there is enough room for pods."""
LOW_INODES_RATIO = 0.05

CRITICAL_PRIORITY = 2_000_000_000
"""From this priority on pods are system-critical: they are neither evicted nor refused."""

ENDLESS = 1 << 60
"""Size assumed for a tree that is too deep or too wide to be measured; more than any limit."""
_MOST_LEVELS = 256
_MOST_ENTRIES = 1_000_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Bytes on disk of one pod."""

    pod: Pod
    containers: Mapping[str, int] = field(default_factory=dict)
    """Container → bytes that it has written to its root, and its logs."""
    volumes: Mapping[str, int] = field(default_factory=dict)
    """emptyDir volume → bytes; volumes in memory are not on disk and count against their own limit only."""

    @property
    def on_disk(self) -> int:
        """Bytes on disk that are freed when the pod is removed."""
        in_memory = {volume.name for volume in self.pod.spec.volumes if _is_in_memory(self.pod, volume.name)}
        return sum(self.containers.values()) + sum(n for name, n in self.volumes.items() if name not in in_memory)


@dataclass(frozen=True, slots=True)
class PodsFileSystem:
    """The file system of the pods' directory."""

    size_bytes: int
    free_bytes: int
    inodes: int = 0
    """Number of inodes of the file system; 0 if it does not count them."""
    free_inodes: int = 0

    @property
    def threshold_bytes(self) -> int:
        """Free bytes below which the disk is low."""
        return min(int(self.size_bytes * LOW_RATIO), LOW_BYTES)

    @property
    def is_low(self) -> bool:
        """Whether the disk is low, so that pods have to be evicted."""
        return self.free_bytes < self.threshold_bytes

    @property
    def is_short_of_inodes(self) -> bool:
        """Whether there are hardly any free inodes for new files."""
        return self.free_inodes < self.inodes * LOW_INODES_RATIO


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to evict, and the message for its status and event."""

    uid: str
    message: str


def measure_all(pods: Iterable[tuple[Pod, PodPaths, str]]) -> list[PodUsage]:
    """Measure pods, each given with its paths and its directory in memory."""
    return [measure(*one) for one in pods]


def measure(pod: Pod, place: PodPaths, memory_dir: str) -> PodUsage:
    """Measure the disk usage of a pod; follows no links, and files that vanish meanwhile count as 0."""
    containers = {
        container.name: _bytes_below(os.path.join(place.home, "containers", container.name))
        + _bytes_below(os.path.join(place.home, "logs", container.name))
        for container in pod.spec.all_containers
    }
    volumes = {
        volume.name: _bytes_below(
            os.path.join(memory_dir, volume.name) if _is_in_memory(pod, volume.name) else place.volume(volume.name)
        )
        for volume in pod.spec.volumes
        if volume.empty_dir is not None
    }
    return PodUsage(pod, containers, volumes)


def disk_of(path: str) -> PodsFileSystem:
    """Measure the file system on which a path lies."""
    found = os.statvfs(path)
    return PodsFileSystem(
        found.f_frsize * found.f_blocks,
        found.f_frsize * found.f_bavail,
        inodes=found.f_files,
        free_inodes=found.f_favail,
    )


def evictions(usages: Iterable[PodUsage], disk: PodsFileSystem, *, is_freeing: bool = False) -> list[Eviction]:
    """Decide which pods to evict: all that exceed a limit of their own, else the greatest user of a disk that is low.

    Args:
        usages: Usage of the pods that are not being ended already.
        disk: The present state of the disk.
        is_freeing: Whether a pod is being ended whose files still exist; then a low disk causes no further eviction.
    """
    found, within = [], []
    for usage in usages:
        if (usage.pod.spec.priority or 0) >= CRITICAL_PRIORITY:
            continue
        reason = _broken_limit(usage)
        if reason:
            found.append(Eviction(usage.pod.metadata.uid, reason))
        else:
            within.append(usage)
    if found or is_freeing or not disk.is_low:
        return found
    worst = max(within, key=_beyond_request, default=None)
    if worst is None or _beyond_request(worst) <= 0:
        return []
    text = (
        f"The node was low on resource: {EPHEMERAL_STORAGE}. Threshold quantity: {disk.threshold_bytes}, available: "
        f"{disk.free_bytes // 1024}Ki. {''.join(_consumers(worst))}"
    )
    return [Eviction(worst.pod.metadata.uid, text)]


def _broken_limit(usage: PodUsage) -> str:
    """Return a message about the limit that a pod exceeds, empty when it exceeds none."""
    for volume in usage.pod.spec.volumes:
        limit = volume.empty_dir.size_limit if volume.empty_dir is not None else None
        if limit is not None and 0 < quantity.value(limit) < usage.volumes.get(volume.name, 0):
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
    total = 0
    everyone = usage.pod.spec.containers
    for container in (*usage.pod.spec.init_containers, *everyone):
        amount = container.resources.limits.get(EPHEMERAL_STORAGE)
        if amount is not None and quantity.value(amount) < usage.containers.get(container.name, 0):
            return f'Container {container.name} exceeded its local ephemeral storage limit "{amount}". '
    for container in everyone:
        amount = container.resources.limits.get(EPHEMERAL_STORAGE)
        if amount is None:  # a container without a limit leaves the pod without one
            return ""
        total += quantity.value(amount)
    if total < usage.on_disk:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    return ""


def _beyond_request(usage: PodUsage) -> int:
    return usage.on_disk - sum(_requested(container) for container in usage.pod.spec.containers)


def _consumers(usage: PodUsage) -> Iterator[str]:
    for container in usage.pod.spec.containers:
        used, requested = usage.containers.get(container.name, 0), _requested(container)
        if used > requested:
            yield (
                f"Container {container.name} was using {used // 1024}Ki, request is {requested}, "
                f"has larger consumption of {EPHEMERAL_STORAGE}. "
            )


def _requested(container: Container) -> int:
    return quantity.value(container.resources.requests.get(EPHEMERAL_STORAGE, "0"))


def _is_in_memory(pod: Pod, name: str) -> bool:
    sources = (volume.empty_dir for volume in pod.spec.volumes if volume.name == name)
    return any(source is not None and source.medium == "Memory" for source in sources)


def _bytes_below(path: str) -> int:
    """Return the bytes of all files below a directory, counting hard links once; 0 if the directory does not exist.

    No link is followed and no mount point entered. A tree beyond the bounds counts as `ENDLESS`.
    """
    try:
        top = os.open(path, _DIRECTORY)
    except OSError:
        return 0
    device, seen = os.fstat(top).st_dev, set[int]()
    total, subdirectories = _scan(top, device, seen)
    levels, entries = [(top, subdirectories)], 0
    try:
        while levels:
            directory, names = levels[-1]
            if not names:
                os.close(levels.pop()[0])
                continue
            try:
                child = os.open(names.pop(), _DIRECTORY, dir_fd=directory)
            except OSError:  # removed meanwhile, or not readable
                continue
            if not names:  # close a finished directory at once, so that a deep chain needs few descriptors
                os.close(levels.pop()[0])
            levels.append((child, []))
            size, subdirectories = _scan(child, device, seen)
            levels[-1] = child, subdirectories
            total += size
            entries += 1 + len(subdirectories)
            if len(levels) > _MOST_LEVELS or entries + len(seen) > _MOST_ENTRIES:
                return ENDLESS
    finally:
        for directory, _ in levels:
            os.close(directory)
    return total


def _scan(directory: int, device: int, seen: set[int]) -> tuple[int, list[str]]:
    """Return the bytes of a directory's entries, and its subdirectories; adds files with several names to ``seen``."""
    total, subdirectories = 0, []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev == device:
                    subdirectories.append(entry.name)
            elif status.st_nlink > 1:
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * 512
    return total, subdirectories
