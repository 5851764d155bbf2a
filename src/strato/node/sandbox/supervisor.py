"""The supervisor of one container: starts its process in namespaces, writes its log, and records how it ended.

`launch` runs in a new child of the spawner and becomes the supervisor, which does not depend on the node: that may be
killed and started again. State that is needed later is in the attempt's directory: ``state.json`` (pid and start time,
written before the container may run) and ``exit.json``. Standard library only; times are the real clock's.

There are three processes. The supervisor stays outside of all namespaces of the container, because it has descriptors
of the machine. Its first child, PID 1 of the container's process namespace, builds the root file system, then drops all
descriptors and capabilities and only reaps orphans. Its second child is the container's process (`container`). On
SIGTERM the supervisor sends the container's process the stop signal of its image; on SIGUSR1 it kills all processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from strato.errors import one_line
from strato.node.sandbox import channels, container, linux, pause
from strato.node.sandbox.commands import Pipes
from strato.node.sandbox.container import MESSAGE_BYTES, START_ERROR, ContainerEntry, Spec
from strato.node.sandbox.logfiles import LogWriter
from strato.node.sandbox.rootfs import RootBuilder

KILL_SIGNAL = signal.SIGUSR1
"""Sent to the supervisor: kill the container now."""
ATTACH_SOCKET = "attach.sock"
"""Name of the socket in the attempt's directory at which clients attach to the container's streams."""
_NAMES = {channels.STDOUT: "stdout", channels.STDERR: "stderr"}
_FIRST_NAMESPACE = 200
"""Number of the supervisor's descriptor of the container's mount namespace; its other own namespaces follow."""

Answer = Callable[[dict[str, Any]], None]


def launch(directory: str, answer: Answer, unmapped: int | None = None) -> NoReturn:
    """Run the container that ``spec.json`` in an attempt's directory describes, and supervise it until its end.

    Args:
        directory: Directory of the attempt.
        answer: Called once, when the container's process runs or could not be started.
        unmapped: Descriptor of a user namespace that maps no owner of the machine's files (see `RootBuilder`).
    """
    with open(os.path.join(directory, "spec.json"), "rb") as file:
        spec: Spec = json.load(file)
    os.setsid()
    _Supervisor(directory, spec, answer, unmapped).main()


def _write_json(directory: str, name: str, body: dict[str, Any]) -> None:
    """Write a file atomically."""
    path = os.path.join(directory, name)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(body, file)
    os.replace(path + ".new", path)


def _join_processes(directory: str) -> None:
    """Make children members of the process namespace of the container that runs in an attempt's directory.

    Raises:
        ProcessLookupError: The container has ended.
    """
    with open(os.path.join(directory, "state.json"), "rb") as file:
        namespace = container.process_namespace(json.load(file))
    linux.enter(namespace)
    os.close(namespace)


class _Supervisor:
    """Parent of the container's process."""

    def __init__(self, directory: str, spec: Spec, answer: Answer, unmapped: int | None) -> None:
        self._spec = spec
        self._unmapped = unmapped
        self._directory = directory
        self._answer = answer
        self._has_answered = False
        self._started_at = time.time()
        self._init = 0
        """PID 1 of the container's own process namespace; 0 when it has none."""
        self._child = 0
        self._status: int | None = None

    def main(self) -> NoReturn:
        """Supervise the container until it has ended; never returns."""
        code = 1
        try:
            linux.set_process_name("strato-shim")
            wakeup_read, wakeup_write = os.pipe()
            os.set_blocking(wakeup_write, False)
            os.set_blocking(wakeup_read, False)
            signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, KILL_SIGNAL, signal.SIGCHLD):
                signal.signal(number, self._on_signal)
            self._run(wakeup_read)
            code = 0
        except Exception as err:  # bugs too: without an answer the node would wait for ever
            if not self._has_answered:
                self._end_unstarted(_problem(err))
        finally:
            os._exit(code)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number == signal.SIGCHLD or not self._child:
            return
        if number == KILL_SIGNAL:
            self._kill_all()
        elif self._status is None:
            os.kill(self._child, self._spec["stopSignal"] if number == signal.SIGTERM else number)

    def _kill_all(self) -> None:
        """Kill every process of the container."""
        if self._init:
            os.kill(self._init, signal.SIGKILL)
            return
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)
        for path in self._spec["cgroups"]:
            container.kill_group(path)

    def _run(self, wakeup: int) -> None:
        spec = self._spec
        exec_read, exec_write = os.pipe()
        streams = Pipes(stdin=spec["stdin"], tty=spec["tty"])
        listener = channels.listen(self._directory, ATTACH_SOCKET)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        builder = self._isolate() if spec["isolation"] != "plain" else None
        log = LogWriter(spec["log"])
        entry = ContainerEntry.of_spec(spec)
        entry.arriving = theirs if builder is not None else None
        state = self._note_state()
        # Forked while the root file system is still being built, to save time; the child waits for the namespaces.
        try:
            self._child = os.fork()
        except OSError as err:  # in a process namespace whose first process, the builder, has failed already
            self._end_unstarted((self._admit_builder(builder, ours) if builder is not None else "") or _problem(err))
            return
        if self._child == 0:
            container.become(spec, entry, spec["argv"], streams.theirs, exec_write, streams.sends_terminal)
        for fd in (exec_write, *entry.descriptors):
            os.close(fd)
        streams.close_theirs()
        theirs.close()
        message = self._admit_builder(builder, ours) if builder is not None else ""
        ours.close()
        with open(exec_read, "rb") as failures:  # empty after a successful exec, which closes the other end
            message = message or failures.read().decode(errors="replace")
        if message:
            self._end_unstarted(message)
            return
        self._send_answer(state)
        stdin, outputs = streams.ours()
        self._pump(log, outputs, channels.Attachments(listener, stdin, once=spec["stdinOnce"]), wakeup)
        self._write_ending()

    def _note_state(self) -> dict[str, Any]:
        """Write the supervisor's pid and start time, and which of its descriptors are the container's namespaces."""
        pid = os.getpid()
        self._started_at = time.time()
        state = {
            "pid": pid,
            "startTicks": linux.start_ticks(pid),
            "boot": linux.boot_id(),
            "startedAt": self._started_at,
            "namespaces": [_FIRST_NAMESPACE + index for index in range(len(_own_kinds(self._spec)))],
        }
        _write_json(self._directory, "state.json", state)
        return state

    def _isolate(self) -> socket.socket:
        """Make the container's process namespace and begin to build its root; return the socket of the builder."""
        spec, security = self._spec, self._spec["security"]
        if spec["isolation"] == "user":
            uid, gid = os.getuid(), os.getgid()
            linux.unshare(linux.CLONE_NEWUSER)
            linux.map_user(uid, gid, security["uid"] or 0, security["gid"] or 0)
        else:
            linux.hide_from_tracers()
        own_processes = not (spec["processNamespace"] or spec["targetDirectory"])
        if own_processes:
            linux.unshare(linux.CLONE_NEWPID)
        elif spec["targetDirectory"]:
            _join_processes(spec["targetDirectory"])
        elif spec["processNamespace"] != "host":
            linux.enter_namespace(spec["processNamespace"])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            _Builder(spec, theirs, self._unmapped).main(stay=own_processes)
        theirs.close()
        if own_processes:
            self._init = pid
        return ours

    def _admit_builder(self, builder: socket.socket, waiting: socket.socket) -> str:
        """Send the builder's namespaces to the process that waits for them; return the builder's error, if any."""
        message, fds = container.receive_fds(builder)
        builder.close()
        if message != b"ready":
            text = message.decode(errors="replace") or "its builder died"
            return f"root file system of the container: {text}"
        for index, fd in enumerate(fds):
            os.dup2(fd, _FIRST_NAMESPACE + index, inheritable=False)
            os.close(fd)
        kept = [_FIRST_NAMESPACE + index for index in range(len(fds))]
        with contextlib.suppress(OSError):  # the waiting process has failed before, and reports why
            socket.send_fds(waiting, [b"go"], kept)
        return ""

    def _end_unstarted(self, message: str) -> None:
        if self._init:
            os.kill(self._init, signal.SIGKILL)
        self._status = START_ERROR << 8
        self._write_ending(message)
        self._send_answer({"pid": 0, "startedAt": self._started_at, "error": message})

    def _send_answer(self, answer: dict[str, Any]) -> None:
        self._has_answered = True
        self._answer(answer)

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
        _write_json(self._directory, "exit.json", body)

    def _pump(self, log: LogWriter, outputs: dict[int, int], attached: channels.Attachments, wakeup: int) -> None:
        """Copy output to the log and to attached clients, until the process has ended and all its output is read."""
        for fd in (*outputs, wakeup):
            os.set_blocking(fd, False)
        while self._status is None:
            poller = select.poll()
            poller.register(wakeup, select.POLLIN)
            for fd in () if attached.hold_back else outputs:
                poller.register(fd, select.POLLIN)
            attached.register(poller)
            for fd, events in poller.poll(attached.wait_milliseconds()):
                if fd == wakeup:
                    _drain(wakeup)
                elif fd not in outputs:
                    attached.handle(fd, events)
                elif not attached.hold_back:
                    self._copy(log, attached, outputs, fd)
            attached.drop_stalled()
            self._reap()
        self._kill_all()
        if self._init:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._init, 0)  # returns when no process is left in the container's process namespace
        for fd in list(outputs):
            attached.catch_up()
            while self._copy(log, attached, outputs, fd):
                attached.catch_up()
        log.close()
        attached.finish()

    def _copy(self, log: LogWriter, attached: channels.Attachments, outputs: dict[int, int], fd: int) -> bool:
        """Copy a piece of output; return whether there was any."""
        data = channels.read_output(fd)
        if data:
            log.write(_NAMES[outputs[fd]], data)
            if not attached.hold_back:
                attached.output(outputs[fd], data)
        elif data is not None:
            del outputs[fd]
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
            elif pid == self._init:
                self._init = 0


