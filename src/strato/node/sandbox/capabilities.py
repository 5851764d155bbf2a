"""Linux capabilities: their names and numbers, and what a container has by default. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = str.split(
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT "
    "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP "
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
NUMBERS = {name: number for number, name in enumerate(_NAMES)}
"""Name without ``CAP_`` → bit."""
ALL = frozenset(_NAMES)
DEFAULT = frozenset(
    str.split(
        "CHOWN DAC_OVERRIDE FSETID FOWNER NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
        "AUDIT_WRITE"
    )
)
"""The defaults of containerd and Docker except MKNOD, which without a device filter gives access to the disks."""
NAMESPACED = frozenset(str.split("CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP SETFCAP SYS_CHROOT"))
"""Capabilities that have an effect in a user namespace with a single user and without its own network."""


def choose(added: Iterable[str], dropped: Iterable[str], start: frozenset[str] = DEFAULT) -> frozenset[str]:
    """Return the capabilities of a container after ``capabilities.add`` and ``drop``, by container runtimes' rules.

    ``ALL`` is applied first, in ``drop`` before ``add``, then single names; a name both added and dropped is dropped.

    Raises:
        KeyError: The kernel has no such capability; the name is its argument.
    """
    add, drop = [_plain(name) for name in added], [_plain(name) for name in dropped]
    if "ALL" in drop:
        start = frozenset()
    elif "ALL" in add:
        start = ALL
    return (start | (set(add) - {"ALL"})) - set(drop)


def _plain(name: str) -> str:
    short = name.upper().removeprefix("CAP_")
    if short != "ALL" and short not in NUMBERS:
        raise KeyError(name)
    return short


def names_of(bits: int) -> frozenset[str]:
    """Return the names of a set of bits."""
    return frozenset(name for name, number in NUMBERS.items() if bits >> number & 1)
