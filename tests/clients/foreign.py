"""Clients in other languages: a folder's manifest names the packages, its program what is done with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.environments import made_once
from tests.e2e.worlds import World

FOLDERS = Path(__file__).parent


def installed(name: str, fetch: Sequence[str], *build: Sequence[str]) -> Path:
    """Return a copy of the folder ``name`` in which its packages were fetched and built, once, outside the tree.

    The test is skipped where there is nothing to fetch with, or the packages cannot be had.
    """
    if shutil.which(fetch[0]) is None:
        pytest.skip(f"{fetch[0]} is not installed")
    source = FOLDERS / name
    files = sorted(path for path in source.rglob("*") if path.is_file())

    def make(target: Path) -> None:
        shutil.copytree(source, target)
        done = subprocess.run(fetch, cwd=target, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the packages of {name} cannot be had: {(done.stdout + done.stderr)[-600:]}")
        for command in build:
            subprocess.run(command, cwd=target, check=True)

    return made_once(name, b"".join(path.read_bytes() for path in files), make)


def what_works(command: Sequence[str | Path], world: World, timeout: float = 900) -> list[str]:
    """Run a client's program, which finds the cluster by ``KUBECONFIG``; return what it says works."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "KUBECONFIG": str(world.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr[-6000:]}{world.last_words()}"
    return [line.removeprefix("ok ") for line in done.stdout.splitlines() if line.startswith("ok ")]
