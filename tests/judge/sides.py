"""A control plane with Kubeflow's operators, and one with our controllers in their place."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from strato.api.frameworks import FRAMEWORKS
from tests.e2e.gobuild import build, module_files
from tests.e2e.worlds import KubeWorld, eventually, free_port

Json = dict[str, Any]
OPERATORS = Path(__file__).parent / "operators"
TRAINING, MPI = "github.com/kubeflow/training-operator", "github.com/kubeflow/mpi-operator"
_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where the training operator expects its Secret mounted; it starts nothing before it finds certificates there."""
_SECRET, _CONFIGURATION, _NAMESPACE = (
    "training-operator-webhook-cert",
    "validator.training-operator.kubeflow.org",
    "kubeflow",
)
_REQUESTS = ("500", "1000")


def programs(name: str, module: str, command: str) -> Path:
    """Return a program of Kubeflow's; the first call takes minutes.

    Raises:
        NotBuilt: There is no Go, or a module cannot be had.
    """
    return build(OPERATORS / name, f"kubeflow-{name}", [f"{module}/cmd/{command}"]) / command


class Side(KubeWorld):
    """A control plane without a scheduler, nodes and webhooks."""

    name = ""

    def start(self) -> None:
        """Start everything."""
        self.start_control_plane()
        self.install()
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        self.start_operators()

    def check(self) -> None:
        """See that everything still runs: of a side that has ended nothing can be said."""
        for part, process in self.processes.items():
            assert process.poll() is None, f"{part} ended with status {process.returncode}: {self.log(part)[-500:]}"

    def install(self) -> None:
        """Create the definitions."""

    def start_operators(self) -> None:
        """Start who runs the jobs."""


class Ours(Side):
    """Our controllers of training jobs."""

    name = "strato"

    def install(self) -> None:
        """Create all of our definitions and roles."""
        self.strato("install", "--only", "namespace", "--only", "crds", "--only", "rbac")

    def start_operators(self) -> None:
        """Start the controllers of Kubeflow's kinds, and no other."""
        self._wait_for_roles()
        self.start_part("controllers", "--controllers", ",".join(one.controller for one in FRAMEWORKS))


class Theirs(Side):
    """Kubeflow's operators, and our definitions of what else they need."""

    def install(self) -> None:
        """Create Kubeflow's definitions, as published, and Volcano's."""
        self.kubectl("create", "-f", "-", stdin=self.strato("crds", "--training-kinds=none"))
        for path in self.definitions():
            self.kubectl("create", "-f", str(path))  # too large to be applied

    def definitions(self) -> list[Path]:
        """Return the files of their definitions."""
        raise NotImplementedError


class TrainingOperator(Theirs):
    """Kubeflow's training operator."""

    name = "training-operator"

    def definitions(self) -> list[Path]:
        """Return those of kubeflow.org/v1."""
        return sorted((module_files(OPERATORS / "training", TRAINING) / "manifests/base/crds").glob("kubeflow.org_*"))

    def start_operators(self) -> None:
        """Start it, hand it the certificates that it makes, and wait until it works."""
        self.kubectl("create", "namespace", _NAMESPACE)
        self.kubectl("create", "secret", "generic", _SECRET, "-n", _NAMESPACE)
        configuration: Json = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": _CONFIGURATION},
            "webhooks": [],
        }
        self.apply(configuration)
        shutil.rmtree(_CERTIFICATES, ignore_errors=True)
        os.environ["MY_POD_NAMESPACE"] = _NAMESPACE
        health = free_port()
        qps, burst = _REQUESTS
        self._spawn(
            self.name,
            [str(programs("training", TRAINING, "training-operator.v1")), f"--kubeconfig={self.kubeconfig}"]
            + ["--gang-scheduler-name=volcano", "--controller-threads=4"]
            + [f"--kube-api-qps={qps}", f"--kube-api-burst={burst}"]
            + [f"--metrics-bind-address=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{health}"]
            + [f"--webhook-server-port={free_port()}"],
        )
        secret = eventually(self._certificates, what="the training operator has made its certificates")
        _CERTIFICATES.mkdir(parents=True)
        for file, text in secret.items():
            (_CERTIFICATES / file).write_bytes(base64.b64decode(text))
        eventually(lambda: _answers(health), what="the training operator works", every=0.5)

    def _certificates(self) -> Json:
        data = self.get("secret", _SECRET, "-n", _NAMESPACE).get("data") or {}
        return data if "tls.crt" in data else {}


class MpiOperator(Theirs):
    """Kubeflow's MPI operator."""

    name = "mpi-operator"

    def definitions(self) -> list[Path]:
        """Return that of kubeflow.org/v2beta1."""
        return [module_files(OPERATORS / "mpi", MPI) / "manifests/base/kubeflow.org_mpijobs.yaml"]

    def start_operators(self) -> None:
        """Start it."""
        self.kubectl("create", "namespace", "mpi-operator")
        qps, burst = _REQUESTS
        self._spawn(
            self.name,
            [str(programs("mpi", MPI, "mpi-operator")), f"--kubeConfig={self.kubeconfig}"]
            + ["--gang-scheduling=volcano", "--controller-queue-rate-limit=500"]
            + [f"--kube-api-qps={qps}", f"--kube-api-burst={burst}", "--monitoring-port=0"],
        )


def _answers(port: int) -> bool:
    done = subprocess.run(
        ["curl", "-fsS", f"http://127.0.0.1:{port}/readyz"], capture_output=True, text=True, check=False, timeout=10
    )
    return done.returncode == 0


def version(name: str) -> str:
    """Return which release is built."""
    lines = (OPERATORS / name / "go.mod").read_text().splitlines()
    return next(line.split()[2] for line in lines if line.startswith("require github.com/kubeflow"))
