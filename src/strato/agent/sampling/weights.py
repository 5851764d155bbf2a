"""How much of a busy CPU a control group gets beside others, and how it is made to give way to all of them.

Linux 5.15 and later have ``cpu.idle``: who is of such a group runs when nobody else wants to, and is taken off the CPU
at once when somebody does. A quota alone cannot do that: until it is used up, all others have to wait in turn.
Before, the least weight comes closest.
"""

from __future__ import annotations

import contextlib
import os

from strato.agent.sampling.layouts import Group
from strato.kernelstats import read_text

_LEAST_SHARES, _LEAST_WEIGHT = 2, 1


def read_weight(group: Group) -> int | None:
    """Return a group's shares, or weight in version 2; None: it gives way already, or cannot be read."""
    try:
        return None if gives_way(group) else int(read_text(_weight_file(group)))
    except (OSError, ValueError):
        return None


def gives_way(group: Group) -> bool:
    """Tell whether a group runs only when nobody else wants to.

    Raises:
        OSError, ValueError: Nothing says so: the group has gone, or has no CPU controller.
    """
    if os.path.exists(_idle_file(group)):
        return read_text(_idle_file(group)).strip() == "1"
    return int(read_text(_weight_file(group))) <= _least(group)


def give_way(group: Group) -> None:
    """Let a group run only when nobody else wants to.

    Raises:
        OSError, ValueError: The kernel refuses, or the group has gone.
    """
    if gives_way(group):
        return
    if os.path.exists(_idle_file(group)):
        _write(_idle_file(group), "1")
    else:
        _write(_weight_file(group), str(_least(group)))


def take_part(group: Group, weight: int) -> None:
    """Let a group compete with others again, with the weight that it had.

    Raises:
        OSError, ValueError: The kernel refuses, or the group has gone.
    """
    if not gives_way(group):
        return
    if os.path.exists(_idle_file(group)):
        _write(_idle_file(group), "0")  # while it says 1, no weight can be set
    with contextlib.suppress(ValueError):
        if int(read_text(_weight_file(group))) == weight:
            return
    _write(_weight_file(group), str(weight))


def _weight_file(group: Group) -> str:
    return os.path.join(group.cpu, "cpu.weight" if group.is_unified else "cpu.shares")


def _idle_file(group: Group) -> str:
    return os.path.join(group.cpu, "cpu.idle")


def _least(group: Group) -> int:
    return _LEAST_WEIGHT if group.is_unified else _LEAST_SHARES


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
