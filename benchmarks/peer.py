"""Volcano's own scheduler and controllers in our parts' place: the same control plane, nodes, webhook and definitions.

They are built from Volcano's published Go modules (``benchmarks/volcano/go.mod``), once, outside the tree. Their
configuration is the default, but for the limits of their clients, which are lifted: at 50 requests per second nothing
else would be measured. Like Volcano's chart, without leader election.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.gobuild import build
from tests.e2e.worlds import KubeWorld

from strato.scheduler.config import DEFAULT_TEXT

_SOURCE = Path(__file__).parent / "volcano"
_REQUESTS_PER_SECOND = "2000"


def volcano_programs() -> Path:
    """Return the directory of Volcano's programs; the first call takes minutes.

    Raises:
        NotBuilt: There is no Go, or a module cannot be had.
    """
    return build(_SOURCE, "volcano", ["volcano.sh/volcano/cmd/scheduler", "volcano.sh/volcano/cmd/controller-manager"])


def volcano_version() -> str:
    """Return which release is built."""
    words = next(line.split() for line in (_SOURCE / "go.mod").read_text().splitlines() if line.startswith("require v"))
    return words[2]


class VolcanoWorld(KubeWorld):
    """A control plane with our hollow nodes, scheduled by Volcano."""

    def start_scheduling(self) -> None:
        """Start Volcano's scheduler and controllers."""
        programs = volcano_programs()
        common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"]
        common += [f"--kube-api-qps={_REQUESTS_PER_SECOND}", f"--kube-api-burst={_REQUESTS_PER_SECOND}"]
        configuration = self.directory / "volcano-scheduler.yaml"
        configuration.write_text(DEFAULT_TEXT)  # its own built-in one; without a file it complains in every cycle
        placed = [f"--scheduler-conf={configuration}", f"--cache-dump-dir={self.directory}"]
        self._spawn("scheduler", [str(programs / "scheduler"), *common, *placed])
        self._spawn("controllers", [str(programs / "controller-manager"), *common])