def _problem(err: Exception) -> str:
    return f"sandbox of the container: {one_line(err) if isinstance(err, OSError) else repr(err)}"


def _own_kinds(spec: Spec) -> list[str]:
    """Return the kinds of namespaces that the container does not share with its pod, in the order of entering."""
    if spec["isolation"] == "plain":
        return []
    if spec["isolation"] == "root":
        return ["mnt"]
    return ["mnt", "uts"] if spec["hostIPC"] else ["mnt", "uts", "ipc"]


class _Builder:
    """Builds the container's root file system in a new mount namespace; then becomes PID 1, if there must be one."""

    def __init__(self, spec: Spec, supervisor: socket.socket, unmapped: int | None) -> None:
        self._spec = spec
        self._supervisor = supervisor
        self._unmapped = unmapped
        self._newest_capability = linux.last_capability()
        path = spec["userNamespace"]
        self._owner = linux.user_namespace_of(path) if path else None

    def main(self, *, stay: bool) -> NoReturn:
        """Build and report; with ``stay`` reap orphans until killed, else exit at once; never returns."""
        try:
            linux.set_process_name("strato-init")
            linux.hide_from_tracers()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, KILL_SIGNAL, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            fds = self._build()
            if stay:
                pause.give_up_everything(self._owner, self._newest_capability)
                linux.die_with_parent()
            socket.send_fds(self._supervisor, [b"ready"], fds)
            if stay:
                linux.close_all_but(())
                pause.reap_for_ever()
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._supervisor.send(one_line(error).encode()[:MESSAGE_BYTES] or b"unknown")
        finally:
            os._exit(0)

    def _build(self) -> list[int]:
        spec = self._spec
        if spec["isolation"] == "user":
            ipc = 0 if spec["hostIPC"] else linux.CLONE_NEWIPC
            linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS | ipc)
            linux.set_hostname(spec["hostname"])
        else:
            for path in spec["namespaces"]:
                linux.enter_namespace(path)
            linux.unshare(linux.CLONE_NEWNS)
        fds = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _own_kinds(spec)]
        linux.make_mounts_private()
        builder = RootBuilder(
            spec["base"],
            spec["root"],
            spec["scratch"],
            unmapped=self._unmapped,
            user_namespace=self._owner,
            owner=spec["userBase"],
        )
        builder.build(spec)
        linux.pivot_root(spec["root"])
        return fds


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass
