"""Clients written in Python, each as released in a virtual environment of its own, made once and outside the tree."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.e2e.worlds import EmbeddedWorld, World

CLIENTS = {
    "kubernetes": ("kubernetes==37.0.2",),
    "kubernetes-asyncio": ("kubernetes-asyncio==36.1.0",),
    "kopf": ("kopf==1.45.2", "kubernetes==37.0.2"),
    "kr8s": ("kr8s==0.20.15",),
    "lightkube": ("lightkube==1.0.1",),
    "pyspark": ("pyspark==4.0.1",),
    "spark-experiment": ("pyspark==4.0.1", "pyarrow==26.0.1", "pyyaml==6.0.3", "numpy==2.4.6"),
    "dask": ("dask-kubernetes==2026.3.0", "distributed==2026.3.0"),
    "snakemake": (
        "snakemake==9.27.1",
        "snakemake-executor-plugin-kubernetes==0.5.1",
        "snakemake-storage-plugin-s3==0.3.6",
        "moto[server]==5.2.5",
    ),
    "miniwdl": ("miniwdl==1.16.0",),
    "kubeflow-training": ("kubeflow-training==1.9.4",),
    "kubeflow": ("kubeflow==0.5.0",),
    "tensorflow": ("tensorflow-cpu==2.21.0",),
    "torch": ("torch==1.13.1", "numpy==1.26.4", "setuptools==70.3.0"),
    "pymesos": ("--no-deps", "pymesos==0.3.15", "six==1.17.0", "addict==2.4.0", "httptools==0.9.0"),
    "airflow": ("apache-airflow==3.3.2", "apache-airflow-providers-cncf-kubernetes==10.25.0"),
}
"""Requirements of each environment, by its name; ``docs/clients.md`` names the same versions."""

AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Whom this machine trusts, the proxy to a package index included; images have it too."""

PROGRAMS = Path(__file__).parent / "programs"


def cache() -> Path:
    """Return the folder of all clients."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strato-clients"


def environment(name: str) -> Path:
    """Return the virtual environment of a client; skip the test where its packages cannot be had."""
    requirements = CLIENTS[name]

    def make(target: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
        pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{' '.join(requirements)} cannot be had: {done.stderr[-300:]}")

    return made_once(name, "\n".join((sys.version, *requirements)).encode(), make)


def made_once(name: str, content: bytes, make: Callable[[Path], None]) -> Path:
    """Return the folder that ``make`` fills for a client, filled before if what goes into it was the same."""
    target = cache() / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            make(target)
            (target / "complete").touch()
    return target


def run_program(
    client: str,
    program: str,
    world: World,
    *args: str,
    timeout: float = 300,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Run a program of ``programs/`` with a client's packages; return what it says works.

    It finds the cluster as any client does, by ``KUBECONFIG``, and nothing else of ours; ``settings`` are the client's
    own variables.
    """
    environ = {**os.environ, "KUBECONFIG": str(world.kubeconfig), "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [str(environment(client) / "bin" / "python"), str(PROGRAMS / program), *args],
        env=environ | dict(settings),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{program}: {done.returncode}\n{done.stdout}{done.stderr[-6000:]}{world.last_words()}"
    return [line.removeprefix("ok ") for line in done.stdout.splitlines() if line.startswith("ok ")]


def client_image(client: str, world: EmbeddedWorld) -> str:
    """Build the image of a client's environment, as users do, and return its name; its command is Python."""
    name, python = f"clients/{client}:latest", environment(client)
    own = [f"--env=PIP_CERT={AUTHORITIES}"] if AUTHORITIES.exists() else []
    world.own(
        "image", "build", name, str(python), "--python", "--cmd", str(python / "bin" / "python"), *own, timeout=1800
    )
    return name
