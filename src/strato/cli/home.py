"""Where the embedded cluster of this machine keeps its state, and whether it runs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from strato.cli.homelock import HomeLock, Owner, owner_of
from strato.errors import UsageError

MOST_NODES = 16
"""Most sandbox nodes that ``strato up`` makes of one machine."""
GRACE_SECONDS = 5.0
"""Default grace period of pods when the cluster is stopped; short, since a user waits at the terminal."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Content of the stop file: how the cluster is to stop, and after it has, how many pods it ended."""

    keep_pods: bool = False
    """Whether the next start runs the pods anew, whatever their restart policy says; they do not fail."""
    grace_seconds: float = GRACE_SECONDS
    """Longest time between a pod's SIGTERM and SIGKILL."""
    waiter: int = 0
    """Pid of the command that waits for the result; 0 without one."""
    is_asked: bool = False
    """Whether that command has sent its signal: from then on the stop is valid, even if the command is interrupted."""
    ended: int = 0
    """How many pods the cluster has ended."""

    @property
    def is_awaited(self) -> bool:
        """Whether the command that waits for the result still runs."""
        return self.waiter != 0 and Path(f"/proc/{self.waiter}").exists()


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one embedded cluster."""

    path: Path

    @classmethod
    def locate(cls, chosen: str | None) -> Home:
        """Return the directory chosen, else ``$STRATO_HOME`` (read by the option), else the user's data directory."""
        if chosen:
            return cls(Path(chosen).expanduser().resolve())
        base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        return cls(Path(base) / "strato")

    def command(self, verb: str) -> str:
        """Return the command line of a verb such as ``down`` for this directory."""
        if self == Home.locate(None):
            return f"strato {verb}"
        return f"strato --home {shlex.quote(str(self.path))} {verb}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, mode 0600."""
        return self.path / "kubeconfig"

    @property
    def data(self) -> Path:
        """The API server's journal."""
        return self.path / "data"

    @property
    def backed_up(self) -> dict[str, Path]:
        """Files beside the journal that a backup holds, by name: keys, certificates, tokens."""
        found = {f"pki/{path.name}": path for path in sorted(self.pki.glob("[!.]*")) if path.is_file()}
        return found | ({self.tokens.name: self.tokens} if self.tokens.exists() else {})

    @property
    def node(self) -> Path:
        """Folder of the sandboxes, images and logs of this machine's node."""
        return self.path / "node"

    @property
    def volumes(self) -> Path:
        """Folder of the volumes made for claims; they outlive pods, nodes and restarts."""
        return self.path / "volumes"

    @property
    def history(self) -> Path:
        """Database in which runs of jobs are recorded."""
        return self.path / "history.db"

    @property
    def pki(self) -> Path:
        """The cluster's certificates and keys."""
        return self.path / "pki"

    @property
    def tokens(self) -> Path:
        """The bearer tokens of its users."""
        return self.path / "tokens.json"

    @property
    def log(self) -> Path:
        """Output of the process in the background."""
        return self.path / "strato.log"

    @property
    def pid_file(self) -> Path:
        """Process id of the running cluster."""
        return self.path / "strato.pid"

    @property
    def lock(self) -> Path:
        """Locked by the cluster as long as it lives."""
        return self.path / "strato.lock"

    @property
    def stop_file(self) -> Path:
        """Exists while a command stops the cluster; holds a `Stop`."""
        return self.path / "stop.json"

    @property
    def ready_file(self) -> Path:
        """Exists, with the server's address, while the cluster serves."""
        return self.path / "ready.json"

    def ready(self) -> dict[str, Any]:
        """Return the ready file's content (``address``, ``pid``, ``node``); empty while no cluster serves."""
        try:
            found: dict[str, Any] = json.loads(self.ready_file.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def write_ready(self, facts: dict[str, Any]) -> None:
        """Write the ready file; commands connect from now on."""
        draft = self.ready_file.with_suffix(".new")
        draft.write_text(json.dumps(facts | {"pid": os.getpid()}))
        draft.replace(self.ready_file)

    def write_pid(self) -> None:
        """Write this process's id to the pid file, for scripts; Strato itself reads the lock's file."""
        self.pid_file.write_text(f"{os.getpid()}\n")

    def owner(self) -> Owner | None:
        """Return the process that owns the directory, None when there is none."""
        return owner_of(self.lock)

    def running_pid(self) -> int | None:
        """Return the process id of the running cluster, or None."""
        owner = self.owner()
        return owner.pid or None if owner is not None and owner.serves else None

    @contextlib.contextmanager
    def held(self, activity: str) -> Iterator[HomeLock]:
        """Own the directory for the length of the block.

        Raises:
            UsageError: Another process owns it.
        """
        lock = HomeLock.take(self.lock)
        if lock is None:
            raise self.in_use(self.owner())
        try:
            lock.note(activity)
            yield lock
        finally:
            lock.release()

    def in_use(self, owner: Owner | None) -> UsageError:
        """Return the error to raise for a directory that another process owns."""
        if owner is not None and owner.serves:
            return UsageError(
                f"the cluster of {self.path} already runs (process {owner.pid}); "
                f"stop it with '{self.command('down')}', or name another --home"
            )
        what = f"process {owner.pid} (strato {owner.activity})" if owner is not None and owner.pid else "a process"
        return UsageError(f"{what} works in {self.path}; wait for it, or name another --home")

    def read_stop(self) -> Stop:
        """Return the stop file's content; the default without one, or if its writer died before signalling."""
        try:
            stop = Stop(**json.loads(self.stop_file.read_text()))
        except (OSError, ValueError, TypeError):
            return Stop()
        return stop if stop.is_asked or stop.is_awaited or not stop.waiter else Stop()

    def write_stop(self, stop: Stop) -> None:
        """Write the stop file: how the cluster is to stop, or the result."""
        draft = self.stop_file.with_suffix(f".json.{os.getpid()}.new")  # several commands may write at once
        draft.write_text(json.dumps(asdict(stop)))
        with contextlib.suppress(FileNotFoundError):  # the next owner of the home has deleted the draft
            draft.replace(self.stop_file)

    def clear_run_files(self) -> None:
        """Remove the run files of a cluster that has ended; the caller must own the directory."""
        drafts = self.ready_file.with_suffix(".new"), *self.path.glob(f"{self.stop_file.stem}.json.*new")
        for file in (self.pid_file, self.ready_file, self.stop_file, *drafts):
            file.unlink(missing_ok=True)


def node_name() -> str:
    """Return the name of this machine's first node."""
    return socket.gethostname().lower()


def node_names(count: int) -> list[str]:
    """Return the names of this machine's nodes."""
    first = node_name()
    return [first, *(f"{first}-{number}" for number in range(2, count + 1))]
