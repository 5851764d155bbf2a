"""Frameworks of others against the Mesos master: pymesos as released, mesos-go's HTTP scheduler in protobuf."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import PROGRAMS, client_image, environment, made_once
from tests.e2e.worlds import EmbeddedWorld, embedded, eventually

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(900)]

BESIDE = Path(__file__).parent / "mesos"
"""The stand-in of a dependency of pymesos', and an executor program."""
GO = Path(__file__).parent / "mesosgo"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedWorld, str]]:
    """A cluster with real pods and a Mesos master; every address is listened at, so that executors reach it."""
    port = _free_port()
    options = ("--cpus", "8", "--node-memory", "16Gi", "--host", "0.0.0.0", "--mesos", "--mesos-port", str(port))
    with embedded(tmp_path_factory.mktemp("mesos") / "home", *options) as world:
        yield world, f"127.0.0.1:{port}"


def test_pymesos_runs_commands_and_executors(master: tuple[EmbeddedWorld, str], tmp_path: Path) -> None:
    """The executor runs in an image of its environment: pods do not see this machine's homes, where that lies."""
    world, address = master
    home = environment("pymesos")
    folder = home / "beside"
    shutil.copytree(BESIDE, folder, dirs_exist_ok=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {home}/bin/python "$@"\n')
    python.chmod(0o755)
    image = client_image("pymesos", world)
    program = [str(home / "bin" / "python"), str(PROGRAMS / "pymesos_framework.py")]
    done = subprocess.run(
        [*program, address, str(folder), str(python), image],
        env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}{world.last_words()}"
    assert done.stdout.splitlines() == [
        "it is registered",
        "reconciled long: TASK_RUNNING",
        "fails TASK_FAILED",
        "long TASK_KILLED",
        "ok TASK_FINISHED",
        "own-0 TASK_FINISHED",
        "own-1 TASK_FINISHED",
        "message got own-0",
        "message got own-1",
        "it has stopped",
    ]
    eventually(lambda: not world.items("pods", "-n", "mesos"), what="the framework's pods are gone")


def _mesos_go() -> Path:
    """Return the framework on mesos-go, built once."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed; on Debian: apt-get install golang-go")
    sources = b"".join(path.read_bytes() for path in sorted(GO.iterdir()))

    def make(target: Path) -> None:
        shutil.copytree(GO, target / "source")
        built = subprocess.run(
            ["go", "build", "-o", str(target / "framework"), "."], cwd=target / "source",
            env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if built.returncode:
            pytest.skip(f"mesos-go cannot be had: {built.stderr[-400:]}")

    return made_once("mesosgo", sources, make) / "framework"


def _runs_commands(world: EmbeddedWorld, *arguments: str) -> None:
    command = [str(_mesos_go()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}{world.last_words()}"
    assert done.stdout.splitlines() == ["subscribed", "ok TASK_FINISHED", "long TASK_KILLED", "fails TASK_FAILED"]


def test_mesos_go_runs_commands_in_protobuf(master: tuple[EmbeddedWorld, str]) -> None:
    world, address = master
    _runs_commands(world, f"http://{address}")


def test_mesos_go_trusts_the_clusters_authority(tmp_path: Path) -> None:
    port = _free_port()
    options = ("--cpus", "2", "--node-memory", "2Gi", "--mesos", "--mesos-port", str(port), "--mesos-tls")
    with embedded(tmp_path / "home", *options) as world:
        _runs_commands(world, f"https://127.0.0.1:{port}", str(world.home / "pki" / "ca.crt"))
