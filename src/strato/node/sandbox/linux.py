"""The few system calls that Python 3.11 does not offer: namespaces, mounts, pivot_root, prctl.

Everything in this file, `netlink`, `rootfs`, `supervisor` and `spawner` uses the standard library only: it runs in
the small helper process, whose start and memory every container pays for.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Callable, Iterable, Iterator

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP = 0x10000000, 0x20000000, 0x40000000, 0x02000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 4096, 16384, 1 << 19
MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_NAME = 1, 36, 38, 15
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 4, 22, 24, 47
_SECCOMP_MODE_FILTER, _PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_NS_GET_USERNS = 0xB701
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 1, 4, 0x40
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 1, 2, 4, 0x00100000

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
    """Join the namespace that a file refers to (``/proc/PID/ns/net`` or a bind mount of it)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(fd)
    finally:
        os.close(fd)


def enter(namespace_fd: int) -> None:
    """Join the namespace that an open descriptor refers to."""
    _check(_libc.setns(namespace_fd, 0), "setns")


def user_namespace_of(path: str) -> int:
    """Open the user namespace that owns the namespace of a file; it must be this process's own or a descendant."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(fd, _NS_GET_USERNS)
    finally:
        os.close(fd)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Call the kernel's mount: a new file system, a bind or a remount, by the flags."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)
    _check(result, f"mount {source} on {target}")


def bind(source: str, target: str, *, read_only: bool = False, recursive: bool = True) -> None:
    """Show ``source`` (file or directory) at ``target``, which must exist."""
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        make_read_only(target)


def bind_descriptor(
    source: int, target: int, attributes: int, staging: Callable[[], str], user_namespace: int | None = None
) -> None:
    """Bind an open file or directory at an open mount point; both are descriptors, so neither can be replaced.

    Args:
        source: Descriptor of the file or directory to show; O_PATH suffices.
        target: Descriptor of the mount point; a directory if the source is one.
        attributes: ``MOUNT_ATTR_``… of the mount and those below it.
        staging: For kernels before Linux 5.12: makes an empty file or directory of the caller's where the source is
            mounted first, to set attributes. A mount cannot be reached through a descriptor that was opened before
            it was mounted there.
        user_namespace: Descriptor of a user namespace by which owners on disk are mapped (an idmapped mount).

    Raises:
        OSError: Among others, the file system has no idmapped mounts.
    """
    try:
        with _clone_of(source, "") as tree:
            if attributes or user_namespace is not None:
                _set_attributes(tree, "", attributes, user_namespace)
            flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
            _check(_libc.syscall(_SYS_MOVE_MOUNT, tree, b"", target, b"", flags), "move_mount")
        return
    except OSError as err:
        if err.errno != errno.ENOSYS or user_namespace is not None:
            raise
    shown, point = f"/proc/self/fd/{source}", f"/proc/self/fd/{target}"
    if not attributes & MOUNT_ATTR_RDONLY:
        bind(shown, point)
        return
    place = staging()
    bind(shown, place, read_only=True)
    try:
        bind(place, point)
    finally:
        unmount(place)


def bind_mapped(source: str, target: str, user_namespace: int, attributes: int = 0) -> None:
    """Show ``source`` at ``target`` with the owners on disk mapped as in a user namespace (an idmapped mount).

    Raises:
        OSError: The kernel or the file system of ``source``, or of a mount below it, has no such mounts.
    """
    with _clone_of(_AT_FDCWD, source) as tree:
        _set_attributes(tree, "", attributes, user_namespace)
        moved = _libc.syscall(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(moved, f"move_mount {target}")


def can_be_mapped(source: str, user_namespace: int) -> bool:
    """Return whether a directory, with what is mounted below it, can be shown by `bind_mapped`."""
    try:
        with _clone_of(_AT_FDCWD, source) as tree:
            _set_attributes(tree, "", 0, user_namespace)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _clone_of(directory: int, path: str) -> Iterator[int]:
    """Yield a detached copy of a mount, and close it at the end."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC | (0 if path else _AT_EMPTY_PATH)
    tree = _libc.syscall(_SYS_OPEN_TREE, directory, path.encode(), flags)
    _check(tree, f"open_tree {path}")
    try:
        yield tree
    finally:
        os.close(tree)


