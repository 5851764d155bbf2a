"""Become a process of a container: enter its namespaces and control groups, take its user, execute a command.

Both the container's own process and every command that is run in it later (probes, hooks, exec) use `become`, so that
none of them can get more rights than the others. Standard library only.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import socket
import stat
import termios
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from strato.node import beneath
from strato.node.sandbox import capabilities, linux, seccomp

START_ERROR = 128
"""Exit code of a process that could not be started, as containerd reports it."""
MESSAGE_BYTES = 4096
RUNTIME_DEFAULT = "RuntimeDefault"
USERS_OF_A_POD = 65536
"""User and group ids in a pod's own user namespace, as Kubernetes has them."""

Spec = dict[str, Any]
State = dict[str, Any]


@dataclass(slots=True)
class ContainerEntry:
    """Descriptors of the control groups and namespaces that a process joins, in that order, to enter a container."""

    cgroups: list[int] = field(default_factory=list)
    namespaces: list[int] = field(default_factory=list)
    user: int | None = None
    """User namespace, entered last, because in it the process has no rights to the machine any more."""
    arriving: socket.socket | None = None
    """Socket that receives the descriptors of further namespaces, which are still being made."""

    @classmethod
    def of_spec(cls, spec: Spec) -> ContainerEntry:
        """Open the control groups and the pod's namespaces that the container's specification names."""
        entry = cls([os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in spec["cgroups"]])
        if spec["isolation"] == "root":
            entry.namespaces = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in spec["namespaces"]]
        if spec["userNamespace"]:
            entry.user = linux.user_namespace_of(spec["userNamespace"])
        return entry

    @property
    def descriptors(self) -> list[int]:
        """All descriptors."""
        return [*self.cgroups, *self.namespaces, *([self.user] if self.user is not None else [])]


def enter_running(spec: Spec, state: State) -> ContainerEntry:
    """Open a running container's namespaces, and make this process's children members of its process namespace.

    Raises:
        ProcessLookupError: The container has ended.
    """
    pid = state["pid"]
    entry = ContainerEntry.of_spec(spec)
    if spec["isolation"] != "plain":
        entry.namespaces += [
            os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC) for number in state["namespaces"]
        ]
        owner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    process = process_namespace(state)
    if spec["isolation"] == "user":
        linux.enter(owner)
    if spec["isolation"] != "plain":
        linux.enter(process)
    os.close(process)
    return entry


