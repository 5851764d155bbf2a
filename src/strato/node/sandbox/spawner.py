"""The fork server of the sandbox node: a small process that starts containers in a few milliseconds.

It reads requests from a socket (one JSON message each), forks a worker for each, and the worker answers. It holds a
lock file: at most one spawner serves a data directory, so that a restarted node sees on disk all that an earlier
one began. It ends when the node closes the socket; the containers it started live on. Standard library only.
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
import sys
import time
from typing import Any

from strato.node.sandbox import beneath, gateway, linux, netlink, supervisor

SOCKET_FD = 3
MAX_MESSAGE_BYTES = 131072
_NAMESPACES = ("ipc", "uts", "net")
_OUTPUT_BYTES = 4096

Request = dict[str, Any]


def main() -> None:
    """Serve until the node hangs up. ``argv[1]`` is the lock file."""
    lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    linux.set_process_name("strato-spawner")
    linux.become_subreaper()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(SOCKET_FD, False)
    sock = socket.socket(fileno=SOCKET_FD)
    gc.freeze()
    sock.send(b'{"id":0}')
    while True:
        message = sock.recv(MAX_MESSAGE_BYTES)
        if not message:
            return
        if os.fork() == 0:
            os.close(lock)
            _work(sock, message)


def _work(sock: socket.socket, message: bytes) -> None:
    answer: dict[str, Any] = {}
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        request = json.loads(message)
        answer = {"id": request["id"]}
        answer |= _OPERATIONS[request["op"]](request)
    except Exception as error:  # a worker's failure is an answer, whatever it is
        answer["error"] = f"{type(error).__name__}: {error}"
    finally:
        try:
            sock.send(json.dumps(answer).encode())
        finally:
            os._exit(0)


def _start(request: Request) -> dict[str, Any]:
    return supervisor.launch(request["directory"])


def _probe(_request: Request) -> dict[str, Any]:
    """Find the strongest isolation that works here; each try in a process of its own."""
    for isolation, flags in (
        ("root", linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC),
        ("user", linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS),
    ):
        if _try(flags, isolation == "user"):
            return {"isolation": isolation}
    return {"isolation": "plain"}


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


def _way_out(request: Request) -> dict[str, Any]:
    """Open or close the pods' way out of the machine; why it is closed is in ``problem``."""
    if not request["wanted"]:
        gateway.close_way_out(request["bridge"])
        return {"problem": ""}
    try:
        gateway.open_way_out(request["bridge"], request["network"])
    except OSError as err:
        return {"problem": str(err)}
    return {"problem": ""}


def _pod(request: Request) -> dict[str, Any]:
    """Make a pod's namespaces, kept by files in its directory, and cable it to the bridge."""
    directory = request["directory"]
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _pod_inside(request, ready_write, done_read, done_write)
    os.close(ready_write)
    os.close(done_read)
    try:
        if os.read(ready_read, 1) != b"r":
            raise OSError("the pod's namespaces could not be made")
        os.makedirs(directory, exist_ok=True)
        for name in _wanted(request):
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
        raise OSError("the pod's network could not be set up")
    return {}


def _wanted(request: Request) -> tuple[str, ...]:
    return _NAMESPACES if request["network"] else _NAMESPACES[:2]


def _pod_inside(request: Request, ready: int, done: int, done_write: int) -> None:
    code = 1
    try:
        os.close(done_write)
        network = linux.CLONE_NEWNET if request["network"] else 0
        linux.unshare(linux.CLONE_NEWIPC | linux.CLONE_NEWUTS | network)
        linux.set_hostname(request["hostname"])
        os.write(ready, b"r")
        if os.read(done, 1) == b"d":
            if network:
                netlink.set_up("lo")
                netlink.add_address("eth0", request["address"], request["prefix"])
                netlink.set_up("eth0")
                netlink.add_default_route(request["gateway"])
            code = 0
    finally:
        os._exit(code)


def _unpod(request: Request) -> dict[str, Any]:
    """Let go of a pod's namespaces; the cable goes with them."""
    for name in _NAMESPACES:
        path = os.path.join(request["directory"], name)
        with contextlib.suppress(OSError):  # never made
            linux.unmount(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if request.get("veth"):
        netlink.delete_link(request["veth"])
    return {}


def _exec(request: Request) -> dict[str, Any]:
    """Run a command in a running container and wait for it; output is cut to 4 KiB."""
    out_read, out_write = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(out_read)
        _exec_inside(request, out_write)
    os.close(out_write)
    output, timed_out = _collect(out_read, time.monotonic() + request["timeout"])
    if timed_out:
        os.kill(worker, signal.SIGKILL)
    status = os.waitpid(worker, 0)[1]
    code = -1 if timed_out else os.waitstatus_to_exitcode(status)
    return {"exitCode": code, "output": output.decode(errors="replace")}


def _collect(fd: int, deadline: float) -> tuple[bytes, bool]:
    output = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            break
        data = os.read(fd, _OUTPUT_BYTES)
        if not data:
            return output, False
        output = (output + data)[:_OUTPUT_BYTES]
    return output, True


def _exec_inside(request: Request, out: int) -> None:
    code = 126
    try:
        pid, isolation = request["pid"], request["isolation"]
        if isolation != "plain":
            names = (*(("user",) if isolation == "user" else ()), "ipc", "uts", "net", "pid", "mnt")
            fds = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
            for fd in fds:
                linux.enter(fd)
        child = os.fork()
        if child == 0:
            try:
                os.dup2(out, 1)
                os.dup2(out, 2)
                beneath.change_directory(request["workingDir"])
                os.execvpe(request["argv"][0], request["argv"], request["env"])
            finally:
                os._exit(127)
        os.close(out)
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os._exit(code if code >= 0 else 128 - code)


_OPERATIONS = {
    "start": _start,
    "probe": _probe,
    "bridge": _bridge,
    "wayOut": _way_out,
    "pod": _pod,
    "unpod": _unpod,
    "exec": _exec,
}
