"""PID 1 of a pod whose containers share one process namespace; it only reaps orphans. Standard library only.

It keeps the namespace alive. It is no child of the node, which finds it again through a file in the pod's directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import NoReturn

from strato.node.sandbox import linux

_NOTE = "pause.json"


def start(directory: str) -> None:
    """Make a process namespace with its first process, and a mount of it at the file ``pid`` in a pod's directory.

    Raises:
        OSError: The namespace cannot be made.
    """
    ready_read, ready_write = os.pipe()
    helper = os.fork()
    if helper == 0:
        code = 1
        try:
            linux.unshare(linux.CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                _main(directory, ready_write)
            os.write(ready_write, f"{pid}\n".encode())
            code = 0
        finally:
            os._exit(code)
    os.close(ready_write)
    os.waitpid(helper, 0)
    with open(ready_read, "rb") as file:
        numbers = file.read().split()  # until the process has closed its end
    if len(numbers) != 2:
        raise OSError("the pod's process namespace cannot be made")
    pid = max(map(int, numbers))  # its parent writes its pid; it itself writes 0 when it is ready
    _note(directory, pid)
    target = os.path.join(directory, "pid")
    os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
    linux.bind(f"/proc/{pid}/ns/pid", target, recursive=False)


def _main(directory: str, ready: int) -> NoReturn:
    try:
        linux.set_process_name("strato-pause")
        linux.hide_from_tracers()
        newest = linux.last_capability()
        linux.unshare(linux.CLONE_NEWNS)  # /proc/1/root in the containers must not lead to the machine's file system
        linux.make_mounts_private()
        linux.mount(
            "strato", directory, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, "mode=555,size=4k"
        )
        linux.pivot_root(directory)
        give_up_everything(None, newest)
        os.write(ready, b"0\n")
        linux.close_all_but(())
        reap_for_ever()
    finally:
        os._exit(1)


def give_up_everything(owner: int | None, newest_capability: int) -> None:
    """Drop all rights, so that a process of the container gains none by taking control of this one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    if owner is not None:
        linux.enter(owner)
    linux.drop_bounding((), newest_capability)
    linux.set_capabilities(0)
    linux.set_no_new_privileges()


def reap_for_ever() -> NoReturn:
    """Reap orphans; SIGCHLD must be blocked."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _note(directory: str, pid: int) -> None:
    """Write pid and start time of the process into its file."""
    path = os.path.join(directory, _NOTE)
    with open(path + ".new", "w") as file:
        json.dump({"pid": pid, "startTicks": linux.start_ticks(pid), "boot": linux.boot_id()}, file)
    os.replace(path + ".new", path)


def stop(directory: str) -> None:
    """Kill it, and with it every process of its namespace; no effect when there is none."""
    path = os.path.join(directory, _NOTE)
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(path) as file:
            found = json.load(file)
        if found["boot"] == linux.boot_id() and linux.start_ticks(found["pid"]) == found["startTicks"]:
            os.kill(found["pid"], signal.SIGKILL)
        os.unlink(path)
