"""What the API server alone costs: create, change, list and watch, in process and over HTTPS; memory; restart.

    python -m benchmarks.api [--pods 10000 100000]

Every figure is CPU time of the server's side: in process of all there is (the client is a function call), over HTTPS of
the server's process. The journal is on, so that every write is durable before it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import check_writable, publish
from strato.api.wire import Request, User
from strato.client import kubeconfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.server.api import ApiServer
from strato.server.embedded import open_server

ADMIN = User("bench", ("system:masters", "system:authenticated"))
AT_ONCE = 256
WRITES = 5_000
"""Writes per figure; also of those over HTTPS, which come on top of the pods there are."""
PODS = "/api/v1/namespaces/default/pods"
Ask = Callable[[str, str, bytes, str], Awaitable[int]]
"""Method, path, body and content type to the size of a successful answer."""
Row = dict[str, object]


def pod(name: str, group: str) -> bytes:
    """A pod as a job controller makes it: 2 KB when it is stored."""
    requests = {"cpu": "1", "memory": "1Gi"}
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/job-version": "0",
    }
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": group, "uid": group, "controller": True}
    container = {
        "name": "worker",
        "image": "busybox:1.36",
        "command": ["sleep", "60"],
        "env": [{"name": "VC_TASK_INDEX", "value": name.rpartition("-")[2]}, {"name": "GROUP", "value": group}],
        "resources": {"requests": requests, "limits": requests},
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"volcano.sh/job-name": group, "volcano.sh/queue-name": "default"},
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }
    return json.dumps(body).encode()


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def many(ask: Ask, method: str, jobs: list[tuple[str, bytes, str]]) -> float:
    """Do all, a bounded number at once; return the seconds it took."""
    began, queue = time.monotonic(), iter(jobs)

    async def work() -> None:
        for path, body, media in queue:
            await ask(method, path, body, media)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return time.monotonic() - began


class Meter:
    """Collects figures of one transport and one number of pods."""

    def __init__(self, transport: str, pods: int, cpu: Callable[[], float]) -> None:
        self.rows: list[Row] = []
        self._transport, self._pods, self._cpu = transport, pods, cpu

    @contextlib.contextmanager
    def measure(self, what: str, count: int, unit: str = "us each") -> Iterator[None]:
        """Measure a block that does something so many times."""
        cpu, began = self._cpu(), time.monotonic()
        yield
        seconds, spent = time.monotonic() - began, self._cpu() - cpu
        self.add(what, {"us each": 1e6, "ms each": 1e3}[unit] * spent / count, unit, count / seconds)

    def add(self, what: str, value: float, unit: str, rate: float = 0.0) -> None:
        head = {"transport": self._transport, "pods": self._pods, "what": what}
        self.rows.append({**head, "value": value, "unit": unit, "per_second": round(rate) or ""})


async def write_figures(meter: Meter, ask: Ask, first: int) -> None:
    """Create, bind and report pods beyond those there are."""
    names = [f"job-{number // 100}-worker-{number}" for number in range(first, first + WRITES)]
    creates = [(PODS, pod(name, f"job-{name}"), "application/json") for name in names]
    with meter.measure("create", WRITES):
        await many(ask, "POST", creates)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    bindings = [
        (
            f"{PODS}/{name}/binding",
            json.dumps({"metadata": {"name": name}, "target": target}).encode(),
            "application/json",
        )
        for name in names
    ]
    with meter.measure("bind", WRITES):
        await many(ask, "POST", bindings)
    status = json.dumps(
        {"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}}
    ).encode()
    with meter.measure("status", WRITES):
        await many(ask, "PATCH", [(f"{PODS}/{name}/status", status, "application/merge-patch+json") for name in names])


async def read_figures(meter: Meter, ask: Ask, pods: int, watch: Callable[[int], Awaitable[None]]) -> None:
    """List in every way, and watch from nothing."""
    with meter.measure("get", WRITES):
        await many(ask, "GET", [(f"{PODS}/job-0-worker-{number % 100}", b"", "") for number in range(WRITES)])
    with meter.measure("list all", pods):
        await ask("GET", PODS, b"", "")
    with meter.measure("list one by label", pods):
        await ask("GET", f"{PODS}?labelSelector=volcano.sh/job-name=job-7", b"", "")
    with meter.measure("page of 500", 50, "ms each"):
        for _ in range(50):
            await ask("GET", f"{PODS}?limit=500", b"", "")
    with meter.measure("watch, initial events", pods):
        await watch(pods)


# ── in process ────────────────────────────────────────────────────────────────────────────────────────────────────


async def in_process(home: Path, pods: int) -> list[Row]:
    """Fill a journal with pods and measure on the way."""
    meter = Meter("in process", pods, time.process_time)
    gc.collect()
    before = resident_mib(os.getpid())
    server, journal = open_server(SystemClock(), random.Random(1), home / "journal.db")
    assert journal is not None
    ask = asker(server)
    jobs = [
        (PODS, pod(f"job-{number // 100}-worker-{number}", f"job-{number // 100}"), "application/json")
        for number in range(pods)
    ]
    with meter.measure("create, all", pods):
        await many(ask, "POST", jobs)
    del jobs
    gc.collect()
    meter.add("memory", 1024 * (resident_mib(os.getpid()) - before) / pods, "KiB each")

    async def watch(count: int) -> None:
        query = {"watch": ["true"], "sendInitialEvents": ["true"], "allowWatchBookmarks": ["true"]}
        query["resourceVersionMatch"] = ["NotOlderThan"]
        answer = await server.handle(Request("GET", PODS, query, {}, b"", ADMIN))
        assert answer.stream is not None
        await read_frames(answer.stream, count)

    await read_figures(meter, ask, pods, watch)
    await write_figures(meter, ask, pods)
    await asyncio.to_thread(journal.close)
    return meter.rows


def asker(server: ApiServer) -> Ask:
    async def ask(method: str, path: str, body: bytes, media: str) -> int:
        path, _, text = path.partition("?")
        query = {name: [value] for name, _, value in (part.partition("=") for part in text.split("&") if part)}
        answer = await server.handle(Request(method, path, query, {"content-type": media}, body, ADMIN))
        assert answer.status < 300, answer.body
        if answer.stream is None:
            return len(answer.body)
        return sum([len(chunk) async for chunk in answer.stream])

    return ask


async def read_frames(stream: AsyncIterator[bytes], count: int) -> None:
    """Read until all initial events have come; the bookmark behind them is one more."""
    async for chunk in stream:
        count -= chunk.count(b"\n")
        if count < 0:
            break
    close: Any = getattr(stream, "aclose", None)
    if close is not None:
        await close()


# ── over HTTPS ────────────────────────────────────────────────────────────────────────────────────────────────────


async def over_https(home: Path, pods: int) -> list[Row]:
    """Restart a server on the journal that is there, and measure it from here."""
    command = [sys.executable, "-m", "benchmarks.api_server", str(home)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert child.stdout is not None
    try:
        _, seconds, cpu = child.stdout.readline().split()
        meter = Meter("HTTPS", pods, lambda: cpu_seconds(child.pid))
        meter.add("restart until it serves", float(seconds), "s")
        meter.add("restart, CPU", float(cpu), "s")
        meter.add("memory after the restart", resident_mib(child.pid), "MiB")
        cluster = HttpCluster(kubeconfig.load([home / "kubeconfig"]), SystemClock())
        try:
            await https_figures(meter, cluster, pods)
        finally:
            await cluster.close()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    return meter.rows


async def https_figures(meter: Meter, cluster: HttpCluster, pods: int) -> None:
    async def ask(method: str, path: str, body: bytes, media: str) -> int:
        path, _, text = path.partition("?")
        query = {name: [value] for name, _, value in (part.partition("=") for part in text.split("&") if part)}
        answer = await cluster.exchange(Request(method, path, query, {"content-type": media} if body else {}, body))
        assert answer.status < 300, answer.body
        return len(answer.body)

    async def watch(count: int) -> None:
        options = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
        await read_frames(cluster.stream(PODS, query={"watch": "true", **options}), count)

    stored = pods + WRITES  # those that were created in process for the figures of writing
    await read_figures(meter, ask, stored, watch)
    await write_figures(meter, ask, stored)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pods", type=int, nargs="+", default=[10_000, 100_000], help="how many pods are stored")
    options = parser.parse_args()
    check_writable()
    rows: list[Row] = []
    for pods in options.pods:
        with tempfile.TemporaryDirectory(prefix="strato-bench-") as directory:
            home = Path(directory)
            rows += asyncio.run(in_process(home, pods))
            rows += asyncio.run(over_https(home, pods))
    publish("api", rows, f"{AT_ONCE} requests at once; CPU of the server's side; pods of 2 KB, each with an owner")
    return 0


if __name__ == "__main__":
    sys.exit(main())
