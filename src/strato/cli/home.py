"""Where the embedded cluster of this machine keeps its state, and whether it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one embedded cluster."""

    path: Path

    @classmethod
    def locate(cls, chosen: str | None) -> Home:
        """Return the directory chosen, else ``$STRATO_HOME`` (read by the option), else the user's data directory."""
        if chosen:
            return cls(Path(chosen).expanduser().resolve())
        base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        return cls(Path(base) / "strato")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, mode 0600."""
        return self.path / "kubeconfig"

    @property
    def data(self) -> Path:
        """The API server's journal."""
        return self.path / "data"

    @property
    def backed_up(self) -> dict[str, Path]:
        """Files beside the journal that a backup holds, by name: keys, certificates, tokens."""
        found = {f"pki/{path.name}": path for path in sorted(self.pki.glob("[!.]*")) if path.is_file()}
        return found | ({self.tokens.name: self.tokens} if self.tokens.exists() else {})

    @property
    def node(self) -> Path:
        """Sandboxes, images and logs of this machine's node."""
        return self.path / "node"

    @property
    def pki(self) -> Path:
        """The cluster's certificates and keys."""
        return self.path / "pki"

    @property
    def tokens(self) -> Path:
        """The bearer tokens of its users."""
        return self.path / "tokens.json"

    @property
    def log(self) -> Path:
        """What the background process prints."""
        return self.path / "strato.log"

    @property
    def pid_file(self) -> Path:
        """Process id of the running cluster."""
        return self.path / "strato.pid"

    @property
    def ready_file(self) -> Path:
        """Exists, with the server's address, while the cluster serves."""
        return self.path / "ready.json"

    def ready(self) -> dict[str, Any]:
        """Return what the running cluster says of itself: address, process, node; empty while there is none."""
        try:
            found: dict[str, Any] = json.loads(self.ready_file.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def running_pid(self) -> int | None:
        """Return the process id of the running cluster, or None."""
        try:
            pid = int(self.pid_file.read_text().split()[0])
            os.kill(pid, 0)
        except (OSError, ValueError, IndexError):
            return None
        return pid if _is_ours(pid) else None

    def stop_signal(self, pid: int) -> None:
        """Ask the cluster to stop."""
        os.kill(pid, signal.SIGTERM)


def _is_ours(pid: int) -> bool:
    """Guard against a reused process id: the process must be one of ours, and no zombie."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return b"strato" in command and state != "Z"


def node_name() -> str:
    """Return what this machine is called as a node."""
    return socket.gethostname().lower()
