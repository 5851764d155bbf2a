"""Open streams of pods on a real cluster and mistreat them: leave, stall, send nonsense, claim huge frames.

A finding is: a process, descriptor or memory of the server's that stays, a command that outlives its client, a pod that
cannot be entered any more, a traceback in the log.

    python -m tests.attack.streams --count 1000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from strato.client import kubeconfig
from strato.client.config import ClusterConfig, Token
from strato.client.http import tls_context

STRATO = (sys.executable, "-P", "-m", "strato.cli.main")
MARK = "424242"
PORT = "18243"
_AT_ONCE = 40
_MEMORY_BYTES = 96 << 20
_SPARE_DESCRIPTORS = 8
_FADE_SECONDS = 90.0
_CLAIMED = 1 << 40
_PATHS = {
    "exec": [("command", "sh"), ("command", "-c"), ("command", "SCRIPT"), *((n, "1") for n in ("stdin", "stdout"))],
    "attach": [("stdin", "1"), ("stdout", "1")],
    "portforward": [("ports", PORT)],
}
_SCRIPTS = (f"sleep {MARK}", "cat", "while :; do echo 0123456789; done", "exit 3", f"sleep {MARK} & sleep {MARK}")


@dataclass(slots=True)
class Found:
    """What came out."""

    done: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


class Cluster:
    """``strato up`` with one pod that takes everything."""

    def __init__(self, home: Path, pod_network: str) -> None:
        self.home, self._pod_network = home, pod_network

    def strato(self, *args: str, stdin: str = "") -> str:
        """Run a command line against it."""
        command = [*STRATO, "--home", str(self.home), *args]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=300, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self) -> None:
        """Start, and wait until the pod runs."""
        self.strato("up", "--port", "0", "--pod-network", self._pod_network)
        serve = ["python3", "-m", "http.server", "--bind", "127.0.0.1", PORT]
        container = {"name": "c", "image": "strato/host", "command": serve}
        body = {"metadata": {"name": "p"}, "spec": {"containers": [{**container, "stdin": True}]}}
        pod = json.dumps({"apiVersion": "v1", "kind": "Pod", **body})
        self.strato("kubectl", "create", "-f", "-", stdin=pod)
        self.strato("kubectl", "wait", "--for=condition=Ready", "pod/p", "--timeout=120s")

    @property
    def pid(self) -> int:
        """The API server's process."""
        return int((self.home / "strato.pid").read_text().split()[0])

    def config(self) -> ClusterConfig:
        """Return how it is reached."""
        return kubeconfig.load([self.home / "kubeconfig"])


