"""`Runtime`, the node's side of the spawner: starts containers, waits for their ends, adopts them after a restart.

All state that must survive this process is in the attempt's directory (see `supervisor`), so that a restarted node can
adopt the running containers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.errors import StratoError
from strato.node import beneath
from strato.node.sandbox import linux
from strato.node.sandbox.container import START_ERROR
from strato.node.sandbox.interpreter import Interpreter, sealed
from strato.node.sandbox.security import Security
from strato.node.sandbox.spawner import MAX_MESSAGE_BYTES, SOCKET_FD
from strato.node.sandbox.supervisor import KILL_SIGNAL
from strato.node.sandbox.volumes import Mount

_LOST = 137
"""Exit code of a container whose supervisor was killed before it wrote one."""
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_START_TIMEOUT_SECONDS = 30.0


class RuntimeProblem(StratoError):
    """The machine refused an operation that a sandbox needs; the message has its error."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container's process ended."""

    exit_code: int
    signal: int
    started_at: float
    finished_at: float
    error: str = ""
    """Why the process could not be started; empty if it was."""

    @property
    def never_started(self) -> bool:
        """Whether no process was started."""
        return bool(self.error) and self.exit_code == START_ERROR


@dataclass(slots=True)
class ContainerRun:
    """One run of a container: its supervisor, and a future that gets its end."""

    directory: str
    pid: int
    started_at: float
    ended: asyncio.Future[Ended]


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """All that the supervisor needs to run a container once."""

    directory: str
    """Directory of this attempt; the runtime makes it."""
    log: str
    argv: Sequence[str]
    env: Mapping[str, str]
    hostname: str
    working_dir: str = "/"
    base: str = ""
    """Root file system of the image; empty for this machine's own."""
    mounts: Sequence[Mount] = ()
    namespaces: Sequence[str] = ()
    cgroups: Sequence[str] = ()
    """``cgroup.procs`` files to join."""
    hide: Sequence[str] = ()
    """Directories of the machine to hide from the container."""
    security: Security = field(default_factory=Security)
    host_ipc: bool = False
    process_namespace: str = ""
    """File of the process namespace that the pod's containers share, or ``host``; empty for one of its own."""
    target_directory: str = ""
    """Directory of the run of the container whose process namespace it joins; empty for none."""
    user_namespace: str = ""
    """File of a namespace that the pod's own user namespace owns; empty if the pod has none."""
    user_base: int = 0
    """The user outside that is root in the pod's user namespace."""
    devices: Sequence[str] = ()
    """Device files that this container gets besides those that all containers have."""
    stdin: bool = False
    """Whether attached clients can write to its input."""
    stdin_once: bool = False
    """Whether its input ends when the first of these clients disconnects."""
    tty: bool = False
    stop_signal: int = signal.SIGTERM
    """The signal that asks its process to end."""


