"""The lock of a home: one process at a time owns the directory, and the lock's file says which.

The lock is the kernel's (``flock``), so that it ends with its last holder, however that ends. ``strato up`` takes it
before it writes anything and hands it to the process it starts; that one hands it to the process of the components. A
free lock means that no process of the cluster is left.
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
"""What an owner does that answers requests; all others end by themselves."""
STOPPING = "stop"
_MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a home."""

    pid: int
    """0 for the moment in which nobody knows yet."""
    activity: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `strato up`."""
    starter: int = 0
    """The process that took the lock; it may have handed it to the owner since."""

    @property
    def serves(self) -> bool:
        """Whether it is a cluster, which may still be starting."""
        return self.activity in SERVING

    @property
    def stops(self) -> bool:
        """Whether it ends a cluster: itself, or one that was killed."""
        return self.activity == STOPPING


class HomeLock:
    """A lock that this process holds."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor
        self._starter = os.getpid()

    @classmethod
    def take(cls, path: Path) -> HomeLock | None:
        """Lock a file, which is made if it is missing; None while somebody else has it."""
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
            os.close(descriptor)  # of a file that its last owner has removed

    @classmethod
    def inherit(cls, path: Path, descriptor: int) -> HomeLock:
        """Return the lock that the process which started this one handed over.

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
        """Say who owns the home and why."""
        owner = {"pid": os.getpid(), "activity": activity, "options": dict(options or {}), "starter": self._starter}
        text = json.dumps(owner).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def release(self) -> None:
        """Let go; another process that it was handed to keeps it."""
        os.close(self.descriptor)


def owner_of(path: Path) -> Owner | None:
    """Return who holds a lock, None when it is free."""
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
        return Owner(0)  # it is being written


def end_owner(path: Path, owner: Owner, number: int) -> bool:
    """Send a signal to the owner; return whether it was the owner still."""
    if not owner.pid:
        return False
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return False
    try:
        now = owner_of(path)  # after the process was opened: its number is not another one's by now
        if now is None or now.pid != owner.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            return True
        return False
    finally:
        os.close(descriptor)


def is_ending(pid: int) -> bool:
    """Whether a process is gone or killed; in between the kernel closes its files, locks among them."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = dict(line.split(b":\t", 1) for line in file if b":\t" in line)
        pending = int(found[b"SigPnd"], 16) | int(found[b"ShdPnd"], 16)
    except (OSError, KeyError, ValueError):
        return not os.path.isdir(f"/proc/{pid}")
    return found[b"State"][:1] in b"ZX" or bool(pending >> (signal.SIGKILL - 1) & 1)


class Interruption:
    """The first signal that asks this process to end, from its first moment on; it is acted on where that is safe."""

    def __init__(self) -> None:
        self.signal = 0
        is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
        self.signals = (signal.SIGTERM, signal.SIGINT, *(() if is_ignored else (signal.SIGHUP,)))
        self.listen()

    def listen(self) -> None:
        """Note signals; an event loop that listened to them does so no more."""
        for number in self.signals:
            signal.signal(number, lambda came, _frame: self.note(came))

    def note(self, number: int) -> None:
        """Note a signal."""
        self.signal = self.signal or number

    @property
    def exit_code(self) -> int:
        """What a shell says of a process that the signal ended."""
        return 128 + self.signal
