"""Start an embedded cluster for a benchmark and read what its processes use."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STRATO = [sys.executable, "-m", "strato.cli.main"]


@dataclass(frozen=True)
class Running:
    """A running embedded cluster."""

    home: Path
    ready_seconds: float

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def pid(self) -> int:
        return int((self.home / "strato.pid").read_text().split()[0])

    @property
    def processes(self) -> list[int]:
        """The API server's process and the one of controllers, scheduler and nodes."""
        return [self.pid, *map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())]

    def cpu_seconds(self) -> float:
        """Return the processor time of all processes so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.processes]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> int:
        """Return the resident memory of all processes together."""
        lines = [line for pid in self.processes for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


@contextlib.contextmanager
def embedded(*options: str) -> Iterator[Running]:
    """Run ``strato up`` with options for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="strato-bench-") as directory:
        base = [*STRATO, "--home", directory]
        started = time.monotonic()
        subprocess.run([*base, "up", "--port", "0", *options], check=True, stdout=subprocess.DEVNULL)
        try:
            yield Running(Path(directory), time.monotonic() - started)
        finally:
            subprocess.run([*base, "down"], check=False, stdout=subprocess.DEVNULL)
