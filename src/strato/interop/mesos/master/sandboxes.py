"""Sandboxes of tasks and executors as paths, which LIST_FILES and READ_FILE name: pure.

As on Mesos' agents a sandbox has two paths: ``/framework/F/executor/E/latest``, and the agent's directory
``/var/lib/mesos/slaves/A/frameworks/F/executors/E/runs/C``, where C is the name of the pod. For a command task, E is
the task's id. A sandbox contains ``stdout``, which is the container's log of both streams, and the persistent volumes
whose path is below the sandbox; in a group, each task has these in ``tasks/T``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from strato.interop.mesos.master.model import value_of
from strato.interop.mesos.master.state import MasterState, Unit
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.resources import NOTHING, Resources

WORK_DIR = "/var/lib/mesos"
LOG = "stdout"
_MOST_LETTERS = 4096


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The log of a container."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """A file or directory in a persistent volume."""

    volume: str
    path: str
    """Path below the volume; empty is the volume itself. Untrusted, as clients choose it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A virtual directory, which contains logs, volumes or further directories."""

    entries: dict[str, Place] = field(default_factory=dict)


Place = LogPlace | VolumePlace | Folder


def directory_of(unit: Unit) -> str:
    """Return the path of a pod's sandbox in the agent's work directory."""
    owner = f"{WORK_DIR}/slaves/{unit.agent_id}/frameworks/{unit.framework_id}"
    return f"{owner}/executors/{executor_of(unit)}/runs/{unit.name}"


def executor_of(unit: Unit) -> str:
    """Return the id of a pod's executor; for a command task, the task's id."""
    if unit.executor is not None:
        return unit.executor.id
    info = unit.default_executor or unit.old_executor
    if info is not None:
        return value_of(info, "executor_id")
    return unit.tasks[0].id if unit.tasks else ""


def find(state: MasterState, path: str, agent_id: str = "") -> Place | None:
    """Return the file or directory that a path names; None if there is none.

    Args:
        state: The master's state.
        path: The path as the client gave it.
        agent_id: The only agent whose sandboxes are searched; empty searches all.
    """
    if len(path) > _MOST_LETTERS or "\0" in path:
        return None
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        return None
    above = [name for name in WORK_DIR.split("/") if name]
    match names[len(above) :] if names[: len(above)] == above else names:
        case ["framework", framework, "executor", executor, "latest", *rest]:
            run = ""
        case ["slaves", owner, "frameworks", framework, "executors", executor, "runs", run, *rest] if agent_id in (
            "",
            owner,
        ):
            agent_id, run = owner, "" if run == "latest" else run
        case _:
            return None
    units = [
        unit
        for unit in state.units.values()
        if unit.framework_id == framework and executor_of(unit) == executor and run in ("", unit.name)
        and agent_id in ("", unit.agent_id)
    ]  # fmt: skip
    return _below(_sandbox(units[-1]), rest) if units else None


def _below(place: Place, names: list[str]) -> Place | None:
    while names and isinstance(place, Folder):
        found = place.entries.get(names[0])
        if found is None:
            return None
        place, names = found, names[1:]
    if isinstance(place, VolumePlace):
        return VolumePlace(place.volume, "/".join(names))
    return None if names else place


def _sandbox(unit: Unit) -> Folder:
    if unit.is_group:
        tasks: dict[str, Place] = {
            task.id: _of_container(unit, f"task-{position}", task.resources) for position, task in enumerate(unit.tasks)
        }
        return Folder({"tasks": Folder(tasks)})
    is_command = unit.executor is None and unit.old_executor is None
    return _of_container(unit, "task-0" if is_command else "executor", unit.pod_resources)


def _of_container(unit: Unit, container: str, resources: Resources) -> Folder:
    folder = Folder({LOG: LogPlace(unit.name, container)})
    for path, volume in _volumes(unit.agent_id, resources or NOTHING):
        *above, name = path
        within = folder
        for each in above:
            below = within.entries.setdefault(each, Folder())
            if not isinstance(below, Folder):  # a volume mounted inside another one
                break
            within = below
        else:
            within.entries.setdefault(name, volume)
    return folder


def _volumes(agent_id: str, resources: Resources) -> Iterator[tuple[list[str], VolumePlace]]:
    for kind, _ in resources:
        if kind.disk is None or kind.disk.persistence_id is None:
            continue
        path = json.loads(kind.disk.text).get("volume", {}).get("container_path", "")
        names = [name for name in path.split("/") if name not in ("", ".")]
        if names and not path.startswith("/") and ".." not in names:
            yield names, VolumePlace(volume_name(agent_id, kind.role, kind.disk.persistence_id), "")
