"""Judge whether this machine can run a cluster: the needs of `strato up`, and the isolation and resources of pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strato.cli.diagnosis.findings import CheckResult, problem, warning
from strato.units import human_bytes

LITTLE_ROOM_BYTES = 256 << 20
_LITTLE_MEMORY_BYTES = 512 << 20
_FEW_INODES = 1000
_FEW_OPEN_FILES = 4096
_CLOCK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free space of one file system that the cluster writes to."""

    path: Path
    free_bytes: int
    free_inodes: int = 1 << 30
    """A large number where the file system does not count inodes."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The process that listens on a port."""

    pid: int = 0
    """0 when this user may not see it."""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Facts read from this machine, without judgement."""

    python: str = ""
    strato: str = ""
    user: str = "root"
    isolation: str = "root"
    """``root``, ``user`` or ``plain``: the strongest that works for this user."""
    forbidding: str = ""
    """The sysctl that forbids user namespaces, with the value that allows them; empty when none does."""
    cgroups: bool = True
    """Whether this user can create control groups."""
    missing_controllers: Sequence[str] = ()
    has_systemd: bool = False
    egress_problem: str = ""
    """Why pods cannot reach other machines; empty when they can, or when not run as root."""
    serves_names: bool = True
    """Whether this user may have the port of name servers, 53."""
    kubectl: str = ""
    """Version of the system's kubectl, ``unknown`` when it does not say, empty when there is none."""
    rooms: Sequence[FreeSpace] = ()
    memory_bytes: int = 1 << 40
    """Memory that is free or can be reclaimed at once (``MemAvailable``)."""
    open_files: int = 1 << 20
    port: int = 6443
    listener: Listener | None = None
    """The process, other than this home's cluster, that holds the API server's port."""
    is_clock_kept: bool | None = None
    """Whether the kernel says that its clock is synchronised (NTP); None where it cannot be asked."""
    newest_write_ahead_seconds: float = 0.0
    """How far in the future the newest file of the journal was written."""


def findings(facts: MachineFacts) -> Iterator[CheckResult]:
    """Judge all facts."""
    yield CheckResult("version", f"strato {facts.strato}, Python {facts.python}")
    yield _privileges(facts)
    yield _cgroups(facts)
    if facts.isolation == "root":
        yield _egress(facts)
    elif facts.isolation == "user":
        yield _names(facts)
    for room in facts.rooms:
        yield _room(room)
    yield _memory(facts)
    yield _open_files(facts)
    yield _port(facts)
    yield _clock(facts)
    yield _kubectl(facts)


def _privileges(facts: MachineFacts) -> CheckResult:
    check, who = "privileges", f"you are {facts.user}"
    if facts.isolation == "root":
        return CheckResult(check, f"{who}: pods get namespaces and addresses of their own")
    if facts.isolation == "user":
        return CheckResult(
            check, f"{who}: pods get user namespaces, and share the machine's network; as root they do not"
        )
    what = f"{who}, who may make no namespaces: pods run as plain processes that see each other and your files"
    return warning(check, what, f"sudo sysctl {facts.forbidding}" if facts.forbidding else "sudo strato up")


def _cgroups(facts: MachineFacts) -> CheckResult:
    check = "cgroups"
    missing = ", ".join(facts.missing_controllers)
    if facts.cgroups and not missing:
        return CheckResult(check, "limits of CPU, memory and processes hold")
    what = f"limits of {missing} do not hold: the control group lacks them" if facts.cgroups else _NO_GROUP
    if facts.has_systemd and facts.user != "root":
        todo = "systemd-run --user --scope -p 'Delegate=cpu memory pids' strato up"
    elif facts.user != "root":
        todo = "sudo strato up"
    else:
        todo = "run it where /sys/fs/cgroup is writable; in a container: docker run --privileged --cgroupns=private"
    return warning(check, what, todo)


_NO_GROUP = "limits of CPU and memory do not hold: no control group can be written"


def _egress(facts: MachineFacts) -> CheckResult:
    check = "nftables"
    if not facts.egress_problem:
        return CheckResult(check, "pods can reach what this machine reaches")
    what = f"pods reach one another and this machine, nothing beyond it: {facts.egress_problem}"
    if "not installed" in facts.egress_problem:
        return warning(check, what.split("; ")[0], "apt-get install nftables")
    if "no default route" in facts.egress_problem:
        return warning(check, what, "ip route add default via GATEWAY, if this machine has a network")
    return warning(check, what, "modprobe nf_tables; or go without: strato up --pod-network isolated")


def _names(facts: MachineFacts) -> CheckResult:
    check = "names"
    if not facts.serves_names:
        what = "pods do not find Services by name: this machine gives its users no port 53"
        return warning(check, what, "sudo sysctl net.ipv4.ip_unprivileged_port_start=53")
    return CheckResult(check, "pods find Services by name")


def _room(room: FreeSpace) -> CheckResult:
    if room.free_bytes < LITTLE_ROOM_BYTES:
        what = f"{room.path}: {human_bytes(room.free_bytes)} free; a full disk stops writes"
        return problem("disk", what, f"free some room: du -xh --max-depth=2 {room.path} | sort -h | tail")
    if room.free_inodes < _FEW_INODES:
        what = f"{room.path}: room for {room.free_inodes} more files; without it nothing is written"
        return problem("disk", what, f"remove files: du -x --inodes --max-depth=2 {room.path} | sort -n | tail")
    return CheckResult("disk", f"{room.path}: {human_bytes(room.free_bytes)} free")


def _memory(facts: MachineFacts) -> CheckResult:
    what = f"{human_bytes(facts.memory_bytes)} of memory free"
    if facts.memory_bytes < _LITTLE_MEMORY_BYTES:
        return warning("memory", what, "end something, or add memory: the first start takes 400 MiB")
    return CheckResult("memory", what)


def _open_files(facts: MachineFacts) -> CheckResult:
    what = f"a process may open {facts.open_files} files"
    if facts.open_files < _FEW_OPEN_FILES:
        return warning("open files", what, "ulimit -n 65536, in the shell that types 'strato up'")
    return CheckResult("open files", what)


def _port(facts: MachineFacts) -> CheckResult:
    check, listener = "port", facts.listener
    if listener is None:
        return CheckResult(check, f"{facts.port} is free, or this cluster's own")
    who = f"process {listener.pid} ({listener.command})" if listener.pid else "another user's process"
    return problem(check, f"{facts.port} is taken by {who}", "strato up --port 0")


def _clock(facts: MachineFacts) -> CheckResult:
    check, ahead = "clock", facts.newest_write_ahead_seconds
    if ahead > _CLOCK_SECONDS:
        what = f"it was set back: the journal was written {ahead:.0f} s from now"
        return problem(check, what, "timedatectl set-ntp true; certificates and leases go by this clock")
    if facts.is_clock_kept is False:
        return warning(check, "the kernel knows nothing that keeps it right", "timedatectl set-ntp true")
    return CheckResult(check, "it is kept right" if facts.is_clock_kept else "nothing speaks against it")


def _kubectl(facts: MachineFacts) -> CheckResult:
    if not facts.kubectl:
        return warning("kubectl", "it is not installed", "apt-get install kubernetes-client")
    return CheckResult("kubectl", facts.kubectl)
