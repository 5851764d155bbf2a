"""The fork server of the sandbox node: a small process that starts containers in a few milliseconds.

It reads requests from a socket (one JSON message each) and forks a worker for each, which answers. It locks a file, so
that only one spawner serves a data directory and a restarted node finds on disk all containers that an earlier spawner
has started. It ends when the node closes the socket; its containers keep running. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from strato.errors import one_line
from strato.node import netlink
from strato.node.sandbox import channels, commands, container, egress, linux, pause, seccomp, supervisor

SOCKET_FD = 3
MAX_MESSAGE_BYTES = 131072
_FLAGS = {"user": linux.CLONE_NEWUSER, "ipc": linux.CLONE_NEWIPC, "uts": linux.CLONE_NEWUTS, "net": linux.CLONE_NEWNET}
_OUTPUT_BYTES = 4096
_UNUSED_ID = 4294967294
"""A user and group that own no file."""

Request = dict[str, Any]


def main() -> None:
    """Serve until the node closes the socket. An environment variable names the lock file."""
    lock = os.open(os.environ["STRATO_LOCK"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    linux.set_process_name("strato-spawner")
    unmapped = _unmapped_owners()
    linux.become_subreaper()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(SOCKET_FD, False)
    sock = socket.socket(fileno=SOCKET_FD)
    seccomp.warm_up()
    gc.freeze()
    streams = channels.listen(os.path.dirname(os.environ["STRATO_LOCK"]), commands.SOCKET)
    sock.send(b'{"id":0}')
    while True:
        ready = select.select([sock, streams], [], [])[0]
        if sock in ready:
            message = sock.recv(MAX_MESSAGE_BYTES)
            if not message:
                return
            if os.fork() == 0:
                os.close(lock)
                streams.close()
                _work(sock, message, unmapped)
        if streams in ready:
            client, _ = streams.accept()
            if os.fork() == 0:
                os.close(lock)
                for other in (sock, streams):
                    other.close()
                commands.serve(client)
            client.close()


def _unmapped_owners() -> int | None:
    """Return a user namespace that maps no owner of the machine's files, None if that is not supported here."""
    nobody = f"{_UNUSED_ID} {_UNUSED_ID} 1"
    try:
        return linux.user_namespace(nobody, nobody) if os.geteuid() == 0 else None
    except OSError:
        return None


