"""Paths below the node's data directory, and the removal of the files there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strato.node import beneath
from strato.node.removal import remove_tree

_ANEW = "anew"
"""Name of an empty file in the directory of a pod that has run and must run again from its beginning."""


@dataclass(frozen=True, slots=True)
class PodPaths:
    """Paths of one pod."""

    home: str
    remove: Callable[[str], object] = remove_tree
    """Removes a tree, at once or later."""

    @property
    def namespaces(self) -> str:
        """Directory of the files at which its namespaces are mounted."""
        return os.path.join(self.home, "ns")

    @property
    def uts_namespace(self) -> str:
        """File of its UTS namespace, which every pod with namespaces has and which its user namespace owns."""
        return f"{self.namespaces}/uts"

    @property
    def has_namespaces(self) -> bool:
        """Whether the pod's namespaces have been made: its containers may run."""
        return os.path.exists(self.uts_namespace)

    def file(self, name: str) -> str:
        """A generated file: ``hosts``, ``hostname``, ``resolv.conf``."""
        return os.path.join(self.home, "etc", name)

    def volume(self, name: str) -> str:
        """Directory of a volume."""
        return os.path.join(self.home, "volumes", name)

    def attempt(self, container: str, number: int) -> str:
        """Directory of one run of a container."""
        return os.path.join(self.home, "containers", container, str(number))

    def log(self, container: str, number: int) -> str:
        """Log of one run of a container."""
        return os.path.join(self.home, "logs", container, f"{number}.log")

    def last_attempt(self, container: str) -> int:
        """The number of the newest run that has a directory, -1 before the first."""
        try:
            names = os.listdir(os.path.join(self.home, "containers", container))
        except FileNotFoundError:
            return -1
        return max((int(n) for n in names if n.isdigit()), default=-1)

    def drop_attempt(self, container: str, number: int) -> None:
        """Remove the directory and the log of an old run."""
        self.remove(self.attempt(container, number))
        directory, name = os.path.split(self.log(container, number))
        if os.path.isdir(directory):
            for entry in os.listdir(directory):
                if entry == name or entry.startswith(name + "."):
                    os.unlink(os.path.join(directory, entry))

    def write_identity(self, namespace: str, name: str, ip: str, *, shares_network: bool) -> None:
        """Write which pod the directory belongs to, and whether the pod shares the machine's network."""
        os.makedirs(os.path.join(self.home, "etc"), exist_ok=True)
        network = "machine" if shares_network else "own"
        self._note("pod.json", {"namespace": namespace, "name": name, "ip": ip, "network": network})

    @property
    def shares_network(self) -> bool:
        """Whether `write_identity` has recorded that the pod shares the machine's network."""
        return self.identity().get("network") == "machine"

    def identity(self) -> dict[str, str]:
        """Return what `write_identity` has written; empty if it was not called."""
        found: dict[str, str] | None = self._noted("pod.json")
        return {} if found is None else found

    def write_gpus(self, names: Sequence[str]) -> None:
        """Write which whole GPUs the pod has."""
        self._note("gpus.json", list(names))

    def gpus(self) -> list[str]:
        """Return what `write_gpus` has written; empty if it was not called."""
        found: list[str] | None = self._noted("gpus.json")
        return [] if found is None else found

    def _note(self, name: str, value: Any) -> None:
        path = os.path.join(self.home, name)
        with open(path + ".new", "w") as file:
            json.dump(value, file)
        os.replace(path + ".new", path)

    def _noted(self, name: str) -> Any:
        """Return the content of a JSON file, None when it does not exist or was not completely written."""
        try:
            with open(beneath.open_regular(os.path.join(self.home, name)), "rb") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return None

    def drop_gpus(self) -> None:
        """Remove the record of the pod's GPUs; call it when its containers have ended."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.home, "gpus.json"))

    def forget_logs(self) -> None:
        """Remove the logs from before a restart of a pod that runs again from its beginning."""
        remove_tree(os.path.join(self.home, "logs"))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.home, _ANEW))

    def forget_runs(self, *, anew: bool) -> None:
        """Remove all files but the logs and the records of runs; with ``anew`` remove these records too."""
        kept = {"logs", _ANEW} if anew else {"logs", _ANEW, "containers", "pod.json"}
        found = os.listdir(self.home)
        if anew and "containers" in found:
            with open(os.path.join(self.home, _ANEW), "w"):
                pass
        for name in found:
            if name not in kept:
                self.remove(os.path.join(self.home, name))
        for container in _entries(os.path.join(self.home, "containers")):
            for attempt in _entries(container):
                for path in _entries(attempt):
                    if os.path.basename(path) not in ("state.json", "exit.json"):
                        self.remove(path)
        if not os.listdir(self.home):
            self.remove(self.home)

    @property
    def begins_anew(self) -> bool:
        """Whether the pod ran here before, and must run again from its beginning (`forget_runs`)."""
        return os.path.exists(os.path.join(self.home, _ANEW))

    def runs(self, attempt: str) -> bool:
        """Whether a run has begun, and its end is not recorded."""
        begun, ended = (os.path.exists(os.path.join(attempt, name)) for name in ("state.json", "exit.json"))
        return begun and not ended

    def running_pids(self) -> list[str]:
        """Return the attempt directories that hold a state file without an ending."""
        found = []
        for directory, _, files in os.walk(os.path.join(self.home, "containers")):
            if "state.json" in files and "exit.json" not in files:
                found.append(directory)
        return found


def _entries(directory: str) -> list[str]:
    """Return the paths of what is in a directory; a missing one is empty."""
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory)]
    except FileNotFoundError:
        return []


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Paths of a node."""

    data_dir: str
    remove: Callable[[str], object] = remove_tree
    """Removes a tree of a pod's, at once or later."""

    def pod(self, uid: str) -> PodPaths:
        """Paths of a pod."""
        return PodPaths(os.path.join(self.data_dir, "pods", uid), self.remove)

    @property
    def cgroups(self) -> str:
        """File with the paths of the pods' control groups."""
        return os.path.join(self.data_dir, "cgroups.json")

    def uids(self) -> list[str]:
        """Uids of the pods that have directories."""
        try:
            return sorted(os.listdir(os.path.join(self.data_dir, "pods")))
        except FileNotFoundError:
            return []

    def memory_dir(self, uid: str) -> str:
        """Directory in memory for ``emptyDir`` volumes of medium Memory."""
        return f"/dev/shm/strato-{uid}"

    def remove_pod(self, uid: str) -> None:
        """Remove all files of a pod whose processes are gone."""
        self.remove(self.memory_dir(uid))
        self.remove(self.pod(uid).home)

    def clear_pod(self, uid: str, *, anew: bool) -> None:
        """Remove the files that a pod whose processes are gone does not need any more (see `PodPaths.forget_runs`)."""
        self.remove(self.memory_dir(uid))
        if os.path.isdir(self.pod(uid).home):
            self.pod(uid).forget_runs(anew=anew)
