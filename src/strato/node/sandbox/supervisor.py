"""One container: put its process into namespaces, stay beside it as PID 1, write its log and how it ended.

`launch` runs in a fresh child of the spawner. It leaves a supervisor behind that belongs to nobody: the node may be
killed and come back. What must be known later is on disk in the attempt's directory: ``state.json`` (pid and start
time, written before the container may run) and ``exit.json``. Standard library only; times are the machine's.

The supervisor passes SIGTERM on to the container's process, kills it on SIGUSR1, and reaps orphans. It stays outside
the container's memory limit, so that the kernel's choice under pressure is the container.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any, NoReturn

from strato.node.sandbox import beneath, linux
from strato.node.sandbox.logfiles import LogWriter
from strato.node.sandbox.rootfs import RootBuilder

START_ERROR = 128
"""Exit code of a container whose process could not be started, as containerd reports it."""
KILL_SIGNAL = signal.SIGUSR1
"""Sent to the supervisor: kill the container now."""
_READ_BYTES = 65536

Spec = dict[str, Any]


def launch(directory: str) -> dict[str, Any]:
    """Start the container described by ``spec.json`` in an attempt's directory; return what to answer the node.

    Call in a process that is there for this only: it ends up in the container's namespaces.
    """
    with open(os.path.join(directory, "spec.json"), "rb") as file:
        spec: Spec = json.load(file)
    os.setsid()
    try:
        _leave_host(spec)
    except OSError as err:
        return _fail(directory, f"sandbox of the container: {err}")
    go_read, go_write = os.pipe()
    failed_read, failed_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.close(failed_read)
        _Supervisor(directory, spec, failed_write).main(go_read)
    os.close(failed_write)
    state = {"pid": pid, "startTicks": linux.start_ticks(pid), "boot": linux.boot_id(), "startedAt": time.time()}
    _write_json(directory, "state.json", state)
    os.write(go_write, b"g")
    with open(failed_read, "rb") as failures:
        message = failures.read()
    return {**state, "error": message.decode(errors="replace")} if message else state


def _fail(directory: str, message: str) -> dict[str, Any]:
    now = time.time()
    ending = {"exitCode": START_ERROR, "signal": 0, "startedAt": now, "finishedAt": now, "error": message}
    _write_json(directory, "exit.json", ending)
    return {"pid": 0, "startedAt": now, "error": message}


def _leave_host(spec: Spec) -> None:
    """Enter the pod's namespaces and make the container's own."""
    if spec["isolation"] == "plain":
        return
    if spec["isolation"] == "user":
        uid, gid = os.getuid(), os.getgid()
        linux.unshare(linux.CLONE_NEWUSER)
        linux.map_user(uid, gid)
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC)
        linux.set_hostname(spec["hostname"])
    else:
        for path in spec["namespaces"]:
            linux.enter_namespace(path)
        linux.unshare(linux.CLONE_NEWNS)
    linux.unshare(linux.CLONE_NEWPID)


def _write_json(directory: str, name: str, body: dict[str, Any], *, dir_fd: int | None = None) -> None:
    """Write a file so that it is there whole or not at all."""
    prefix = "" if dir_fd is not None else directory + "/"
    descriptor = os.open(
        f"{prefix}{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=dir_fd
    )
    with open(descriptor, "w") as file:
        json.dump(body, file)
    os.replace(f"{prefix}{name}.new", f"{prefix}{name}", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


class _Supervisor:
    """PID 1 of the container."""

    def __init__(self, directory: str, spec: Spec, failed: int) -> None:
        self._spec = spec
        self._failed = failed
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._log = LogWriter(spec["log"])
        self._cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in spec["cgroups"]]
        self._started_at = time.time()
        self._child = 0
        self._status: int | None = None

    def main(self, go: int) -> NoReturn:
        """Live until the container has ended; never returns."""
        code = 1
        try:
            linux.set_process_name("strato-init")
            wakeup_read, wakeup_write = os.pipe()
            os.set_blocking(wakeup_write, False)
            os.set_blocking(wakeup_read, False)
            signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, KILL_SIGNAL, signal.SIGCHLD):
                signal.signal(number, self._on_signal)
            if os.read(go, 1) == b"g":
                self._run(wakeup_read)
                code = 0
        finally:
            os._exit(code)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number == signal.SIGCHLD or not self._child:
            return
        if number == KILL_SIGNAL:
            self._kill(signal.SIGKILL)
        else:
            os.kill(self._child, number)

    def _kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child, number)

    def _run(self, wakeup: int) -> None:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        exec_read, exec_write = os.pipe()
        try:
            if self._spec["isolation"] != "plain":
                self._enter_root()
            else:
                linux.become_subreaper()
            child = os.fork()
            if child == 0:
                self._become_container(out_write, err_write, exec_write)
            self._child = child
        except OSError as err:
            self._end_unstarted(f"root file system of the container: {err}")
            return
        for fd in (out_write, err_write, exec_write, *self._cgroups):
            os.close(fd)
        with open(exec_read, "rb") as failures:  # closed by a successful exec
            message = failures.read().decode(errors="replace")
        if message:
            os.waitpid(self._child, 0)
            self._end_unstarted(message)
            return
        os.close(self._failed)
        self._pump({out_read: "stdout", err_read: "stderr"}, wakeup)
        if self._spec["isolation"] == "plain":
            self._kill(signal.SIGKILL)
        self._write_ending()

    def _enter_root(self) -> None:
        spec = self._spec
        linux.make_mounts_private()
        builder = RootBuilder(spec["base"], spec["root"], spec["scratch"])
        builder.build(spec)
        linux.mount("proc", spec["root"] + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        for path in spec["hide"]:
            hidden = spec["root"] + path
            if os.path.isdir(hidden):
                linux.mount("hidden", hidden, "tmpfs", linux.MS_RDONLY, "mode=700")
        linux.pivot_root(spec["root"])

    def _become_container(self, out: int, err: int, failed: int) -> NoReturn:
        """Turn into the container's process; what goes wrong is told through the failure pipe."""
        spec = self._spec
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, KILL_SIGNAL, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            for fd in self._cgroups:
                os.write(fd, b"0")
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.umask(0o022)
            if spec["isolation"] != "plain":
                beneath.change_directory(spec["workingDir"])
            if spec["gid"] is not None or spec["groups"]:
                os.setgroups(spec["groups"])
                os.setgid(spec["gid"] or 0)
            if spec["uid"] is not None:
                os.setuid(spec["uid"])
            if spec["isolation"] == "plain":  # on the machine itself it is made by whom the pod runs as
                beneath.change_directory(spec["workingDir"])
            os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
        except BaseException as error:  # nothing may return into the supervisor's code from here
            os.write(failed, self._explain(error).encode())
            os._exit(START_ERROR)

    def _explain(self, error: BaseException) -> str:
        name = self._spec["argv"][0]
        if isinstance(error, FileNotFoundError) and "/" not in name:
            return f'exec: "{name}": executable file not found in $PATH'
        return f'exec: "{name}": {error}'

    def _end_unstarted(self, message: str) -> None:
        os.write(self._failed, message.encode())
        self._status = START_ERROR << 8
        self._write_ending(message)

    def _write_ending(self, message: str = "") -> None:
        status = self._status or 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        body: dict[str, Any] = {
            "exitCode": 128 + number if number else os.waitstatus_to_exitcode(status),
            "signal": number,
            "startedAt": self._started_at,
            "finishedAt": time.time(),
        }
        if message:
            body["error"] = message
        _write_json("", "exit.json", body, dir_fd=self._directory)

    def _pump(self, streams: dict[int, str], wakeup: int) -> None:
        """Copy output to the log until the container's process has ended and its pipes are read empty."""
        poller = select.poll()
        for fd in (*streams, wakeup):
            os.set_blocking(fd, False)
            poller.register(fd, select.POLLIN)
        while self._status is None:
            for fd, _ in poller.poll():
                if fd == wakeup:
                    _drain(wakeup)
                elif not self._copy(fd, streams[fd]):
                    poller.unregister(fd)
            self._reap()
        for fd, name in streams.items():
            while self._copy(fd, name, last=True):
                pass
        self._log.close()

    def _copy(self, fd: int, stream: str, *, last: bool = False) -> bool:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return not last
        if data:
            self._log.write(stream, data)
        return bool(data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._status = status


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass
