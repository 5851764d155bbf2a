"""What many watches on one server cost: memory of each, and how long one change takes to reach them all.

    python -m benchmarks.watches [--watches 10000] [--changes 20]

The server runs in a process of its own with its journal on; the clients are TLS connections of three users in this
process, for no user may have more than a quarter of a server's connections. All watch the pods of one namespace. A
change has reached all of them when the last has received it, so that on two cores the figures contain the clients' work
too; the server's CPU does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.api import PODS, cpu_seconds, pod, resident_mib
from benchmarks.api_server import OTHERS
from benchmarks.report import check_writable, publish
from strato.api.wire import Request
from strato.client import kubeconfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock

_AT_ONCE = 64
"""Connections that are opened at the same time."""
_WAIT_SECONDS = 600.0


class Watches:
    """Counts what all watches have received."""

    def __init__(self) -> None:
        self.answered = 0
        self.events = 0
        self.lost = 0
        self._wanted = 0
        self._changed = asyncio.Event()

    async def reach(self, events: int) -> None:
        """Wait until so many events have come in all."""
        self._wanted = events
        self._changed.clear()
        async with asyncio.timeout(_WAIT_SECONDS):
            while self.events < events and not self.lost:
                await self._changed.wait()
                self._changed.clear()
        if self.lost:
            raise SystemExit(f"error: {self.lost} watches were closed by the server")

    def count(self, events: int) -> None:
        self.events += events
        if self.events >= self._wanted:
            self._changed.set()

    def lose(self) -> None:
        self.lost += 1
        self._changed.set()


class Watch(asyncio.Protocol):
    """One watch: asks, then counts lines."""

    def __init__(self, watches: Watches, request: bytes) -> None:
        self._watches, self._request = watches, request
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            if not data.startswith(b"HTTP/1.1 200"):
                self.answered.set_exception(RuntimeError(data[:300].decode(errors="replace")))
                return
            self.answered.set_result(None)
        self._watches.count(data.count(b'{"type":"'))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionError("closed before it was answered"))
        self._watches.lose()


async def open_watches(home: Path, count: int, watches: Watches, revision: str) -> list[Watch]:
    """Open watches for changes from now on, shared out among the users."""
    opened: list[Watch] = []
    loop = asyncio.get_running_loop()
    gate = asyncio.Semaphore(_AT_ONCE)
    files = [home / "kubeconfig", *(home / f"kubeconfig-{user}" for user in OTHERS)]
    tokens = [re.search(r"token:\s*\"?([^\s\"]+)", file.read_text()) for file in files]
    context = ssl.create_default_context(cadata=Path(home / "pki/ca.crt").read_text())
    where = urlsplit(kubeconfig.load(files[:1]).server)

    async def one(token: str) -> None:
        request = (
            f"GET {PODS}?watch=true&resourceVersion={revision} HTTP/1.1\r\n"
            f"Host: {where.netloc}\r\nAccept: application/json\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()
        async with gate:
            _, watch = await loop.create_connection(
                lambda: Watch(watches, request), where.hostname, where.port, ssl=context, ssl_handshake_timeout=120
            )
            opened.append(watch)
            await watch.answered

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            found = tokens[number % len(tokens)]
            assert found is not None, "the kubeconfigs hold tokens"
            group.create_task(one(found[1]))
    return opened


async def measure(home: Path, pid: int, count: int, changes: int) -> Sequence[dict[str, object]]:
    cluster = HttpCluster(kubeconfig.load([home / "kubeconfig"]), SystemClock())

    async def ask(method: str, path: str, body: bytes, media: str) -> str:
        """Return the pod's resource version."""
        answer = await cluster.exchange(Request(method, path, {}, {"content-type": media}, body))
        assert answer.status < 300, answer.body
        return str(json.loads(answer.body)["metadata"]["resourceVersion"])

    revision = await ask("POST", PODS, pod("p", "job"), "application/json")
    before, cpu, began = resident_mib(pid), cpu_seconds(pid), time.monotonic()
    watches = Watches()
    opened = await open_watches(home, count, watches, revision)
    opening = time.monotonic() - began
    memory = (resident_mib(pid) - before) * 1024 / count
    opening_cpu = cpu_seconds(pid) - cpu
    seconds, cpu = [], cpu_seconds(pid)
    for number in range(changes):
        body = json.dumps({"metadata": {"annotations": {"change": str(number)}}}).encode()
        began = time.monotonic()
        await ask("PATCH", f"{PODS}/p", body, "application/merge-patch+json")
        await watches.reach(count * (number + 1))
        seconds.append(time.monotonic() - began)
    event_cpu = (cpu_seconds(pid) - cpu) / changes
    rows = [
        ("server's memory per watch", memory, "KiB"),
        ("server's memory in all", resident_mib(pid), "MiB"),
        ("opening all", opening, "s"),
        ("opening one, server's CPU", opening_cpu / count * 1e6, "µs"),
        ("one change to all, p50", statistics.median(seconds), "s"),
        ("one change to all, slowest", max(seconds), "s"),
        ("one change to one watch, server's CPU", event_cpu / count * 1e6, "µs"),
    ]
    for watch in opened:
        assert watch.transport is not None
        watch.transport.close()
    await cluster.close()
    return [{"watches": count, "what": what, "value": round(value, 3), "unit": unit} for what, value, unit in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--watches", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=20, help="of one pod, one after the other")
    options = parser.parse_args()
    check_writable()
    with tempfile.TemporaryDirectory(prefix="strato-bench-") as directory:
        home = Path(directory)
        command = [sys.executable, "-m", "benchmarks.api_server", str(home)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert child.stdout is not None
        try:
            child.stdout.readline()
            rows = asyncio.run(measure(home, child.pid, options.watches, options.changes))
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
    publish("watches", rows, "TLS connections of three users; the clients run beside the server on the same machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
