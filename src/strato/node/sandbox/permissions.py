"""Find out why this machine allows no namespaces, and which setting would allow them."""

from __future__ import annotations

import os

_SWITCHES = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Settings that forbid namespaces: file below ``/proc/sys``, the value that forbids, one that does not."""
_PLAIN = (
    "pods run as plain processes, for this machine allows no namespaces: they see its files and processes, their "
    "volumes are not at their paths, they do not find Services by name, and imported images cannot be used"
)


def plain_warning(settings: str = "/proc/sys") -> str:
    """Return a warning about the lacking isolation of plain processes and, if a setting is the cause, how to change it.

    Args:
        settings: Directory of the kernel's settings.
    """
    allowing = forbidding_setting(settings)
    if not allowing:
        return _PLAIN
    name = allowing.partition("=")[0]
    forbids = _read(os.path.join(settings, name.replace(".", "/")))
    return f"{_PLAIN}; the cause is {name}={forbids}, changed by: sudo sysctl {allowing}"


def forbidding_setting(settings: str = "/proc/sys") -> str:
    """Return the argument of sysctl that changes a setting which forbids namespaces; empty when none forbids them."""
    for path, forbids, allows in _SWITCHES:
        if _read(os.path.join(settings, path)) == forbids:
            return f"{path.replace('/', '.')}={allows}"
    return ""


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:  # this kernel or distribution does not have the setting
        return ""
