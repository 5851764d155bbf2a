"""Remove what a node has left on the machine: for ``strato down``, when no process of the node runs any more."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from strato.errors import one_line
from strato.node import netlink
from strato.node.sandbox import egress, linux, pause
from strato.node.sandbox.cgroups import Cgroups
from strato.node.sandbox.network import bridge_name
from strato.node.sandbox.paths import NodePaths

_TIMEOUT_SECONDS = 5.0
_STEP_SECONDS = 0.01


def teardown(
    data_dir: str | os.PathLike[str], report: Callable[[str], Any] = lambda _text: None, *, anew: bool = False
) -> int:
    """Kill all containers below a node's data directory, remove its namespaces, bridge, egress NAT and pods.

    Call only when no node runs on the directory. Images and logs stay, and so do the records of which containers have
    run: the next node restarts containers by their restart policy, and removes what is left of unknown pods.

    Args:
        data_dir: The node's directory.
        report: Called with a text about what could not be removed.
        anew: Whether to forget that containers have run, so that the next node runs every pod from its beginning.

    Returns:
        How many containers were killed.
    """
    directory = os.path.abspath(data_dir)
    node_paths = NodePaths(directory)
    _wait_for_spawner(directory, report)
    pids = [pid for uid in node_paths.uids() for path in node_paths.pod(uid).running_pids() if (pid := _alive(path))]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait(pids, report)
    cgroups = Cgroups(bridge_name(directory), note=node_paths.cgroups)
    for uid in node_paths.uids():
        pause.stop(node_paths.pod(uid).namespaces)
        for name in ("user", "ipc", "uts", "net", "pid"):
            with contextlib.suppress(OSError):
                linux.unmount(os.path.join(node_paths.pod(uid).namespaces, name))
        for pid in cgroups.processes(uid):  # with isolation "plain" children may outlive their supervisor
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _wait(cgroups.processes(uid), report)
        node_paths.clear_pod(uid, anew=anew)
    cgroups.remove_all()
    if os.geteuid() == 0:
        try:
            egress.disable_egress(bridge_name(directory))
        except OSError as err:
            report(f"the pods' address translation stays: {one_line(err)}")
    with contextlib.suppress(OSError):
        netlink.delete_link(bridge_name(directory))
    return len(pids)


def _wait_for_spawner(directory: str, report: Callable[[str], Any]) -> None:
    """Wait until the spawner has finished its last request; it ends after its node."""
    try:
        lock = os.open(os.path.join(directory, "spawner.lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if time.monotonic() > deadline:
                report(f"a node still works in {directory}")
                return
            time.sleep(_STEP_SECONDS)
    finally:
        os.close(lock)


def _alive(directory: str) -> int:
    """Return the pid of the container whose state is in a directory, 0 when it has ended."""
    try:
        with open(os.path.join(directory, "state.json")) as file:
            state = json.load(file)
        if state["boot"] == linux.boot_id() and linux.start_ticks(state["pid"]) == state["startTicks"]:
            return int(state["pid"])
    except (OSError, ValueError, KeyError):
        pass
    return 0


def _wait(pids: list[int], report: Callable[[str], Any]) -> None:
    """Wait until killed processes are gone; uses the real clock, as a user waits for the command."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    for pid in pids:
        while os.path.exists(f"/proc/{pid}") and _is_process(pid):
            if time.monotonic() > deadline:
                report(f"process {pid} does not go away")
                break
            time.sleep(_STEP_SECONDS)


def _is_process(pid: int) -> bool:
    try:
        linux.start_ticks(pid)
    except ProcessLookupError:
        return False
    return True