class Runtime:
    """Runs containers as processes through one spawner.

    Args:
        data_dir: Directory of the spawner's lock and log.
        isolation: Level of isolation to force; empty takes the strongest that the machine allows.
    """

    def __init__(self, data_dir: str, isolation: str = "") -> None:
        self._data_dir = data_dir
        self._forced = isolation
        self.isolation = isolation or "plain"
        """``root`` (all namespaces), ``user`` (those of an ordinary user) or ``plain`` (none)."""
        self._socket: socket.socket | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0
        self._pid = 0
        self.shows_machines_program = False
        """Whether containers can reach the machine's own Python by ``/proc/PID/exe`` (see `interpreter`)."""

    async def open(self) -> None:
        """Start the spawner; returns when it serves, which is after an earlier one on this directory has ended.

        Raises:
            RuntimeProblem: The spawner does not start.
        """
        ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[0] = ready
        self._spawn()
        try:
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                await ready
        except TimeoutError:
            raise RuntimeProblem(f"the sandbox helper does not start; see {self._log_path()}") from None
        if not self._forced:
            self.isolation = (await self.call("probe"))["isolation"]

    def close(self) -> None:
        """End the spawner. Containers keep running."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
            if 0 in self._waiting:  # the spawner is waiting for the lock, and does not notice the closed socket
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._fail_waiting("the sandbox helper was closed")

    def _log_path(self) -> str:
        return os.path.join(self._data_dir, "spawner.log")

    def _spawn(self) -> None:
        os.makedirs(self._data_dir, exist_ok=True)
        with sealed() as interpreter:
            self._execute(interpreter)

    def _execute(self, interpreter: Interpreter) -> None:
        self.shows_machines_program = not interpreter.is_sealed
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Containers can read the command line of their PID 1, but not its environment.
        program = (
            "import os, sys; sys.path.insert(0, os.environ['STRATO_SOURCE']); "
            "from strato.node.sandbox.spawner import main; main()"
        )
        environment = {
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "STRATO_SOURCE": _SOURCE,
            "STRATO_LOCK": os.path.join(self._data_dir, "spawner.lock"),
            **interpreter.environment,
        }
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._pid = os.posix_spawn(
            interpreter.path,
            [sys.executable, "-I", "-S", "-B", "-c", program],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, self._log_path(), log_flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), SOCKET_FD),
            ],
        )
        theirs.close()
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._on_answer)

    def _on_answer(self) -> None:
        assert self._socket is not None
        while True:
            try:
                message = self._socket.recv(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._lost()
                return
            answer = json.loads(message)
            waiting = self._waiting.pop(answer["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _lost(self) -> None:
        """Start the spawner again after it was killed; that does not affect the containers."""
        assert self._socket is not None
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        os.waitpid(self._pid, 0)
        self._fail_waiting("the sandbox helper died")
        self._spawn()

    def _fail_waiting(self, message: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(RuntimeProblem(message))
                future.exception()  # mark the exception as seen, as the caller may have been cancelled

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Run an operation of the spawner.

        Raises:
            RuntimeProblem: The operation failed; the message is the machine's.
        """
        if self._socket is None:
            raise RuntimeProblem("the sandbox helper is not running")
        self._last_id += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = answer
        message = json.dumps({"id": self._last_id, "op": operation, **arguments}).encode()
        while True:
            try:
                self._socket.send(message)
                break
            except BlockingIOError:  # many requests have filled the socket's buffer
                await asyncio.sleep(0.001)
        result = await answer
        if result.get("error") and operation != "start":
            raise RuntimeProblem(str(result["error"]))
        return result

    async def start(self, launch: ContainerLaunch) -> ContainerRun:
        """Run a container. If its process cannot be started, the returned run has ended already."""
        os.makedirs(launch.directory, exist_ok=True)
        os.makedirs(os.path.dirname(launch.log), exist_ok=True)
        spec = {
            "isolation": self.isolation,
            "log": launch.log,
            "argv": list(launch.argv),
            "env": dict(launch.env),
            "hostname": launch.hostname,
            "workingDir": launch.working_dir,
            "base": launch.base,
            "root": os.path.join(launch.directory, "root"),
            "scratch": os.path.join(launch.directory, "scratch"),
            "mounts": [
                {
                    "source": m.source,
                    "subPath": m.sub_path,
                    "target": m.target,
                    "readOnly": m.read_only,
                    "programs": m.programs,
                }
                for m in launch.mounts
            ],
            "namespaces": list(launch.namespaces),
            "cgroups": list(launch.cgroups),
            "hide": list(launch.hide),
            "security": launch.security.to_json(),
            "maskedPaths": launch.security.masked_paths,
            "privileged": launch.security.privileged,
            "readOnlyRoot": launch.security.read_only_root,
            "hostIPC": launch.host_ipc,
            "processNamespace": launch.process_namespace,
            "targetDirectory": launch.target_directory,
            "userNamespace": launch.user_namespace,
            "userBase": launch.user_base,
            "devices": list(launch.devices),
            "stdin": launch.stdin,
            "stdinOnce": launch.stdin_once,
            "tty": launch.tty,
            "stopSignal": int(launch.stop_signal),
        }
        descriptor = os.open(os.path.join(launch.directory, "spec.json"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            json.dump(spec, file)
        answer = await self.call("start", directory=launch.directory)
        if "pid" not in answer:
            raise RuntimeProblem(str(answer.get("error", "the sandbox helper gave no answer")))
        return self._follow(launch.directory, answer)

    def adopt(self, directory: str) -> ContainerRun | None:
        """Return the run that an attempt's directory describes, ended or not; None when it never began."""
        state = _read_json(os.path.join(directory, "state.json"))
        if state is None:
            ending = _read_json(os.path.join(directory, "exit.json"))
            if ending is None:
                return None
            state = {"pid": 0, "startedAt": ending["startedAt"]}
        return self._follow(directory, state)

    def _follow(self, directory: str, state: dict[str, Any]) -> ContainerRun:
        loop = asyncio.get_running_loop()
        run = ContainerRun(directory, int(state["pid"]), float(state["startedAt"]), loop.create_future())
        try:
            if not run.pid or state["boot"] != linux.boot_id():
                raise ProcessLookupError
            fd = os.pidfd_open(run.pid)
        except ProcessLookupError:
            self._finish(run)
            return run
        try:
            alive = linux.start_ticks(run.pid) == state["startTicks"]
        except ProcessLookupError:
            alive = False
        if not alive:
            os.close(fd)
            self._finish(run)
            return run
        loop.add_reader(fd, self._on_exit, run, fd)
        return run

    def _on_exit(self, run: ContainerRun, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self._finish(run)

    def _finish(self, run: ContainerRun) -> None:
        ending = _read_json(os.path.join(run.directory, "exit.json"))
        if run.ended.done():
            return
        if ending is None:  # the supervisor itself was killed
            at = _modified(run.directory, run.started_at)
            run.ended.set_result(Ended(_LOST, signal.SIGKILL, run.started_at, at))
            return
        run.ended.set_result(
            Ended(
                ending["exitCode"], ending["signal"], ending["startedAt"], ending["finishedAt"], ending.get("error", "")
            )
        )

    async def exec(self, run: ContainerRun, argv: Sequence[str], *, timeout_seconds: float) -> int:
        """Run a command in the container; return its exit code, -1 on a timeout.

        Raises:
            RuntimeProblem: The container has ended, or cannot be entered.
        """
        if run.ended.done():
            raise RuntimeProblem("the container does not run")
        answer = await self.call("exec", directory=run.directory, argv=list(argv), timeout=timeout_seconds)
        return int(answer["exitCode"])

    def signal(self, run: ContainerRun, *, kill: bool) -> None:
        """Ask the container's process to end, or kill it."""
        if run.ended.done():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, KILL_SIGNAL if kill else signal.SIGTERM)


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        with open(beneath.open_regular(path), "rb") as file:
            body: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):  # ValueError: the file is not completely written yet
        return None
    return body


def _modified(path: str, default: float) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return default
