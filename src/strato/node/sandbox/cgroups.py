"""Limits of CPU, memory and processes by control groups, version 1 or 2, if this process may write these."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS, cpu_shares, cpu_weight

_ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("cpu", "memory", "pids")
_ACCOUNTING = ("cpuacct",)
"""Hierarchies of version 1 that only count; CPU time may be counted in another hierarchy than ``cpu``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container or a pod may use; 0 means no limit."""

    cpu_millicores: int = 0
    cpu_request_millicores: int = 0
    memory_bytes: int = 0
    processes: int = 0
    """Processes and threads."""
    is_pod: bool = False
    """Whether it is a pod: when it is out of memory, the kernel must kill one container instead of all."""


def cpu_quota(millicores: int) -> int:
    """Return the microseconds of CPU per period of 100 ms."""
    return max(LEAST_QUOTA_MICROSECONDS, millicores * CFS_PERIOD_MICROSECONDS // 1000)


class Cgroups:
    """The control groups of one node, all below one group per hierarchy.

    Args:
        name: Name of the group that holds them.
        root: Directory where control groups are mounted.
        membership: The kernel's file that names this process's groups.
        note: File in which the groups' paths are noted, because the next process of the node, or that of ``strato
            down``, may be in other groups itself. Empty for no file.
    """

    def __init__(self, name: str, root: str = _ROOT, membership: str = "/proc/self/cgroup", *, note: str = "") -> None:
        self._note = note
        self._roots = _noted(note) or _find_roots(name, root, membership)
        """Hierarchy (``cpu``, ``memory``, ``pids`` or ``unified``) → directory."""
        if note and self._roots:
            with contextlib.suppress(OSError):  # a full disk is reported by the node's conditions
                os.makedirs(os.path.dirname(note), exist_ok=True)
                _write(note, json.dumps(self._roots))

        self.missing = self._missing_controllers()
        """Controllers that are missing or not delegated to this node, so that their limits are not enforced."""

    @property
    def enabled(self) -> bool:
        """Whether any limits can be enforced."""
        return bool(self._roots)

    @property
    def directories(self) -> list[str]:
        """The node's group in each hierarchy."""
        return sorted(self._roots.values())

    def _missing_controllers(self) -> tuple[str, ...]:
        unified = self._roots.get("unified")
        if unified is None:
            return tuple(name for name in CONTROLLERS if name not in self._roots)
        try:
            return _delegate("unified", unified)
        except OSError:
            return CONTROLLERS

    def unenforced(self, key: str, limits: Limits) -> list[str]:
        """Return which limits of a container, ``cpu`` or ``memory``, the kernel does not enforce."""
        found = []
        if limits.cpu_millicores and not (
            self._holds("unified", key, "cpu.max") or self._holds("cpu", key, "cpu.cfs_quota_us")
        ):
            found.append("cpu")
        if limits.memory_bytes and not (
            self._holds("unified", key, "memory.max", limits.memory_bytes)
            or self._holds("memory", key, "memory.limit_in_bytes", limits.memory_bytes)
        ):
            found.append("memory")
        return found

    def _holds(self, hierarchy: str, key: str, name: str, most: int = 0) -> bool:
        """Return whether a group's limit is set, to at most ``most``; in version 1 a huge number means no limit."""
        if hierarchy not in self._roots:
            return False
        try:
            with open(os.path.join(self._roots[hierarchy], key, name)) as file:
                text = file.read().split()[0]
        except (OSError, IndexError):
            return False
        return text not in ("max", "-1") and (not most or int(text) <= most)

    def create(self, key: str, limits: Limits) -> list[str]:
        """Make new groups for a container or pod, with its limits.

        Groups of an earlier run are removed first, with their counters. A pod's groups stay while there are groups
        below them, and get the limits.

        Returns:
            The files into which a container's process must write its pid.
        """
        files = []
        for hierarchy, group in self._roots.items():
            path = os.path.join(group, key)
            with contextlib.suppress(OSError):
                os.rmdir(path)
            try:
                _make_below(hierarchy, group, key)
            except OSError:
                continue
            for name, text in _settings(hierarchy, limits):
                with contextlib.suppress(OSError):  # a kernel built without a limit must not keep the pod from starting
                    _write(os.path.join(path, name), text)
            files.append(os.path.join(path, "cgroup.procs"))
        return files

    def update(self, key: str, limits: Limits) -> str:
        """Change the limits of a running container or pod; return why some could not be set, empty when all were.

        A memory limit below the present use is not set, because the kernel would kill processes.
        """
        used = self._memory_used(key)
        if limits.memory_bytes and used >= limits.memory_bytes:
            return f"memory limit ({limits.memory_bytes}) below current usage ({used})"
        for hierarchy, group in self._roots.items():
            path = os.path.join(group, key)
            settings = _settings(hierarchy, limits, replaced=True)
            # Write all settings twice: the kernel refuses a limit above the one that includes it (memory, and memory
            # with swap), so which of them must be first depends on whether they grow or shrink.
            for name, text in (*settings, *settings):
                with contextlib.suppress(OSError):
                    _write(os.path.join(path, name), text)
        return ""

    def _memory_used(self, key: str) -> int:
        """Return the bytes that count against a container's memory limit; 0 if that is unknown."""
        for hierarchy, name in (("memory", "memory.usage_in_bytes"), ("unified", "memory.current")):
            if hierarchy in self._roots:
                with (
                    contextlib.suppress(OSError, ValueError),
                    open(os.path.join(self._roots[hierarchy], key, name)) as f,
                ):
                    return int(f.read())
        return 0

    def oom_killed(self, key: str) -> bool:
        """Return whether the kernel has killed a process in the container for its memory limit."""
        for hierarchy, name in (("memory", "memory.oom_control"), ("unified", "memory.events")):
            if hierarchy in self._roots:
                return _counter(os.path.join(self._roots[hierarchy], key, name), "oom_kill") > 0
        return False

    def processes(self, key: str) -> list[int]:
        """Return the pids in a container's or, with all below it, a pod's groups."""
        found: set[int] = set()
        for group in self._roots.values():
            for directory, _, _ in os.walk(os.path.join(group, key)):
                with contextlib.suppress(OSError), open(os.path.join(directory, "cgroup.procs")) as file:
                    found.update(int(line) for line in file)
        return sorted(found)

    def remove(self, key: str) -> None:
        """Remove a container's or, with all below it, a pod's groups; groups that are still in use stay."""
        for group in self._roots.values():
            for directory, _, _ in os.walk(os.path.join(group, key), topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)

    def remove_all(self) -> None:
        """Remove every group of this node."""
        self.remove("")
        if self._note and not any(map(os.path.exists, self._roots.values())):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._note)


