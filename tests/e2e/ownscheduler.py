"""A cluster for one test, whose scheduler has options of the test's choice: embedded, or on a real kube-apiserver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.e2e.worlds import EmbeddedWorld, KubeWorld, World, embedded, free_port

NODES = ("--no-sandbox", "--hollow-nodes", "4", "--cpu", "4", "--memory", "16Gi")


class _Kube(KubeWorld):
    """A real control plane whose scheduler is started with further options."""

    def __init__(self, directory: Path, config: Path, options: Sequence[str]) -> None:
        super().__init__(directory)
        self._options = ("--scheduler-conf", str(config), *options)
        self.metrics_port = free_port()

    def start_scheduling(self) -> None:
        address = ("--listen-address", f"127.0.0.1:{self.metrics_port}")
        self.start_part("scheduler", *self._options, *address)
        self.start_part("controllers")


@contextlib.contextmanager
def own_world(directory: Path, config: Path, *options: str) -> Iterator[World]:
    """Run four hollow nodes of 4 cpus and 16 GiB, the scheduler under ``config``, for the length of a block.

    Args:
        directory: For what the cluster writes.
        config: The scheduler's configuration.
        options: Of ``strato up`` and ``strato run scheduler`` alike.
    """
    kind = os.environ.get("STRATO_E2E_WORLD")
    if kind == "cluster":
        pytest.skip("needs a scheduler of its own")
    if kind != "kube":
        with embedded(directory / "home", *NODES, "--config", str(config), *options) as laptop:
            yield laptop
        return
    kube = _Kube(directory, config, options)
    if not (kube.binaries / "kube-apiserver").exists():
        pytest.skip(f"no control plane at {kube.binaries}; build it with tests/e2e/kube/controlplane/build.sh")
    try:
        kube.start()
        yield kube
    finally:
        kube.stop()


def stop_scheduler(world: World) -> None:
    """End the scheduler, so that what it writes into files is complete."""
    if isinstance(world, KubeWorld):
        assert world.stop_part("scheduler") == 0
    else:
        world.stop()


def scheduler_metrics(world: World) -> dict[str, float]:
    """Return the scheduler's metrics: by name and labels as Prometheus reads them, the value."""
    if isinstance(world, _Kube):
        with urlopen(f"http://127.0.0.1:{world.metrics_port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    else:
        text = world.kubectl("get", "--raw", "/metrics")
    samples = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def forbidden(world: World) -> list[str]:
    """Return what the scheduler's role did not let it do; none may make namespaces, the installation has made them."""
    text = world.log.read_text() if isinstance(world, EmbeddedWorld) else ""
    if isinstance(world, KubeWorld):
        text = world.log("scheduler")
    lines = [line for line in text.splitlines() if "is forbidden: User" in line]
    return [line for line in lines if 'cannot create resource "namespaces"' not in line]