def process_namespace(state: State) -> int:
    """Return a descriptor of a running container's process namespace.

    Raises:
        ProcessLookupError: The container has ended.
    """
    pid = state["pid"]
    try:
        namespace = os.open(f"/proc/{pid}/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProcessLookupError("the container does not run") from None
    if linux.start_ticks(pid) != state["startTicks"]:  # the pid has been reused by another process
        os.close(namespace)
        raise ProcessLookupError("the container does not run")
    return namespace


def become(
    spec: Spec,
    entry: ContainerEntry,
    argv: Sequence[str],
    standard: Sequence[int | None],
    failed: int,
    terminal: socket.socket | None = None,
) -> NoReturn:
    """Turn this process into a process of the container; writes a failure to ``failed`` and exits.

    Call it in a new child process. It closes all descriptors but standard input, output and error, and until the
    ``exec`` no process of the container can inspect this one.

    Args:
        spec: Specification of the container.
        entry: Descriptors of what the process joins.
        argv: The program and its arguments.
        standard: Descriptors of input, output and error output; None is ``/dev/null``.
        failed: Descriptor to which failures are written.
        terminal: If given, the process opens a terminal for all three and sends its other end to this socket.
    """
    try:
        linux.hide_from_tracers()
        # before entering, because the container's /proc could be a volume with false files
        newest, held = linux.last_capability(), linux.held_capabilities()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for fd in entry.cgroups:
            os.write(fd, b"0")
        null = os.open("/dev/null", os.O_RDWR)
        for place, descriptor in enumerate(standard):
            os.dup2(null if descriptor is None else descriptor, place)
        if terminal is None:
            _own_output(spec, has_input=standard[0] is not None)
        arriving = entry.arriving
        optional = [entry.user] if entry.user is not None else []
        optional += [one.fileno() for one in (arriving, terminal) if one is not None]
        linux.close_all_but([0, 1, 2, failed, *entry.namespaces, *optional])
        if arriving is not None:
            message, fds = receive_fds(arriving)
            if not message:
                os._exit(START_ERROR)  # the namespaces could not be made; the process that failed reports why
            entry.namespaces += fds
        if spec["isolation"] != "plain":
            if entry.cgroups:
                with contextlib.suppress(OSError):  # a kernel without this kind of namespace
                    linux.unshare(linux.CLONE_NEWCGROUP)
            for fd in entry.namespaces:
                linux.enter(fd)
        os.umask(0o022)
        if spec["isolation"] != "plain":
            beneath.change_directory(spec["workingDir"])
        env = dict(spec["env"])
        if "HOME" not in env:
            env["HOME"] = _home(spec["security"]["uid"] or 0)
        if terminal is not None:
            env.setdefault("TERM", "xterm")
        _be_user(spec["security"], entry.user, newest, held, own_root=bool(spec["base"]))
        if spec["isolation"] == "plain":  # without a root of its own the process's user makes the directory
            beneath.change_directory(spec["workingDir"])
        if terminal is not None:
            _open_terminal(terminal)
        linux.hide_from_tracers()  # again: with fs.suid_dumpable set, a change of user makes a process dumpable
        os.execvpe(argv[0], list(argv), env)
    except BaseException as error:  # this process must never return into the caller's code
        with contextlib.suppress(OSError):
            os.write(failed, _explain(argv[0], error).encode())
        os._exit(START_ERROR)


def _be_user(security: dict[str, Any], user_namespace: int | None, newest: int, held: int, *, own_root: bool) -> None:
    """Take the container's user, groups, capabilities and seccomp filter; the last step before the ``exec``."""
    kept, uid, gid = security["capabilities"], security["uid"], security["gid"]
    program = _filter(security)
    groups = list(security["groups"])
    if own_root and security["mergeGroups"] and uid is not None:
        found = [group for group in _groups_of(uid) if group not in groups]
        groups += found if user_namespace is None else [group for group in found if group < USERS_OF_A_POD]
    if user_namespace is not None:
        linux.enter(user_namespace)
    if program and not security["noNewPrivileges"]:
        linux.set_filter(program)  # before capabilities are dropped, which it needs
    if kept is not None:
        linux.drop_bounding(kept, newest)
        if security["setGroups"]:
            os.setgroups(groups)
    if gid is not None:
        os.setgid(gid)
    if uid is not None:
        os.setuid(uid)
    if kept is not None:
        bits = sum(1 << number for number in kept) & held
        linux.set_capabilities(bits if os.getuid() == 0 else 0)
    linux.die_with_parent()
    if security["noNewPrivileges"]:
        linux.set_no_new_privileges()
        if program:
            linux.set_filter(program)


def _open_terminal(other_end: socket.socket) -> None:
    """Open a terminal in the container with the rights of its user, and send its other end."""
    try:
        master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(f"/dev/ptmx of the container gives no terminals: {error.strerror}") from error
    found = os.fstat(master)
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != os.makedev(5, 2):
        raise RuntimeError("/dev/ptmx of the container gives no terminals")
    fcntl.ioctl(master, _TIOCSPTLCK, b"\0\0\0\0")
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(slave, number)
    socket.send_fds(other_end, [b"t"], [master])
    for descriptor in (slave, master, other_end.fileno()):
        os.close(descriptor)


_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441


def _own_output(spec: Spec, *, has_input: bool) -> None:
    """Make the container's user the owner of its standard streams, so that it can open ``/dev/stdin`` and the like."""
    security = spec["security"]
    if spec["isolation"] != "user" and security["uid"] is not None and os.geteuid() == 0:
        for number in (0, 1, 2) if has_input else (1, 2):
            os.fchown(number, spec["userBase"] + security["uid"], spec["userBase"] + security["gid"])


def _filter(security: dict[str, Any]) -> bytes:
    if security["seccomp"] == RUNTIME_DEFAULT:
        names = {number: name for name, number in capabilities.NUMBERS.items()}
        return seccomp.default_filter(frozenset(names[number] for number in security["capabilities"] or ()))
    return b64decode(security["seccomp"])


def _home(uid: int) -> str:
    """Return a user's home directory from the image's ``/etc/passwd``."""
    for fields in _lines("/etc/passwd"):
        if len(fields) > 5 and fields[2] == str(uid) and fields[5].startswith("/"):
            return fields[5]
    return "/"


def _groups_of(uid: int) -> list[int]:
    """Return the groups of a user in the image's ``/etc/group``."""
    names = [fields[0] for fields in _lines("/etc/passwd") if len(fields) > 3 and fields[2] == str(uid)]
    if not names:
        return []
    entries = (fields for fields in _lines("/etc/group") if len(fields) > 3 and fields[2].isdigit())
    return [int(fields[2]) for fields in entries if names[0] in fields[3].split(",")]


def _lines(path: str) -> list[list[str]]:
    """Return the fields of each line of a file of the container, which may have any content and any type."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            text = file.read(_PASSWD_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return []
    return [line.split(":") for line in text.splitlines()]


_PASSWD_BYTES = 1 << 20


def _explain(name: str, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and "/" not in name:
        return f'exec: "{name}": executable file not found in $PATH'
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f'exec: "{name}": {text[:1].lower()}{text[1:]}'


def receive_fds(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return a message and its descriptors, which are close-on-exec; empty when the other end is closed."""
    room = socket.CMSG_SPACE(8 * array.array("i").itemsize)
    message, ancillary, _, _ = sock.recvmsg(MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, list(fds)


def kill_group(processes: str) -> None:
    """Kill all processes in a control group and those below it, at once where the kernel can (version 2, Linux 5.14).

    Args:
        processes: The group's ``cgroup.procs``.
    """
    try:
        descriptor = os.open(os.path.join(os.path.dirname(processes), "cgroup.kill"), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        with contextlib.suppress(OSError), open(processes) as file:
            for line in file:
                _signal(int(line), signal.SIGKILL)
        return
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)


def kill_tree(pid: int) -> None:
    """Kill a child process and all its descendants; stops them first, so that none escapes by forking."""
    stopped: set[int] = set()
    while fresh := _tree(pid) - stopped:
        for each in fresh:
            _signal(each, signal.SIGSTOP)
        stopped |= fresh
    for each in stopped:
        _signal(each, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _tree(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found, todo = set(), [pid]
    while todo:
        each = todo.pop()
        found.add(each)
        todo += children.get(each, [])
    return found
