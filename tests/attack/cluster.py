"""A real API server in a process of its own, to be loaded, killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from strato.api import catalog
from strato.client import kubeconfig
from strato.client.cluster import Cluster
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.errors import ApiError

STRATO = (sys.executable, "-P", "-m", "strato.cli.main")
_START_SECONDS = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Refused(Exception):
    """The server ended instead of serving; carries what it said."""


class Server:
    """``strato run apiserver`` of one home."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home, self.options = home, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Path:
        return self.home / "data" / "journal.sqlite"

    @property
    def log(self) -> Path:
        return self.home.with_name(self.home.name + ".log")

    async def start(self) -> None:
        """Start and wait until it serves."""
        ready = self.home / "ready.json"
        ready.unlink(missing_ok=True)
        command = [*STRATO, "--home", str(self.home), "run", "apiserver", "--port", "0", *self.options]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        async with asyncio.timeout(_START_SECONDS):
            while not self._serves(ready):
                if self._process.poll() is not None:
                    raise Refused(self.log.read_text())
                await asyncio.sleep(0.02)

    def _serves(self, ready: Path) -> bool:
        assert self._process is not None
        try:
            return bool(json.loads(ready.read_text())["pid"] == self._process.pid)
        except (OSError, ValueError):
            return False

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def kill(self) -> None:
        """Kill it at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Let it end in good order."""
        assert self._process is not None
        self._process.terminate()
        if self._process.wait(60) != 0:
            raise Refused(self.log.read_text())

    def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Cluster]:
        """Give a client of the administrator."""
        cluster = HttpCluster(kubeconfig.load([self.home / "kubeconfig"]), SystemClock())
        try:
            yield cluster
        finally:
            await cluster.close()

    async def stored(self) -> dict[str, str]:
        """Return what field ``n`` of each config map of namespace ``default`` says."""
        async with self.client() as cluster:
            answer = json.loads(await cluster.raw("GET", "/api/v1/namespaces/default/configmaps"))
        return {one["metadata"]["name"]: one["data"]["n"] for one in answer["items"] if "n" in one.get("data", {})}


class Writer:
    """Writes config maps, and knows what was acknowledged of each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.number = 0
        self.certain: dict[str, str | None] = {}
        """The newest acknowledged state by name; None is deleted."""
        self.possible: dict[str, str | None] = {}
        """What was asked for and not answered."""

    async def run(self, cluster: Cluster, choose: Callable[[int], int], size: int) -> None:
        """Write until the server goes away; each key is written by this one alone, one request at a time."""
        while True:
            self.number += 1
            key = f"{self._name}-{choose(8)}"
            known = self.certain.get(key)
            wanted: str | None = str(self.number)
            if known is not None and choose(4) == 0:
                wanted = None
            self.possible = {key: wanted}
            try:
                await self._write(cluster, key, known, wanted, "x" * choose(size))
            except (ApiError, OSError):
                return
            self.certain[key] = wanted
            self.possible = {}

    async def _write(self, cluster: Cluster, key: str, known: str | None, wanted: str | None, fill: str) -> None:
        if wanted is None:
            await cluster.delete(catalog.CONFIGMAP, key, "default")
        elif known is None:
            body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key}}
            await cluster.create(catalog.CONFIGMAP, {**body, "data": {"n": wanted, "fill": fill}}, "default")
        else:
            await cluster.patch(catalog.CONFIGMAP, key, "default", {"data": {"n": wanted, "fill": fill}})

    def compare(self, stored: dict[str, str]) -> list[str]:
        """Return what was acknowledged and is not there."""
        wrong = []
        for key in {**self.certain, **self.possible}:
            found = stored.get(key)
            allowed = [self.certain.get(key), *([self.possible[key]] if key in self.possible else [])]
            if found not in allowed:
                wrong.append(f"{key}: found {found}, acknowledged {allowed[0]}")
        return wrong

    def settle(self, stored: dict[str, str]) -> list[str]:
        """Return what was acknowledged and is not there; take what is there as what is certain."""
        wrong = self.compare(stored)
        self.certain = {key: stored.get(key) for key in {**self.certain, **self.possible}}
        self.possible = {}
        return wrong


def burst(server: Server, writers: list[Writer], choose: Callable[[int], int], *, size: int) -> asyncio.Task[Any]:
    """Let all writers write at the same time until the server goes away; return what waits for that."""

    async def work() -> None:
        async with server.client() as cluster:
            await asyncio.gather(*(writer.run(cluster, choose, size) for writer in writers))

    return asyncio.create_task(work())
