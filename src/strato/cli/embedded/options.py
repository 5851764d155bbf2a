"""What ``strato up`` starts; small enough to travel on a command line."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from strato.cli.auditing import AuditOptions
from strato.cli.hollowoptions import HollowOptions
from strato.cli.home import Home, Stop
from strato.cli.imageoptions import ImageOptions
from strato.cli.mailing import MailOptions
from strato.cli.mesosoptions import MesosOptions
from strato.cli.recordoptions import RecordOptions
from strato.cli.storage import StorageOptions
from strato.cli.training import TrainingOptions

Part = tuple[str, Callable[[], Awaitable[object]]]
"""Something that runs until it is cancelled: what it is called when it stops by itself, and how it runs."""

Ending = Callable[[], Stop | None]
"""Returns how pods end with the node, None when they live on: after a failure, as after a crash."""


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``strato up`` starts."""

    home_path: str
    hollow: HollowOptions
    sandbox: bool
    """Whether this machine is a node."""
    sandbox_nodes: int = 1
    """How many."""
    sandbox_cpus: str
    sandbox_memory: str
    """Quantities; empty is what the machine has."""
    cpu_overcommit_factor: float = 1.0
    """Of every node; see ``strato up --help``."""
    images: ImageOptions
    pod_network: str
    """``nat``, ``isolated`` or ``host``; see ``strato up --help``."""
    pod_users: str
    """``own`` or ``host``, likewise."""
    gpus: str
    """``all``, ``shared`` or ``none``, likewise."""
    host: str
    port: int
    """0 picks a free one."""
    data_dir: str
    in_memory: bool
    storage: StorageOptions
    audit: AuditOptions = AuditOptions()
    mail: MailOptions = MailOptions()
    training: TrainingOptions = TrainingOptions()
    scheduler_config: str
    """A file; empty is the built-in configuration."""
    record: RecordOptions = RecordOptions()
    shadow: str = ""
    """A file with the configuration of a shadow policy; empty is none."""
    predict_starts: bool = False
    """Whether waiting pod groups get the instant at which they are expected to start."""
    shard_mode: str = "none"
    """How NodeShards are used: ``none``, ``hard`` or ``soft``; but for ``none`` the sharding controller makes them."""
    agent: bool = False
    """Whether this machine's node has an agent."""
    mesos: MesosOptions | None = None
    """Of a Mesos master; None starts none."""
    processes: int
    """1 keeps everything in one process, 2 gives the API server one of its own."""

    @property
    def home(self) -> Home:
        """The cluster's directory."""
        return Home(Path(self.home_path))

    @property
    def records_history(self) -> bool:
        """Return whether runs of jobs are recorded: where pods are real, and what is known outlives the server."""
        return self.sandbox and not self.in_memory


_FLAGS = {
    "kinds": "training-kinds",
    "init_image": "pytorch-init-container-image",
    "init_tries": "pytorch-init-container-max-tries",
    "enforces_schedule_timeout": "enforce-schedule-timeout",
    "nodes": "hollow-nodes",
    "sandbox_cpus": "cpus",
    "sandbox_memory": "node-memory",
    "scheduler_config": "config",
    "shard_mode": "scheduler-sharding-mode",
}
"""Of fields that are not called like their option."""


def differences(running: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "--") -> list[str]:
    """Return in which options two clusters differ, as a person writes them."""
    found = []
    for name in sorted({*running, *wanted}):
        ours, theirs = running.get(name), wanted.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += differences(ours, theirs, "--mesos-" if name == "mesos" else prefix)
        elif ours != theirs:
            found.append(f"{prefix}{_FLAGS.get(name, name).replace('_', '-')}: {ours!r}, not {theirs!r}")
    return found


def default_processes() -> int:
    """Return how many processes this machine has processors for: the second one only helps beside the first."""
    return 2 if len(os.sched_getaffinity(0)) > 1 else 1
