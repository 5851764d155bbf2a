"""Nextflow with its executor for Kubernetes: tasks are pods, which pass files on through a claim."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.foreign import installed
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1800)]

OPENED = ("java.lang", "java.io", "java.nio", "java.net", "java.util", "java.util.regex", "sun.nio.ch", "sun.nio.fs")
"""What Nextflow's own launcher opens of Java to it."""


def claim(world: EmbeddedWorld, namespace: str, folder: Path) -> None:
    """Make a volume of a folder of this machine, and a claim ``work`` for it."""
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {**shared, "capacity": size, "hostPath": {"path": str(folder)}},
    }
    claimed = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {**shared, "volumeName": namespace, "resources": {"requests": size}},
    }
    world.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [volume, claimed]})
    )
    world.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/work", "-n", namespace, "--timeout=120s")


def test_tasks_pass_files_on_through_a_claim(sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> None:
    folder = installed("nextflow", ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"])
    work = tmp_path / "work"
    work.mkdir()
    claim(sandbox, namespace, work)
    (tmp_path / "nextflow.config").write_text(f"""
        process {{ executor = 'k8s'; container = 'strato/host'; cpus = 1 }}
        k8s {{ namespace = '{namespace}'; storageClaimName = 'work'; storageMountPath = '{work}' }}
        workDir = '{work}'
    """)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    launcher = ["java", *opened, "-cp", f"{folder}/lib/*", "nextflow.cli.Launcher"]
    done = subprocess.run(
        [*launcher, "run", str(folder / "main.nf"), "-ansi-log", "false"],
        cwd=tmp_path,
        env={
            **os.environ,
            "KUBECONFIG": str(sandbox.kubeconfig),
            "NXF_HOME": str(tmp_path / "nxf"),
            "NXF_OFFLINE": "true",
        },
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )
    log = tmp_path / ".nextflow.log"
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{log.read_text()[-6000:] if log.exists() else ''}"
    assert "the sum is 14" in done.stdout, done.stdout
    assert "terminated with an error exit status (3) -- Error is ignored" in done.stdout, done.stdout
    assert not sandbox.items("pods", "-n", namespace, "--field-selector=status.phase=Succeeded"), (
        "Nextflow removes them"
    )
