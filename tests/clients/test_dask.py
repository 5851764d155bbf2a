"""dask-kubernetes: its operator as a process of this machine, its clusters in pods on an image of its environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import client_image, environment, run_program
from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1200)]

KINDS = "daskclusters,daskworkergroups,deployments,replicasets,pods,services"


@pytest.fixture
def operator(sandbox: EmbeddedWorld, tmp_path: Path) -> Iterator[Path]:
    """Run the operator; yield its log."""
    home = environment("dask")
    (package,) = home.glob("lib/python3.*/site-packages/dask_kubernetes/operator")
    crds = package / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
    sandbox.kubectl("apply", "--server-side", "-f", str(crds))
    sandbox.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    path = tmp_path / "operator.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "kopf"), "run", "-m", "dask_kubernetes.operator.controller", "--all-namespaces"],
            env={**os.environ, "KUBECONFIG": str(sandbox.kubeconfig), "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        )
        yield path
        process.terminate()
        process.wait(timeout=120)


def test_a_cluster_computes_scales_and_goes(sandbox: EmbeddedWorld, namespace: str, operator: Path) -> None:
    image = client_image("dask", sandbox)
    done = run_program("dask", "dask_cluster.py", sandbox, namespace, image, timeout=900)
    assert done == ["a cluster is made", "it computes in a pod", "it grows", "it shrinks", "it is closed"]
    eventually(
        lambda: not sandbox.items(KINDS, "-n", namespace), timeout=180, what="all that the cluster owned is collected"
    )
    assert "Traceback" not in operator.read_text()
