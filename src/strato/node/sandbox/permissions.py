"""Why this machine allows no namespaces, and what to do about it."""

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
    "volumes are not at their paths, and imported images cannot be used"
)


def plain_warning(settings: str = "/proc/sys") -> str:
    """Return what plain processes lack and, where a setting is the cause, which and how to change it.

    Args:
        settings: Where the kernel shows its settings.
    """
    allowing = forbidding_setting(settings)
    if not allowing:
        return _PLAIN
    name = allowing.partition("=")[0]
    forbids = _read(os.path.join(settings, name.replace(".", "/")))
    return f"{_PLAIN}; the cause is {name}={forbids}, changed by: sudo sysctl {allowing}"


def forbidding_setting(settings: str = "/proc/sys") -> str:
    """Return the setting that forbids namespaces as sysctl takes it to allow them; empty when none does."""
    for path, forbids, allows in _SWITCHES:
        if _read(os.path.join(settings, path)) == forbids:
            return f"{path.replace('/', '.')}={allows}"
    return ""


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:  # another kernel or distribution
        return ""