def _settings(hierarchy: str, limits: Limits, *, replaced: bool = False) -> list[tuple[str, str]]:
    """Return pairs of file and text to write into a group.

    Files of limits that are not set are written only with ``replaced``, since there may be an earlier limit.
    """
    settings = []
    if hierarchy == "cpu":
        settings.append(("cpu.shares", str(cpu_shares(limits.cpu_request_millicores))))
        if limits.cpu_millicores or replaced:
            settings.append(
                ("cpu.cfs_quota_us", str(cpu_quota(limits.cpu_millicores)) if limits.cpu_millicores else "-1")
            )
    elif hierarchy == "pids" and limits.processes:
        settings.append(("pids.max", str(limits.processes)))
    elif hierarchy == "memory" and (limits.memory_bytes or replaced):
        most = str(limits.memory_bytes or -1)
        settings.append(("memory.limit_in_bytes", most))
        settings.append(("memory.memsw.limit_in_bytes", most))  # no swap on top, as in version 2
    elif hierarchy == "unified":
        settings.append(("cpu.weight", str(cpu_weight(limits.cpu_request_millicores))))
        if limits.cpu_millicores or replaced:
            quota = str(cpu_quota(limits.cpu_millicores)) if limits.cpu_millicores else "max"
            settings.append(("cpu.max", f"{quota} {CFS_PERIOD_MICROSECONDS}"))
        if limits.memory_bytes:
            together = "0" if limits.is_pod else "1"
            settings += [("memory.max", str(limits.memory_bytes)), ("memory.swap.max", "0")]
            settings.append(("memory.oom.group", together))
        elif replaced:
            settings += [("memory.max", "max"), ("memory.swap.max", "max"), ("memory.oom.group", "0")]
        if limits.processes:
            settings.append(("pids.max", str(limits.processes)))
    return settings


