"""The lock of a home: one process at a time owns the directory; the lock's file holds its `Owner`.

The lock is the kernel's (``flock``), so that it is freed when its last holder ends, even by SIGKILL. ``strato up``
takes it before it writes anything; the API server's process inherits it, and from that the companion. A free lock
therefore means that no process of the cluster is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strato.errors import UsageError

POLL_SECONDS = 0.02
SERVING = ("up", "run apiserver")
"""Activities of owners that serve an API until stopped; owners with another activity end by themselves."""
STOPPING = "stop"
_MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a home, as the lock's file names it."""

    pid: int
    """0 while the owner has locked the file and not yet written it."""
    activity: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the owner's ``strato up``."""
    starter: int = 0
    """Pid of the process that took the lock; the owner may have inherited it."""

    @property
    def serves(self) -> bool:
        """Whether the owner is a cluster, perhaps one that is still starting."""
        return self.activity in SERVING

    @property
    def stops(self) -> bool:
        """Whether the owner ends a cluster: itself, or one that was killed."""
        return self.activity == STOPPING


class HomeLock:
    """A lock that this process holds."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor
        self._starter = os.getpid()

    @classmethod
    def take(cls, path: Path) -> HomeLock | None:
        """Lock a file, created if it is missing; return None while another process has the lock."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return cls(path, descriptor)
            os.close(descriptor)  # the lock's last owner has deleted this file

    @classmethod
    def inherit(cls, path: Path, descriptor: int) -> HomeLock:
        """Return the lock whose descriptor this process inherited from the one that started it.

        Raises:
            UsageError: The descriptor is not that of the lock.
        """
        try:
            is_lock = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except OSError:
            is_lock = False
        if not is_lock:
            raise UsageError(f"descriptor {descriptor} is not that of {path}")
        os.set_inheritable(descriptor, False)
        lock = cls(path, descriptor)
        lock._starter = _read(descriptor).starter
        return lock

    def note(self, activity: str, options: Mapping[str, Any] | None = None) -> None:
        """Write this process into the lock's file as the owner, with what it does."""
        owner = {"pid": os.getpid(), "activity": activity, "options": dict(options or {}), "starter": self._starter}
        text = json.dumps(owner).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def release(self) -> None:
        """Close the descriptor; the lock stays locked while a process that inherited it lives."""
        os.close(self.descriptor)


def owner_of(path: Path) -> Owner | None:
    """Return the owner of a lock, None when it is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> Owner:
    try:
        return Owner(**json.loads(os.pread(descriptor, _MAX_BYTES, 0)))
    except (ValueError, TypeError):
        return Owner(0)  # the owner is writing it


def end_owner(path: Path, owner: Owner, number: int) -> bool:
    """Send a signal to a process if it still owns the lock; return whether it did."""
    if not owner.pid:
        return False
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return False
    try:
        now = owner_of(path)  # read with the pidfd open: if the pid is still the owner's, the pidfd is the owner's too
        if now is None or now.pid != owner.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            return True
        return False
    finally:
        os.close(descriptor)


def is_ending(pid: int) -> bool:
    """Whether a process is gone or has a SIGKILL pending; between the two it still holds its locks."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = dict(line.split(b":\t", 1) for line in file if b":\t" in line)
        pending = int(found[b"SigPnd"], 16) | int(found[b"ShdPnd"], 16)
    except (OSError, KeyError, ValueError):
        return not os.path.isdir(f"/proc/{pid}")
    return found[b"State"][:1] in b"ZX" or bool(pending >> (signal.SIGKILL - 1) & 1)


class Interruption:
    """Notes the first signal that asks this process to end; code polls `signal` where stopping is safe."""

    def __init__(self) -> None:
        self.signal = 0
        is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # started by nohup
        self.signals = (signal.SIGTERM, signal.SIGINT, *(() if is_ignored else (signal.SIGHUP,)))
        self.listen()

    def listen(self) -> None:
        """Install the handlers, again after an event loop has replaced and removed them."""
        for number in self.signals:
            signal.signal(number, lambda came, _frame: self.note(came))

    def note(self, number: int) -> None:
        """Keep the first signal's number."""
        self.signal = self.signal or number

    @property
    def exit_code(self) -> int:
        """The exit status that a shell reports of a process ended by that signal."""
        return 128 + self.signal
