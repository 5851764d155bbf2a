"""A sealed copy in memory of the Python that starts containers, so that no container can change the machine's file.

Until its ``exec``, a process that enters a container shows its program to the container as ``/proc/PID/exe``, and a
container whose command is ``/proc/self/exe`` even keeps running it. That link leads past all mounts to the file itself:
if it were the machine's file, root in a container could overwrite it (the class of CVE-2019-5736).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_MFD_EXEC = 0x10
"""Flag that kernels from 6.3 on may require for executable memory files."""
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_NOTHING: dict[str, str] = {}
_LOWEST = 64
"""Lowest number of the copy's descriptor: lower ones are assigned to other descriptors in the child process."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A program to be executed as Python."""

    path: str
    is_sealed: bool
    """Whether it is a sealed copy; else it is the machine's file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it needs to find its libraries."""


@contextlib.contextmanager
def sealed() -> Iterator[Interpreter]:
    """Yield a new sealed copy of this Python; the machine's file itself if a copy does not run here."""
    real = os.path.realpath(sys.executable)
    beside = os.path.join(os.path.dirname(os.path.dirname(real)), "lib")
    descriptor = None
    found = Interpreter(sys.executable, is_sealed=False)
    try:
        with contextlib.suppress(OSError):
            descriptor = _copy(real)
            path = f"/proc/self/fd/{descriptor}"
            for environment in _NOTHING, {"LD_LIBRARY_PATH": beside}:  # a relocatable one looks beside its own file
                if _runs(path, environment):
                    found = Interpreter(path, is_sealed=True, environment=environment)
                    break
        yield found
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _copy(path: str) -> int:
    descriptor = _memory_file()
    try:
        with open(path, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            while size > 0 and (sent := os.sendfile(descriptor, source.fileno(), None, size)):
                size -= sent
        os.fchmod(descriptor, 0o555)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return int(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST))
    finally:
        os.close(descriptor)


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("strato-python", flags | _MFD_EXEC)
    except OSError:  # an older kernel
        return os.memfd_create("strato-python", flags)


def _runs(path: str, environment: Mapping[str, str]) -> bool:
    """Return whether the program runs: its libraries may lie beside the file, or the machine forbid memory files."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    pid = os.posix_spawn(
        path, [sys.executable, "-I", "-S", "-B", "-c", "import ctypes"], environment, file_actions=null
    )
    return os.waitpid(pid, 0)[1] == 0
