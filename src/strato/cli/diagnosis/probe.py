"""Collect facts about this machine; whatever a probe creates it removes again."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import pwd
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from strato import __version__
from strato.cli.diagnosis.machine import FreeSpace, Listener, MachineFacts
from strato.cli.home import Home
from strato.cli.memory import available_bytes
from strato.clock import Clock

DEFAULT_PORT = 6443
_KUBECTL_SECONDS = 10.0
_LISTENING = "0A"
_TIME_ERROR = 5
_TIMEX_BYTES = 256


def machine_facts(home: Home, data_dir: Path, clock: Clock) -> MachineFacts:
    """Return the facts that `strato.cli.diagnosis.machine.findings` judges."""
    from strato.cli import servicenetwork
    from strato.node.sandbox import egress
    from strato.node.sandbox.cgroups import Cgroups
    from strato.node.sandbox.permissions import forbidding_setting
    from strato.node.sandbox.spawner import strongest_isolation
    from strato.node.services.nameserver import DNS_PORT

    isolation = strongest_isolation()
    groups = Cgroups(f"strato-doctor-{os.getpid()}")
    try:
        is_limited, missing = groups.enabled, groups.missing
    finally:
        groups.remove_all()
    is_running = home.owner() is not None
    return MachineFacts(
        python=platform.python_version(),
        strato=__version__,
        user=_user(),
        isolation=isolation,
        forbidding=forbidding_setting(),
        cgroups=is_limited,
        missing_controllers=missing,
        has_systemd=Path("/run/systemd/system").exists(),
        egress_problem=egress.unavailable() if isolation == "root" else "",
        serves_names=servicenetwork.may_listen(DNS_PORT),
        kubectl=kubectl_version(),
        rooms=tuple(_rooms(home.path, data_dir)),
        memory_bytes=available_bytes(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        port=DEFAULT_PORT,
        listener=None if is_running else listener(DEFAULT_PORT),
        is_clock_kept=_is_clock_kept(),
        newest_write_ahead_seconds=_ahead(data_dir, clock.now()),
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _rooms(*places: Path) -> Iterator[FreeSpace]:
    """Yield the free space of each file system once; a directory not yet made counts to that of its nearest parent."""
    seen = set()
    for place in places:
        there = next(path for path in (place, *place.absolute().parents) if path.exists())
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        numbers = os.statvfs(there)
        yield FreeSpace(there, numbers.f_bavail * numbers.f_frsize, numbers.f_favail if numbers.f_files else 1 << 30)


def kubectl_version() -> str:
    """Return the version of the system's kubectl, ``unknown`` when it does not say, empty when there is none."""
    program = shutil.which("kubectl")
    if program is None:
        return ""
    command = [program, "version", "--client", "-o", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_KUBECTL_SECONDS, check=False)
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return "unknown"


def listener(port: int) -> Listener | None:
    """Return the process that listens on a TCP port of this machine; None if there is none."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for directory in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(os.readlink(descriptor) in inodes for descriptor in directory.iterdir()):
                return Listener(int(directory.parent.name), (directory.parent / "comm").read_text().strip())
    return Listener()


def _is_clock_kept() -> bool | None:
    """Call ``adjtimex`` with ``modes`` 0, which reads the kernel's clock state and sets nothing."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # its first member, ``modes``, is 0
    state = int(library.adjtimex(buffer))
    return None if state < 0 else state != _TIME_ERROR


def _ahead(data_dir: Path, now: float) -> float:
    times = [path.stat().st_mtime for path in data_dir.glob("*") if path.is_file()] if data_dir.is_dir() else []
    return max(0.0, max(times, default=now) - now)
