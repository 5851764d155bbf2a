"""What ``strato up`` starts, in a form short enough for the command line of the companion."""

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
"""A coroutine function that runs until cancelled, and its name for the error when it stops by itself."""

Ending = Callable[[], Stop | None]
"""Returns how pods end when their node stops; None, after a failure or crash, leaves their containers running."""


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``strato up`` starts."""

    home_path: str
    hollow: HollowOptions
    sandbox: bool
    """Whether this machine is a node."""
    sandbox_nodes: int = 1
    """How many nodes this machine is, each with its resources."""
    sandbox_cpus: str
    sandbox_memory: str
    """Quantities that the node offers; empty is what the machine has."""
    cpu_overcommit_factor: float = 1.0
    """Factor of the cpu that every node offers; see ``strato up --help``."""
    images: ImageOptions
    pod_network: str
    """``nat``, ``isolated`` or ``host``; see ``strato up --help``."""
    pod_users: str
    """``own`` or ``host``; see ``strato up --help``."""
    gpus: str
    """``all``, ``shared`` or ``none``; see ``strato up --help``."""
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
    """Whether waiting pod groups are annotated with their predicted start."""
    shard_mode: str = "none"
    """How the scheduler uses NodeShards: ``none``, ``hard`` or ``soft``; the latter two run their controller."""
    agent: bool = False
    """Whether this machine's node has an agent."""
    mesos: MesosOptions | None = None
    """Options of a Mesos master; None starts none."""
    processes: int
    """1 runs everything in one process; 2 runs the components in a companion of the API server's process."""

    @property
    def home(self) -> Home:
        """The cluster's directory."""
        return Home(Path(self.home_path))

    @property
    def records_history(self) -> bool:
        """Return whether runs of jobs are recorded: only of real pods, and only by a cluster that keeps a journal."""
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
"""Options of the fields whose name differs from their option's."""


def differences(running: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "--") -> list[str]:
    """Return the options in which two clusters differ, as written on a command line."""
    found = []
    for name in sorted({*running, *wanted}):
        ours, theirs = running.get(name), wanted.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += differences(ours, theirs, "--mesos-" if name == "mesos" else prefix)
        elif ours != theirs:
            found.append(f"{prefix}{_FLAGS.get(name, name).replace('_', '-')}: {ours!r}, not {theirs!r}")
    return found


def default_processes() -> int:
    """Return 2 where the machine has two processors, else 1: a companion helps only if both can run at once."""
    return 2 if len(os.sched_getaffinity(0)) > 1 else 1