def _work(sock: socket.socket, message: bytes, unmapped: int | None) -> None:
    answer: dict[str, Any] = {}
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        request = json.loads(message)
        answer = {"id": request["id"]}
        if request["op"] == "start":
            _start(request["directory"], answer, sock, unmapped)
        answer |= _OPERATIONS[request["op"]](request)
    except Exception as error:  # any failure of a worker is sent as its answer
        answer["error"] = one_line(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    finally:
        try:
            sock.send(json.dumps(answer).encode())
        finally:
            os._exit(0)


def _start(directory: str, answer: dict[str, Any], sock: socket.socket, unmapped: int | None) -> NoReturn:
    def send(found: dict[str, Any]) -> None:
        sock.send(json.dumps(answer | found).encode())
        sock.close()

    supervisor.launch(directory, send, unmapped)


def _probe(_request: Request) -> dict[str, Any]:
    return {"isolation": strongest_isolation()}


def strongest_isolation() -> str:
    """Find the strongest isolation that works here; tries each in a new process."""
    for isolation, flags in (
        ("root", linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC),
        ("user", linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS),
    ):
        if _try(flags, isolation == "user"):
            return isolation
    return "plain"


def _try(flags: int, as_user: bool) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            uid, gid = os.getuid(), os.getgid()
            linux.unshare(flags)
            if as_user:
                linux.map_user(uid, gid)
            linux.make_mounts_private()
            linux.mount("none", "/mnt", "tmpfs")
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _bridge(request: Request) -> dict[str, Any]:
    """Make the pods' bridge."""
    with contextlib.suppress(FileExistsError):
        netlink.create_bridge(request["name"])
    netlink.add_address(request["name"], request["address"], request["prefix"])
    netlink.set_up(request["name"])
    return {}


def _egress(request: Request) -> dict[str, Any]:
    """Enable or disable egress NAT; ``problem`` in the answer says why it could not be enabled."""
    if not request["wanted"]:
        egress.disable_egress(request["bridge"])
        return {"problem": ""}
    try:
        egress.enable_egress(request["bridge"], request["network"])
    except OSError as err:
        return {"problem": one_line(err)}
    return {"problem": ""}


def _pod(request: Request) -> dict[str, Any]:
    """Make a pod's namespaces, mounted at files in its directory to keep them, and connect it to the bridge."""
    directory = request["directory"]
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _pod_inside(request, ready_write, done_read, done_write)
    os.close(ready_write)
    os.close(done_read)
    try:
        _expect(ready_read)
        if request["userBase"]:
            owners = _block(request["userBase"])
            linux.write_maps(pid, owners, owners)
        os.makedirs(directory, exist_ok=True)
        for name in _wanted(request):
            if name == "user":  # needs no file: it is found as the owner of the pod's UTS namespace
                continue
            target = os.path.join(directory, name)
            os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
            linux.bind(f"/proc/{pid}/ns/{name}", target, recursive=False)
        if request["network"]:
            netlink.delete_link(request["veth"])
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            netlink.create_veth(request["veth"], request["bridge"], "eth0", namespace)
        os.write(done_write, b"d")
    finally:
        os.close(done_write)
        status = os.waitpid(pid, 0)[1]
    if status != 0:
        with open(ready_read, "rb") as reasons:
            reason = reasons.read().decode(errors="replace").lstrip("!")
        raise OSError(f"the pod's namespaces could not be set up{': ' if reason else ''}{reason}")
    if request["sharedProcesses"]:
        pause.start(directory)
    return {}


def _expect(ready: int) -> None:
    found = os.read(ready, 1)
    if found != b"r":
        reason = os.read(ready, _OUTPUT_BYTES).decode(errors="replace")
        raise OSError(f"the pod's namespaces could not be made{': ' if reason else ''}{reason}")


def _wanted(request: Request) -> tuple[str, ...]:
    kinds = {"user": bool(request["userBase"]), "ipc": not request["hostIPC"], "uts": True, "net": request["network"]}
    return tuple(kind for kind, wanted in kinds.items() if wanted)


def _pod_inside(request: Request, ready: int, done: int, done_write: int) -> None:
    code = 1
    try:
        os.close(done_write)
        linux.unshare(sum(_FLAGS[kind] for kind in _wanted(request)))
        linux.set_hostname(request["hostname"])
        os.write(ready, b"r")
        if os.read(done, 1) == b"d":
            if request["userBase"]:
                os.setgid(0)
                os.setuid(0)
            for name, value in request["sysctls"].items():
                with open(os.path.join("/proc/sys", *name.replace(".", "/").split("/")), "w") as file:
                    file.write(value)
            if request["network"]:
                netlink.set_up("lo")
                netlink.add_address("eth0", request["address"], request["prefix"])
                netlink.set_up("eth0")
                netlink.add_default_route(request["gateway"])
            code = 0
    except OSError as err:
        os.write(ready, b"!" + one_line(err).encode())
    finally:
        os._exit(code)


def _block(first: int) -> str:
    return f"0 {first} {container.USERS_OF_A_POD}"


def _map_users(request: Request) -> dict[str, Any]:
    """Answer why pods here cannot have their own users, and for which of some paths owners cannot be mapped.

    ``image``, if not empty, is a directory of the node in which the root file system of an image is tried.
    """
    owners, paths, image = _block(request["userBase"]), list(request["paths"]), request["image"]
    try:
        owner = linux.user_namespace(owners, owners)
    except OSError as err:
        return {"problem": f"this machine allows no user namespaces: {one_line(err)}", "unmapped": paths}
    problem = ""
    if image and not linux.can_be_mapped(image, owner):
        problem = f"the file system of {image} has no idmapped mounts"
    elif image and not _can_overlay(image, owner):
        problem = "this kernel has no overlays of idmapped mounts"
    return {"problem": problem, "unmapped": [path for path in paths if not linux.can_be_mapped(path, owner)]}


def _can_overlay(directory: str, owner: int) -> bool:
    """Return whether an overlay on an idmapped mount works; tries it in a new process and mount namespace."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            linux.unshare(linux.CLONE_NEWNS)
            linux.make_mounts_private()
            names = ("base", "lower", "upper", "work", "root")
            base, lower, upper, work, root = paths = [os.path.join(directory, name) for name in names]
            for path in paths:
                os.makedirs(path, exist_ok=True)
            linux.bind_mapped(base, lower, owner, linux.MOUNT_ATTR_RDONLY)
            linux.mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _remove_namespaces(request: Request) -> dict[str, Any]:
    """Remove the mounts that keep a pod's namespaces; its veth pair is removed with them."""
    pause.stop(request["directory"])
    for name in (*_FLAGS, "pid"):
        path = os.path.join(request["directory"], name)
        with contextlib.suppress(OSError):  # never made
            linux.unmount(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if request.get("veth"):
        netlink.delete_link(request["veth"])
    return {}


def _exec(request: Request) -> dict[str, Any]:
    """Run a command in a running container and wait for it; output is cut to 4 KiB.

    The command has the same namespaces, control groups, user, capabilities and filter as the container's own process.
    On a timeout it and its descendants are killed.
    """
    directory = request["directory"]
    spec, state = (_read(os.path.join(directory, name)) for name in ("spec.json", "state.json"))
    entry = container.enter_running(spec, state)
    out_read, out_write = os.pipe()
    failed_read, failed_write = os.pipe()
    linux.hide_from_tracers()  # before the fork: the child is visible in the container from its first moment on
    pid = os.fork()
    if pid == 0:
        container.become(spec, entry, request["argv"], (None, out_write, out_write), failed_write)
    for fd in (out_write, failed_write, *entry.descriptors):
        os.close(fd)
    with open(failed_read, "rb") as failures:
        problem = failures.read().decode(errors="replace")
    output, timed_out = _collect(out_read, time.monotonic() + request["timeout"])
    if timed_out:
        container.kill_tree(pid)
    status = os.waitpid(pid, 0)[1]
    if problem:
        raise OSError(problem)
    code = -1 if timed_out else os.waitstatus_to_exitcode(status)
    return {"exitCode": code if code >= -1 else 128 - code, "output": output.decode(errors="replace")}


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        body: dict[str, Any] = json.load(file)
    return body


def _collect(fd: int, deadline: float) -> tuple[bytes, bool]:
    """Read a command's output until it ends and return the first part of it, and whether the deadline came first."""
    output = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            break
        data = os.read(fd, _OUTPUT_BYTES)
        if not data:
            return output, False
        output = (output + data)[:_OUTPUT_BYTES]
    return output, True


_OPERATIONS = {
    "probe": _probe,
    "bridge": _bridge,
    "egress": _egress,
    "pod": _pod,
    "removeNamespaces": _remove_namespaces,
    "mapUsers": _map_users,
    "exec": _exec,
}