def _noted(note: str) -> dict[str, str]:
    """Return the groups that a note names; empty unless all exist, because a restart of the machine removes them."""
    try:
        with open(note) as file:
            roots: dict[str, str] = json.load(file)
    except (OSError, json.JSONDecodeError):
        return {}
    return roots if all(os.access(os.path.join(group, "cgroup.procs"), os.W_OK) for group in roots.values()) else {}


def _find_roots(name: str, root: str, membership: str) -> dict[str, str]:
    """Make the node's group in each hierarchy in which this process may write."""
    own = _own_groups(membership)
    controllers = os.path.join(root, "cgroup.controllers")
    candidates: dict[str, Sequence[str]]
    if os.path.exists(controllers):
        mine = own.get("", "/")
        candidates = {"unified": [root, os.path.join(root, os.path.dirname(mine).strip("/"))]}
    else:
        hierarchies = [*CONTROLLERS, *_ACCOUNTING] if not _is_shared(root, "cpu", "cpuacct") else CONTROLLERS
        candidates = {h: [os.path.join(root, h, own.get(h, "/").strip("/"))] for h in hierarchies}
    roots = {}
    for hierarchy, parents in candidates.items():
        for parent in parents:
            group = os.path.join(parent, name)
            if _usable(hierarchy, parent, group):
                roots[hierarchy] = group
                break
    return roots


def _is_shared(root: str, hierarchy: str, other: str) -> bool:
    return os.path.realpath(os.path.join(root, hierarchy)) == os.path.realpath(os.path.join(root, other))


def _usable(hierarchy: str, parent: str, group: str) -> bool:
    try:
        _delegate(hierarchy, parent)
        os.makedirs(group, exist_ok=True)
        _delegate(hierarchy, group)
    except OSError:
        return False
    return os.access(os.path.join(group, "cgroup.procs"), os.W_OK)


def _make_below(hierarchy: str, group: str, key: str) -> None:
    """Make a group and its parents; in version 2 each parent must enable the controllers for its children."""
    parts = key.split("/")
    for depth in range(1, len(parts) + 1):
        path = os.path.join(group, *parts[:depth])
        os.makedirs(path, exist_ok=True)
        if depth < len(parts):
            _delegate(hierarchy, path)


def _delegate(hierarchy: str, group: str) -> tuple[str, ...]:
    """Enable the controllers for child groups, as version 2 requires; return those that cannot be enabled.

    Raises:
        OSError: Not even the memory controller can be enabled.
    """
    missing = []
    if hierarchy == "unified":
        control = os.path.join(group, "cgroup.subtree_control")
        for name in ("pids", "cpu"):
            try:
                _write(control, f"+{name}")
            except OSError:  # some systems do not delegate this controller to ordinary users
                missing.append(name)
        _write(control, "+memory")
    return tuple(sorted(missing))


def _own_groups(path: str) -> dict[str, str]:
    """Return this process's group by controller; version 2's is under the empty name."""
    groups = {}
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            for controller in controllers.split(","):
                groups[controller] = group
    return groups


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _counter(path: str, name: str) -> int:
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
