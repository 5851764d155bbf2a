"""The few system calls that Python 3.11 does not offer: namespaces, mounts, pivot_root, prctl.

Everything in this file, `netlink`, `rootfs`, `supervisor` and `spawner` uses the standard library only: it runs in
the small helper process, whose start and memory every container pays for.
"""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 4096, 16384, 1 << 19
MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_NAME = 1, 36, 38, 15
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by the flags for new ones."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def enter_namespace(path: str) -> None:
    """Join the namespace behind a file (``/proc/PID/ns/net`` or a bind mount of it)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(fd)
    finally:
        os.close(fd)


def enter(namespace_fd: int) -> None:
    """Join the namespace behind an open descriptor."""
    _check(_libc.setns(namespace_fd, 0), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Call the kernel's mount: a new file system, a bind or a remount, by the flags."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)
    _check(result, f"mount {source} on {target}")


def bind(source: str, target: str, *, read_only: bool = False, recursive: bool = True) -> None:
    """Show ``source`` (file or directory) at ``target``, which must exist."""
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        make_read_only(target)


def bind_descriptor(source: int, target: int, staging: str = "") -> None:
    """Show an open file or directory at an open mount point: nothing can be put in the place of either.

    Args:
        source: Descriptor of what is shown; O_PATH is enough.
        target: Descriptor of the mount point; a directory if the source is one.
        staging: To show it read-only: an empty place of the caller's, of the same kind, where it is mounted for the
            moment. What a descriptor was mounted on cannot be reached through that descriptor afterwards.
    """
    shown, point = f"/proc/self/fd/{source}", f"/proc/self/fd/{target}"
    if not staging:
        bind(shown, point)
        return
    bind(shown, staging, read_only=True)
    try:
        bind(staging, point)
    finally:
        unmount(staging)


def make_read_only(target: str) -> None:
    """Make a mount and all mounts below it read-only."""
    attr = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, ctypes.byref(attr), ctypes.sizeof(attr)
    )
    if result < 0:  # before Linux 5.12: the top mount only
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def unmount(target: str) -> None:
    """Detach a mount; it goes when nobody uses it any more."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def make_mounts_private() -> None:
    """Keep this mount namespace's changes from the machine's."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def pivot_root(new_root: str) -> None:
    """Make a mount the root directory and let go of the old one."""
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    os.chdir(new_root)
    # Both "." at once: the old root is stacked on the new one and detached from there.
    _check(_libc.syscall(number, b".", b"."), f"pivot_root({new_root})")
    unmount(".")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Set the name of this UTS namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), f"sethostname({name})")


def become_subreaper() -> None:
    """Inherit the orphans among the descendants."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends, however it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """Set what ``ps`` shows as the command, at most 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def map_user(uid: int, gid: int) -> None:
    """In a fresh user namespace, be root: map id 0 to the given ids outside."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; with the pid it names a process for good.

    Raises:
        ProcessLookupError: No such process, or only its zombie.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    if fields[0] in (b"Z", b"X"):
        raise ProcessLookupError(pid)
    return int(fields[19])


def boot_id() -> str:
    """Return the identity of this boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