def descriptors(pid: int) -> int:
    """Return how many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int) -> int:
    """Return a process's memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processes(home: Path) -> list[str]:
    """Return what runs of streams below a cluster: helpers of its spawner, and commands with our mark."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                line = (place / "cmdline").read_bytes().decode(errors="replace")
                name = (place / "comm").read_text().strip()
                environment = (place / "environ").read_bytes().decode(errors="replace")
                if line.split("\0")[:2] == ["sleep", MARK] or (name == "strato-exec" and str(home) in environment):
                    found.append(f"{place.name} {name}")
    return found


class Attacker:
    """One client."""

    def __init__(self, config: ClusterConfig, rng: random.Random) -> None:
        self._rng = rng
        place = urlsplit(config.server)
        self._host, self._port = place.hostname or "", place.port or 443
        self._tls: ssl.SSLContext = tls_context(config, None)
        assert isinstance(config.auth, Token)
        self._token = config.auth.token

    async def attack(self, found: Found) -> None:
        """Open a stream and mistreat it in a way of chance."""
        rng = self._rng
        sub = rng.choice(list(_PATHS))
        how = rng.choice((self._leave, self._stall, self._talk, self._nonsense, self._claim, self._trickle))
        tunnel = sub == "portforward" and rng.random() < 0.5
        protocol = "SPDY/3.1+portforward.k8s.io" if tunnel else "v4.channel.k8s.io"
        if sub != "portforward" and rng.random() < 0.5:
            protocol = "v5.channel.k8s.io"
        script = rng.choice(_SCRIPTS)
        query = urlencode([(name, script if value == "SCRIPT" else value) for name, value in _PATHS[sub]])
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
                # otherwise its end waits behind what the server does not read, for TCP's minutes
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                try:
                    writer.write(self._request(sub, query, protocol))
                    if rng.random() < 0.1:
                        found.done["left before the answer"] += 1
                        return
                    head = await reader.readuntil(b"\r\n\r\n")
                    found.done[f"{sub} {head.split()[1].decode()}"] += 1
                    if head.startswith(b"HTTP/1.1 101"):
                        found.done[how.__name__.strip("_")] += 1
                        await how(reader, writer)
                finally:
                    writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            found.done[type(error).__name__] += 1

    def _request(self, sub: str, query: str, protocol: str) -> bytes:
        return (
            f"GET /api/v1/namespaces/default/pods/p/{sub}?{query} HTTP/1.1\r\nhost: x\r\n"
            f"authorization: Bearer {self._token}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"sec-websocket-protocol: {protocol}\r\n\r\n"
        ).encode()

    async def _leave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Leave at once, or a moment later."""
        await asyncio.sleep(self._rng.choice((0, 0, 0.05, 0.3)))

    async def _stall(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read nothing."""
        writer.transport.pause_reading()  # type: ignore[attr-defined] # of a stream over TLS
        await asyncio.sleep(self._rng.uniform(0.1, 1.5))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send more than anybody takes."""
        for _ in range(self._rng.randrange(1, 60)):
            writer.write(frame(2, b"\0" + self._rng.randbytes(60_000)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await writer.drain()

    async def _nonsense(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send what is no frame, and frames whose content is nothing."""
        for _ in range(10):
            opcode = self._rng.randrange(16)
            data = self._rng.randbytes(self._rng.randrange(300))
            writer.write(self._rng.choice((data, frame(opcode, data), frame(2, data), frame(1, data))))
            await asyncio.sleep(0.01)

    async def _claim(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Claim a terabyte and send some of it."""
        writer.write(b"\x82\xff" + struct.pack(">Q", _CLAIMED) + b"\0\0\0\0" + b"\4")
        for _ in range(20):
            writer.write(b"{" * 60_000)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await writer.drain()

    async def _trickle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send thousands of empty messages, pings and ends of input."""
        for _ in range(self._rng.randrange(1, 40)):
            writer.write(b"".join(frame(self._rng.choice((2, 9, 10)), b"") for _ in range(200)))
            writer.write(frame(2, b"\xff\0"))
            await asyncio.sleep(0)


def frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame, with a mask of zeros."""
    size = len(payload)
    head = bytes((0x80 | opcode,))
    if size < 126:
        head += bytes((0x80 | size,))
    elif size < 65536:
        head += b"\xfe" + struct.pack(">H", size)
    else:
        head += b"\xff" + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload


async def attack(
    count: int, seed: int, *, pod_network: str = "nat", show: Callable[[str], object] = lambda _: None
) -> Found:
    """Mistreat so many streams of a cluster that is made for that."""
    found, rng = Found(), random.Random(seed)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # writing to who hung up is what this is about
    with tempfile.TemporaryDirectory(prefix="strato-streams-") as folder:
        cluster = Cluster(Path(folder) / "home", pod_network)
        try:
            await asyncio.to_thread(cluster.start)
            attacker = Attacker(cluster.config(), rng)
            await _all(attacker.attack, found, _AT_ONCE)  # what is made once counts for nothing
            await _faded(cluster, 0, 0)
            open_before, memory_before = descriptors(cluster.pid), resident_bytes(cluster.pid)
            begun = time.monotonic()
            for done in range(0, count, 100):
                await _all(attacker.attack, found, min(100, count - done))
                show(f"{done + min(100, count - done)} streams in {time.monotonic() - begun:.0f} s")
            left = await _faded(cluster, open_before + _SPARE_DESCRIPTORS, _FADE_SECONDS)
            found.wrong += left
            grown = resident_bytes(cluster.pid) - memory_before
            if grown > _MEMORY_BYTES:
                found.wrong.append(f"the server grew by {grown >> 20} MiB")
            found.done["MiB grown"] = max(0, grown >> 20)
            if await asyncio.to_thread(cluster.strato, "exec", "p", "--", "echo", "on") != "on\n":
                found.wrong.append("the pod cannot be entered any more")
            log = (cluster.home / "strato.log").read_text(errors="replace")
            if log.count("SSL connection is closed") > count:
                found.wrong.append(f"{log.count('SSL connection is closed')} lines in the log about closed connections")
            if "Traceback" in log:
                found.wrong.append("a traceback in the log: " + log[log.index("Traceback") :][:3000])
        finally:
            with contextlib.suppress(RuntimeError):
                await asyncio.to_thread(cluster.strato, "down")
    return found


async def _all(one: Callable[[Found], Awaitable[None]], found: Found, count: int) -> None:
    free = asyncio.Semaphore(_AT_ONCE)

    async def bounded() -> None:
        async with free:
            await one(found)

    await asyncio.gather(*(bounded() for _ in range(count)))


async def _faded(cluster: Cluster, most_open: int, seconds: float) -> list[str]:
    """Wait until nothing is left of the streams; return what is."""
    deadline = time.monotonic() + max(seconds, 20.0)
    while True:
        left = [f"a process is left: {one}" for one in processes(cluster.home)]
        if seconds and descriptors(cluster.pid) > most_open:
            left.append(f"{descriptors(cluster.pid)} descriptors are open, {most_open} at most before")
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.2)


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pod-network", default="nat", help="of the cluster, as 'strato up' takes it")
    arguments = parser.parse_args()
    work = attack(
        arguments.count,
        arguments.seed,
        pod_network=arguments.pod_network,
        show=lambda text: print(text, flush=True),
    )
    found = asyncio.run(work)
    for what, times in sorted(found.done.items()):
        print(f"{what:<40} {times:>8}")
    for wrong in found.wrong:
        print(f"FOUND {wrong}")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
