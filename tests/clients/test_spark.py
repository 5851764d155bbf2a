"""Spark, as PyPI has it, with drivers on this machine and in pods; executors are pods.

Its pods run on this machine's own programs, which see Spark's folder by a volume of the documented pod template.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.environments import PROGRAMS, environment
from tests.clients.foreign import FOLDERS
from tests.e2e.worlds import EmbeddedWorld, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark-experiment"

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1800)]


class Spark:
    """``spark-submit`` on one namespace of a cluster."""

    def __init__(self, world: EmbeddedWorld, namespace: str, scratch: Path) -> None:
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java; on Debian: apt-get install openjdk-17-jre-headless")
        self.root = environment("pyspark")
        self.home = next(self.root.glob("lib/python*/site-packages/pyspark"))
        self.world = world
        shutil.copy(EXAMPLE / "entrypoint.py", scratch)
        self.template = scratch / "template.yaml"
        mounts = {"spark": self.root, "entry": scratch}
        container = {
            "name": "main",
            "command": [str(self.root / "bin" / "python"), str(scratch / "entrypoint.py")],
            "volumeMounts": [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in mounts.items()],
        }
        volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in mounts.items()]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": volumes, "containers": [container]}}
        self.template.write_text(yaml.safe_dump(pod))
        self.variables = {"PYTHONPATH": ""}
        self.options = {
            "spark.kubernetes.namespace": namespace,
            "spark.kubernetes.container.image": "strato/host",
            "spark.kubernetes.executor.podTemplateFile": str(self.template),
            "spark.kubernetes.executor.request.cores": "500m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "2",
            "spark.ui.enabled": "false",
        }

    def submit(self, *args: str) -> str:
        """Submit, wait for the end, and return what was printed."""
        confs = [word for name, value in self.options.items() for word in ("--conf", f"{name}={value}")]
        config = yaml.safe_load(self.world.kubeconfig.read_text())
        server = config["clusters"][0]["cluster"]["server"]
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(self.root / "bin" / "spark-submit"), "--master", f"k8s://{server}", *confs, *args],
            env=os.environ | {"KUBECONFIG": str(self.world.kubeconfig), "PATH": path} | self.variables,
            text=True,
            capture_output=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr[-8000:]}{self.world.last_words()}"
        return done.stdout + done.stderr


@pytest.fixture
def spark(sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> Spark:
    return Spark(sandbox, namespace, tmp_path)


def test_a_session_on_this_machine_has_executors_in_pods(spark: Spark, sandbox: EmbeddedWorld, namespace: str) -> None:
    printed = spark.submit(str(PROGRAMS / "spark_session.py"))
    works = [line for line in printed.splitlines() if line.startswith("ok ")]
    assert len(works) == 3, printed[-4000:]
    eventually(lambda: not sandbox.items("pods", "-n", namespace), what="executors have gone with the session")


def driver_in_a_pod(spark: Spark, sandbox: EmbeddedWorld, namespace: str) -> dict[str, Any]:
    """Run SparkPi in cluster mode with Volcano's scheduler; return the driver's pod, which has succeeded."""
    account = f"--serviceaccount={namespace}:spark"
    sandbox.kubectl("create", "serviceaccount", "spark", "-n", namespace)
    sandbox.kubectl("create", "rolebinding", "spark", "--clusterrole=edit", account, "-n", namespace)
    spark.options |= {
        "spark.kubernetes.driver.podTemplateFile": str(spark.template),
        "spark.kubernetes.driver.request.cores": "500m",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.scheduler.name": "volcano",
        "spark.driver.memory": "512m",
    }
    spark.submit(
        "--deploy-mode", "cluster", "--name", "pi", f"local://{spark.home}/examples/src/main/python/pi.py", "4"
    )
    (driver,) = sandbox.items("pods", "-n", namespace, "-l", "spark-role=driver")
    assert driver["status"]["phase"] == "Succeeded"
    assert driver["spec"]["schedulerName"] == "volcano"
    assert "Pi is roughly 3.1" in sandbox.kubectl("logs", driver["metadata"]["name"], "-n", namespace, "--tail=-1")
    return driver


def test_a_driver_in_a_pod_has_executors_which_go_with_it(spark: Spark, sandbox: EmbeddedWorld, namespace: str) -> None:
    """The driver finds the API server, its token and its own headless Service from within its pod."""
    driver = driver_in_a_pod(spark, sandbox, namespace)
    assert sandbox.items("podgroups", "-n", namespace), "the scheduler's controller makes one where nobody else does"
    sandbox.kubectl("delete", "pod", driver["metadata"]["name"], "-n", namespace)
    kinds = ("pods", "services", "configmaps")
    eventually(
        lambda: (
            not [item for kind in kinds for item in sandbox.items(kind, "-n", namespace, "-l", "spark-app-name=pi")]
        ),
        what="what the driver owned has gone with it",
    )


def test_a_feature_step_makes_the_pod_group(
    spark: Spark, sandbox: EmbeddedWorld, namespace: str, tmp_path: Path
) -> None:
    """The step is the test's own: Spark's releases are built without the one for Volcano."""
    if shutil.which("javac") is None:
        pytest.skip("no javac; on Debian: apt-get install openjdk-17-jdk-headless")
    step = FOLDERS / "spark" / "GangStep.java"
    subprocess.run(["javac", "-d", str(tmp_path), "-cp", f"{spark.home}/jars/*", str(step)], check=True)
    spark.options |= {
        "spark.kubernetes.driver.pod.featureSteps": "GangStep",
        "spark.kubernetes.executor.pod.featureSteps": "GangStep",
        "spark.kubernetes.driverEnv.SPARK_DIST_CLASSPATH": str(tmp_path),
    }
    spark.variables["SPARK_DIST_CLASSPATH"] = str(tmp_path)
    driver = driver_in_a_pod(spark, sandbox, namespace)
    (group,) = sandbox.items("podgroups", "-n", namespace)
    assert group["metadata"]["name"] == driver["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert [owner["name"] for owner in group["metadata"]["ownerReferences"]] == [driver["metadata"]["name"]]
    sandbox.kubectl("delete", "pod", driver["metadata"]["name"], "-n", namespace)
    eventually(lambda: not sandbox.items("podgroups", "-n", namespace), what="the group has gone with the driver")


def test_the_experiment_runs_for_real(sandbox: EmbeddedWorld, tmp_path: Path) -> None:
    """Two queries of the example, with room reserved for each as a whole."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java; on Debian: apt-get install openjdk-17-jre-headless")
    python = environment("spark-experiment") / "bin" / "python"
    command = [str(python), str(EXAMPLE / "real.py"), "--queries", "2", "--rows", "50000", "--way", "reserved"]
    strato = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "real.json")],
        env=os.environ | {"PATH": strato, "KUBECONFIG": str(sandbox.kubeconfig)},
        text=True,
        capture_output=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}{sandbox.last_words()}"
    (result,) = json.loads((tmp_path / "real.json").read_text())
    assert result["ended"] == 2, result
    assert [line.split()[:2] for line in result["results"]] == [["result", "0"], ["result", "1"]]
