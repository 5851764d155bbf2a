"""The CPU weight of a control group, and how a group is made idle, so that it runs only when no other group wants to.

Linux 5.15 and later have ``cpu.idle``: tasks of an idle group run only when no others want to, and are preempted at
once by others. A quota cannot do that: until it is used up, other tasks wait for their turn. On older kernels the least
weight comes closest.
"""

from __future__ import annotations

import contextlib
import os

from strato.agent.sampling.layouts import ControlGroup
from strato.kernelstats import read_number, read_text

_LEAST_SHARES, _LEAST_WEIGHT = 2, 1


def read_weight(group: ControlGroup) -> int | None:
    """Return a group's shares, or weight in version 2; None if it is idle already or cannot be read."""
    try:
        return None if gives_way(group) else read_number(_weight_file(group))
    except (OSError, ValueError):
        return None


def gives_way(group: ControlGroup) -> bool:
    """Return whether a group is idle: it runs only when no other group wants to.

    Raises:
        OSError, ValueError: It cannot be read: the group is gone, or has no CPU controller.
    """
    if os.path.exists(_idle_file(group)):
        return read_text(_idle_file(group)).strip() == "1"
    return read_number(_weight_file(group)) <= _least(group)


def give_way(group: ControlGroup) -> None:
    """Make a group idle, so that it runs only when no other group wants to.

    Raises:
        OSError, ValueError: The kernel refuses, or the group has gone.
    """
    if gives_way(group):
        return
    if os.path.exists(_idle_file(group)):
        _write(_idle_file(group), "1")
    else:
        _write(_weight_file(group), str(_least(group)))


def take_part(group: ControlGroup, weight: int) -> None:
    """Make a group compete with others again, with its former weight.

    Raises:
        OSError, ValueError: The kernel refuses, or the group has gone.
    """
    if not gives_way(group):
        return
    if os.path.exists(_idle_file(group)):
        _write(_idle_file(group), "0")  # no weight can be set while the file has 1
    with contextlib.suppress(ValueError):
        if read_number(_weight_file(group)) == weight:
            return
    _write(_weight_file(group), str(weight))


def _weight_file(group: ControlGroup) -> str:
    return os.path.join(group.cpu, "cpu.weight" if group.is_unified else "cpu.shares")


def _idle_file(group: ControlGroup) -> str:
    return os.path.join(group.cpu, "cpu.idle")


def _least(group: ControlGroup) -> int:
    return _LEAST_WEIGHT if group.is_unified else _LEAST_SHARES


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