def make_read_only(target: str, attributes: int = 0) -> None:
    """Make a mount and all mounts below it read-only, with further attributes (``MOUNT_ATTR_``…)."""
    try:
        set_mount_attributes(target, MOUNT_ATTR_RDONLY | attributes)
    except OSError:  # before Linux 5.12: the top mount only
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def set_mount_attributes(target: str, attributes: int) -> None:
    """Add attributes (``MOUNT_ATTR_``…) to a mount and all mounts below it."""
    _set_attributes(_AT_FDCWD, target, attributes)


def _set_attributes(directory: int, path: str, attributes: int, user_namespace: int | None = None) -> None:
    mapped = 0 if user_namespace is None else _MOUNT_ATTR_IDMAP
    attr = _MountAttr(attr_set=attributes | mapped, userns_fd=user_namespace or 0)
    flags = _AT_RECURSIVE | (0 if path else _AT_EMPTY_PATH)
    result = _libc.syscall(_SYS_MOUNT_SETATTR, directory, path.encode(), flags, ctypes.byref(attr), ctypes.sizeof(attr))
    _check(result, f"mount_setattr {path}")


def user_namespace(uid_map: str, gid_map: str) -> int:
    """Return a descriptor of a new user namespace with mappings (``inside outside count``), without processes in it."""
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(done_write)
            unshare(CLONE_NEWUSER)
            os.write(ready_write, b"r")
            os.read(done_read, 1)
        finally:
            os._exit(0)
    os.close(ready_write)
    os.close(done_read)
    try:
        if os.read(ready_read, 1) != b"r":
            raise OSError("a user namespace cannot be made")
        write_maps(pid, uid_map, gid_map)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(done_write)
        os.close(ready_read)
        os.waitpid(pid, 0)


def write_maps(pid: int, uid_map: str, gid_map: str) -> None:
    """Give a process's fresh user namespace its mappings."""
    for name, text in (("uid_map", uid_map), ("gid_map", gid_map)):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)


def unmount(target: str) -> None:
    """Detach a mount; the kernel removes it when no process uses it any more."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def make_mounts_private() -> None:
    """Keep changes in this mount namespace from propagating to the machine's."""
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def pivot_root(new_root: str) -> None:
    """Make a mount the root directory, and detach the old one."""
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
    """Become the parent of descendants whose parents have ended (a subreaper)."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """Set what ``ps`` shows as the command, at most 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def map_user(uid: int, gid: int, inside_uid: int = 0, inside_gid: int = 0) -> None:
    """In a new user namespace, map one id inside to the given id outside."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside_uid} {uid} 1"),
        ("gid_map", f"{inside_gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def make_files_for(owner: int, capabilities: int) -> None:
    """Make files that this process creates from now on belong to a user and group, without losing its file rights.

    Args:
        owner: The number of both the user and the group.
        capabilities: The process's capabilities, set again because the kernel drops some with a change of file user.
    """
    _libc.setfsgid(owner)
    _libc.setfsuid(owner)
    set_capabilities(capabilities)


def hide_from_tracers() -> None:
    """Keep processes without CAP_SYS_PTRACE from this process's memory, descriptors and root, until its ``exec``."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def set_no_new_privileges() -> None:
    """Forbid this process and its children to gain rights by ``exec``."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def drop_bounding(kept: Iterable[int], last: int) -> None:
    """Remove all capabilities but ``kept`` (numbers) from the bounding and ambient sets.

    Raises:
        OSError: This process has no CAP_SETPCAP.
    """
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    stay = set(kept)
    for number in range(last + 1):
        if number not in stay:
            _check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), f"prctl(PR_CAPBSET_DROP, {number})")


def set_capabilities(bits: int) -> None:
    """Set the permitted and effective capabilities, and clear the inheritable ones."""
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("<6I", low, low, 0, high, high, 0)
    _check(_libc.syscall(_SYS_CAPSET[os.uname().machine], header, data), "capset")


def held_capabilities() -> int:
    """Return this process's effective capabilities as bits."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapEff"))


def last_capability() -> int:
    """Return the number of the newest capability the kernel knows."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        return int(file.read())


def set_filter(program: bytes) -> None:
    """Install a seccomp filter; needs `set_no_new_privileges` before it, or CAP_SYS_ADMIN."""
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    described = Program(len(program) // 8, ctypes.addressof(buffer))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0), "prctl(PR_SET_SECCOMP)")


def close_all_but(kept: Iterable[int]) -> None:
    """Close all descriptors but ``kept``."""
    first = 0
    for number in sorted(set(kept)):
        if number > first:
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, max(first, 1 << 20))


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; pid and start time together identify a process.

    Raises:
        ProcessLookupError: There is no such process, or only a zombie.
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
