"""Find the control groups of a node's pods and containers, for Strato's own node and for kubelets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

_UNIFIED = "unified"


class ControlGroup(NamedTuple):
    """The directories of one control group, one per controller; in version 2 all are the same."""

    cpu: str
    accounting: str
    memory: str
    is_unified: bool
    network: str = ""
    """Directory of the controller ``net_cls``; empty if the node has none."""


class CgroupLayout(Protocol):
    """Finds the control groups of pods and containers."""

    def pod(self, uid: str, qos: str) -> ControlGroup | None:
        """Return a pod's group; None if the node has no writable groups."""

    def container(self, uid: str, qos: str, name: str, container_id: str) -> ControlGroup | None:
        """Return a container's group; None if the node has no writable groups."""

    def best_effort(self) -> ControlGroup | None:
        """Return the group of all best-effort pods; None if there is none or it cannot be read."""

    def all_pods(self) -> ControlGroup | None:
        """Return the group of all pods; None if there is none or it cannot be read."""


class SandboxLayout:
    """Layout of Strato's own node: one group per hierarchy, in it one per pod, in it one per container name.

    Args:
        note: The file in which the node stores the paths of its groups.
    """

    def __init__(self, note: str) -> None:
        self._note = note
        self._roots: Mapping[str, str] = {}

    def pod(self, uid: str, qos: str) -> ControlGroup | None:
        """Return a pod's group."""
        return self._group(uid)

    def container(self, uid: str, qos: str, name: str, container_id: str) -> ControlGroup | None:
        """Return a container's group."""
        return self._group(f"{uid}/{name}")

    def best_effort(self) -> ControlGroup | None:
        """Return None: pods of all QoS classes are in the same group."""
        return None

    def all_pods(self) -> ControlGroup | None:
        """Return the node's group."""
        return self._group("")

    def _group(self, key: str) -> ControlGroup | None:
        if not self._roots:
            try:
                with open(self._note, "rb") as file:
                    found = json.load(file)
            except (OSError, ValueError, RecursionError):
                return None
            is_note = isinstance(found, dict) and all(isinstance(path, str) for path in found.values())
            self._roots = found if is_note else {}
        if _UNIFIED in self._roots:
            directory = os.path.join(self._roots[_UNIFIED], key)
            return ControlGroup(directory, directory, directory, is_unified=True, network=directory)
        if "cpu" not in self._roots:
            return None
        cpu = os.path.join(self._roots["cpu"], key)
        accounting = os.path.join(self._roots["cpuacct"], key) if "cpuacct" in self._roots else cpu
        memory = os.path.join(self._roots["memory"], key) if "memory" in self._roots else ""
        network = os.path.join(self._roots["net_cls"], key) if "net_cls" in self._roots else ""
        return ControlGroup(cpu, accounting, memory, is_unified=False, network=network)


class KubeletLayout:
    """Layout of a kubelet: ``kubepods``, the QoS class, the pod, the container's id.

    Args:
        root: Mount point of control groups, usually ``/sys/fs/cgroup``.
        parent: The kubelet's ``--cgroup-root``; empty is none.
        systemd: Whether systemd manages the groups; None detects it by its slices.
    """

    _SCOPES = ("cri-containerd-", "docker-", "crio-")

    def __init__(self, root: str, parent: str = "", *, systemd: bool | None = None) -> None:
        self._root = root
        self._parts = [part for part in parent.split("/") if part]
        self._is_unified = os.path.exists(os.path.join(root, "cgroup.controllers"))
        slices = os.path.join(*_slices([*self._parts, "kubepods"]))
        self._is_systemd = os.path.isdir(self._full("cpu", slices)) if systemd is None else systemd

    def pod(self, uid: str, qos: str) -> ControlGroup | None:
        """Return a pod's group."""
        return self._group(self._pod_path(uid, qos))

    def container(self, uid: str, qos: str, name: str, container_id: str) -> ControlGroup | None:
        """Return a container's group."""
        bare = container_id.rpartition("//")[2]
        if not bare or "/" in bare or ".." in bare:
            return None
        pod = self._pod_path(uid, qos)
        if self._is_systemd:
            paths = [f"{pod}/{scope}{bare}.scope" for scope in self._SCOPES]
        else:
            paths = [f"{pod}/{bare}", f"{pod}/crio-{bare}"]
        return self._group(next((path for path in paths if os.path.isdir(self._full("cpu", path))), paths[0]))

    def best_effort(self) -> ControlGroup | None:
        """Return the group of the class."""
        group = self._group(self._path(["kubepods", "besteffort"]))
        return group if os.path.isdir(group.cpu) else None

    def all_pods(self) -> ControlGroup | None:
        """Return ``kubepods``."""
        group = self._group(self._path(["kubepods"]))
        return group if os.path.isdir(group.cpu) else None

    def _pod_path(self, uid: str, qos: str) -> str:
        return self._path(["kubepods", *([qos.lower()] if qos and qos != "Guaranteed" else []), f"pod{uid}"])

    def _path(self, parts: Sequence[str]) -> str:
        below = [*self._parts, *parts]
        return "/".join(_slices(below) if self._is_systemd else below)

    def _full(self, hierarchy: str, path: str) -> str:
        return os.path.join(self._root, *([] if self._is_unified else [hierarchy]), path)

    def _group(self, path: str) -> ControlGroup:
        cpu, accounting, memory, network = (
            self._full(hierarchy, path) for hierarchy in ("cpu", "cpuacct", "memory", "net_cls")
        )
        return ControlGroup(cpu, accounting, memory, is_unified=self._is_unified, network=network)


def _slices(parts: Sequence[str]) -> list[str]:
    """Return the directories of a systemd slice, whose names each contain those of all parents."""
    escaped = [part.removesuffix(".slice").replace("-", "_") for part in parts]
    return ["-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped))]
