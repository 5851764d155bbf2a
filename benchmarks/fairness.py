"""How long a small GET of another user takes beside work on whole collections and floods; what unread answers take.

    python -m benchmarks.fairness [--pods 100000] [--seconds 8]

One API server over HTTPS in a process of its own, the load in a second, the one who asks for one object again and again
in this one. Memory is the server's peak during the load, above what it had before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

from benchmarks.api import PODS, asker, cpu_seconds, many, pod
from benchmarks.report import check_writable, publish
from strato.clock import SystemClock
from strato.server.embedded import open_server

Row = dict[str, object]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
INITIAL = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


class Talker:
    """Speaks HTTP as one user, on connections of its own."""

    def __init__(self, home: Path, name: str) -> None:
        read = yaml.safe_load((home / name).read_text())
        self.token = read["users"][0]["user"]["token"]
        self.port = int(read["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        self.tls = ssl.create_default_context()
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the two halves of a connection."""
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, limit=1 << 20)

    def request(self, path: str, method: str = "GET", accept: str = "application/json") -> bytes:
        """Return the text of a request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\nAccept: {accept}\r\n\r\n"
        return head.encode()


async def read_answer(reader: asyncio.StreamReader) -> int:
    """Read one answer to its end; return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
    return status


async def again_and_again(talker: Talker, requests: bytes, answers: int, connections: int) -> None:
    """Ask so many times at once on each connection, and read all, for ever."""

    async def one() -> None:
        reader, writer = await talker.connect()
        while True:
            writer.write(requests)
            for _ in range(answers):
                await read_answer(reader)

    await asyncio.gather(*(one() for _ in range(connections)))


async def watches(talker: Talker) -> None:
    """Begin watches that send everything first, and leave them."""

    async def one() -> None:
        while True:
            reader, writer = await talker.connect()
            writer.write(talker.request(f"{PODS}?{INITIAL}"))
            await _until(reader)
            writer.close()

    await asyncio.gather(*(one() for _ in range(2)))


async def _until(reader: asyncio.StreamReader) -> None:
    end = b""
    while b"initial-events-end" not in (read := end + await reader.read(1 << 20)):
        end = read[-32:]


async def unread(talker: Talker, connections: int = 25, lists: int = 4) -> None:
    """Ask for lists and read nothing."""
    held = [await talker.connect() for _ in range(connections)]
    for reader, writer in held:
        transport = writer.transport
        transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport
        writer.write(talker.request(PODS) * lists)
        del reader
    await asyncio.Event().wait()


LOADS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "4 lists": lambda home: again_and_again(talker := Talker(home, "kubeconfig"), talker.request(PODS), 1, 4),
    "4 lists by label": lambda home: again_and_again(
        talker := Talker(home, "kubeconfig"), talker.request(f"{PODS}?labelSelector=volcano.sh/job-name=job-7"), 1, 4
    ),
    "2 tables": lambda home: again_and_again(
        talker := Talker(home, "kubeconfig"), talker.request(PODS, accept=TABLE), 1, 2
    ),
    "2 watches begin": lambda home: watches(Talker(home, "kubeconfig")),
    "flood of one user, 100 x 16 GETs": lambda home: again_and_again(
        talker := Talker(home, "kubeconfig-flood"), talker.request(f"{PODS}/job-0-worker-1") * 16, 16, 100
    ),
    "25 x 4 lists, unread": lambda home: unread(Talker(home, "kubeconfig")),
    "deletecollection": lambda home: again_and_again(
        talker := Talker(home, "kubeconfig"), talker.request(f"{PODS}?labelSelector=!keep", "DELETE"), 1, 1
    ),
}


def peak_mib(pid: int) -> float:
    """Return the peak of a process's memory since `forget_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def forget_peak(pid: int) -> None:
    """Measure a process's peak from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def probe(talker: Talker, seconds: float) -> list[float]:
    """Ask for one object every few milliseconds; return how long each took."""
    reader, writer = await talker.connect()
    request, took = talker.request(f"{PODS}/kept"), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        writer.write(request)
        status = await read_answer(reader)
        took.append(time.perf_counter() - began)
        assert status == 200, status
        await asyncio.sleep(0.005)
    writer.close()
    return sorted(took)


async def measure(home: Path, pid: int, name: str, seconds: float) -> Row:
    """Probe beside one load."""
    forget_peak(pid)
    before, cpu = peak_mib(pid), cpu_seconds(pid)
    command = [sys.executable, "-m", "benchmarks.fairness", "--load", name, "--home", str(home)]
    load = subprocess.Popen(command) if name != "nothing" else None
    try:
        await asyncio.sleep(1.0)
        took = await probe(Talker(home, "kubeconfig-view"), seconds)
    finally:
        if load is not None:
            load.kill()
            load.wait()
    used = cpu_seconds(pid) - cpu
    row: Row = {"beside": name, "GETs": len(took)}
    for word, part in (("p50 ms", 0.5), ("p99 ms", 0.99)):
        row[word] = 1000 * took[min(len(took) - 1, int(part * len(took)))]
    await asyncio.sleep(1.0)
    return {**row, "max ms": 1000 * took[-1], "peak MiB": peak_mib(pid) - before, "server CPU s": used}


async def fill(home: Path, pods: int) -> None:
    """Make a journal with pods, and one that is kept when the others are deleted."""
    server, journal = open_server(SystemClock(), random.Random(1), home / "journal.db")
    assert journal is not None
    jobs = [
        (PODS, pod(f"job-{number // 100}-worker-{number}", f"job-{number // 100}"), "application/json")
        for number in range(pods)
    ]
    kept = pod("kept", "kept").replace(b'"labels": {', b'"labels": {"keep": "", ')
    await many(asker(server), "POST", [*jobs, (PODS, kept, "application/json")])
    await asyncio.to_thread(journal.close)


async def run(pods: int, seconds: float, wanted: str) -> list[Row]:
    """Measure beside every load."""
    home = Path(tempfile.mkdtemp(prefix="strato-bench-"))
    await fill(home, pods)
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.api_server", str(home)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        child.stdout.readline()
        names = [name for name in ("nothing", *LOADS) if wanted in name]
        return [await measure(home, child.pid, name, seconds) for name in names]
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        shutil.rmtree(home)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pods", type=int, default=100_000, help="how many pods are stored")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long is measured beside each load")
    parser.add_argument("--only", default="", help="loads whose name has this in it")
    parser.add_argument("--load", choices=sorted(LOADS), help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    check_writable()
    if options.load:
        with contextlib.suppress(KeyboardInterrupt, ConnectionError, asyncio.IncompleteReadError):
            asyncio.run(LOADS[options.load](options.home))  # type: ignore[arg-type]  # each is a coroutine
        return 0
    rows = asyncio.run(run(options.pods, options.seconds, options.only))
    publish("fairness", rows, f"{options.pods:,} pods of 2 KB; a GET of one pod by another user every 5 ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
