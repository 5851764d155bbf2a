"""The Spark operator as published, installed by its chart: PySpark's release runs in gangs of this scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.environments import CLIENTS
from tests.clients.helmprogram import helm_of
from tests.clients.sparkimages import import_images, source_of_operator
from tests.e2e.worlds import EmbeddedWorld, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark-operator" / "pi.yaml"
SPARK_IMAGE = f"docker.io/apache/spark:{CLIENTS['pyspark'][0].partition('==')[2]}"
OPERATOR = "spark-operator"
JOBS = "spark-jobs"
KINDS = ("sparkapplications", "podgroups", "pods", "services", "configmaps")

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(3600)]


class Applications:
    """The operator's applications in their namespace."""

    def __init__(self, world: EmbeddedWorld) -> None:
        self.world = world

    def create(self, manifest: dict[str, Any]) -> None:
        """Create an object once the operator's webhook can be asked."""
        self.world.kubectl("wait", "deployment", "--all", "-n", OPERATOR, "--for=condition=Available", "--timeout=240s")
        self.world.kubectl("create", "-n", JOBS, "-f", "-", stdin=yaml.safe_dump(manifest))

    def status(self, name: str) -> dict[str, Any]:
        found = self.world.get("sparkapplication", name, "-n", JOBS)
        status: dict[str, Any] = (found or {}).get("status", {})
        return status

    def state(self, name: str) -> str:
        return str(self.status(name).get("applicationState", {}).get("state", ""))

    def reaches(self, name: str, *states: str) -> dict[str, Any]:
        """Wait for a state; return the status."""
        try:
            eventually(lambda: self.state(name) in states, timeout=1200, what=f"{name} is {states}", every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.status(name)}\n{self.told()}") from error
        return self.status(name)

    def pods(self, name: str, role: str) -> list[dict[str, Any]]:
        labels = f"spark-role={role},sparkoperator.k8s.io/app-name={name}"
        return self.world.items("pods", "-n", JOBS, "-l", labels)

    def left(self, name: str) -> list[str]:
        """Return what there is of an application."""
        found = [item for kind in KINDS for item in self.world.items(kind, "-n", JOBS)]
        return [item["metadata"]["name"] for item in found if name in item["metadata"]["name"]]

    def told(self) -> str:
        """Return what the operator, the pods and their events say."""
        logs = [
            self.world.kubectl("logs", f"deployment/spark-operator-{part}", "-n", OPERATOR, "--tail=30", check=False)
            for part in ("controller", "webhook")
        ]
        return "\n".join((*logs, self.world.kubectl("get", "pods,events", "-n", JOBS, check=False)))


def application(name: str, **changes: Any) -> dict[str, Any]:
    """Return the example's application by another name and with other fields of its specification."""
    (_, example) = yaml.safe_load_all(EXAMPLE.read_text())
    return {**example, "metadata": {"name": name}, "spec": {**example["spec"], **changes}}


@pytest.fixture(scope="module")
def spark(sandbox: EmbeddedWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applications]:
    """Install the operator by its chart, with nothing changed but that batch schedulers are on; make its queue."""
    chart = source_of_operator() / "charts" / "spark-operator-chart"
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    helm = helm_of(3, sandbox, OPERATOR, tmp_path_factory.mktemp("helm"))
    import_images(sandbox, SPARK_IMAGE, f"ghcr.io/kubeflow/spark-operator/controller:{version}")
    sandbox.kubectl("create", "namespace", JOBS)
    sandbox.apply(next(yaml.safe_load_all(EXAMPLE.read_text())))
    values = ("--set", f"spark.jobNamespaces={{{JOBS}}}", "--set", "controller.batchScheduler.enable=true")
    helm("install", OPERATOR, str(chart), "--create-namespace", *values, "--wait", "--timeout", "300s")
    yield Applications(sandbox)
    helm("uninstall", OPERATOR, "--wait", "--timeout", "300s")
    sandbox.kubectl("delete", "namespace", JOBS, OPERATOR, "--timeout=120s")


def test_an_application_waits_for_room_for_all_of_it_and_runs_in_its_queue(spark: Applications) -> None:
    """Its queue holds the driver and one executor at first: not even the driver is started then."""
    world = spark.world
    (queue, _) = yaml.safe_load_all(EXAMPLE.read_text())
    queue["spec"]["capability"]["cpu"] = 2
    world.apply(queue)
    executor = application("")["spec"]["executor"] | {"deleteOnTermination": False}
    spark.create(application("pi", executor=executor))
    spark.reaches("pi", "SUBMITTED")
    (group,) = world.items("podgroups", "-n", JOBS)
    (driver,) = spark.pods("pi", "driver")
    wanted = {"cpu": "3", "memory": "2688Mi"}
    assert (group["spec"]["queue"], group["spec"]["minResources"]) == ("analytics", wanted)
    assert group["metadata"]["ownerReferences"][0]["kind"] == "SparkApplication"
    assert driver["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
    explain = ("explain", "pod/pi-driver", "-n", JOBS)
    eventually(lambda: "analytics" in world.strato(*explain, check=False), what="it is told why", every=0.5)
    assert "nodeName" not in spark.pods("pi", "driver")[0]["spec"]

    world.kubectl("patch", "queue", "analytics", "--type=merge", "-p", '{"spec":{"capability":{"cpu":4}}}')
    status = spark.reaches("pi", "COMPLETED", "FAILED")
    assert status["applicationState"]["state"] == "COMPLETED", spark.told()
    assert "Pi is roughly 3.1" in world.kubectl("logs", "pi-driver", "-n", JOBS, "--tail=-1")
    executors = spark.pods("pi", "executor")
    assert len(executors) == 2
    assert set(status["executorState"]) == {pod["metadata"]["name"] for pod in executors}
    for pod in (*spark.pods("pi", "driver"), *executors):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
        assert pod["spec"]["nodeName"]

    world.kubectl("delete", "sparkapplication", "pi", "-n", JOBS)
    eventually(lambda: not spark.left("pi"), what="all of the application has gone with it", every=0.5)


def test_a_failing_application_is_retried_and_then_failed(spark: Applications) -> None:
    policy = {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 1}
    spark.create(application("failing", mainApplicationFile="local:///opt/spark/nothing.py", restartPolicy=policy))
    status = spark.reaches("failing", "FAILED", "COMPLETED")
    assert status["applicationState"]["state"] == "FAILED"
    assert status["executionAttempts"] == 2
    (driver,) = spark.pods("failing", "driver")
    assert driver["status"]["phase"] == "Failed"
    spark.world.kubectl("delete", "sparkapplication", "failing", "-n", JOBS)
    eventually(lambda: not spark.left("failing"), what="all of the application has gone with it", every=0.5)


def test_a_scheduled_application_runs_and_takes_its_run_with_it(spark: Applications) -> None:
    """The run is deleted with it while its driver and executors are at work."""
    example = application("")["spec"]
    sizes = example["batchSchedulerOptions"] | {"resources": {"cpu": "2", "memory": "1792Mi"}}
    one = {"arguments": ["100000"], "executor": example["executor"] | {"instances": 1}, "batchSchedulerOptions": sizes}
    spec = {"schedule": "@every 5s", "concurrencyPolicy": "Forbid", "template": example | one}
    scheduled = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication",
        "metadata": {"name": "often"}, "spec": spec,
    }  # fmt: skip
    spark.create(scheduled)

    def run() -> str:
        status = (spark.world.get("scheduledsparkapplication", "often", "-n", JOBS) or {}).get("status", {})
        return str(status.get("lastRunName", ""))

    name = eventually(run, what="the first run is made", every=0.5)
    spark.reaches(name, "RUNNING")
    eventually(lambda: spark.pods(name, "executor"), timeout=900, what="its executor is made", every=0.5)
    assert len(spark.world.items("sparkapplications", "-n", JOBS)) == 1, "another run has to wait for it"
    spark.world.kubectl("delete", "scheduledsparkapplication", "often", "-n", JOBS)
    eventually(lambda: not spark.left("often"), what="all of the run has gone with its schedule", every=0.5)


WRONG = [
    pytest.param(
        {"nodeSelector": {"a": "b"}, "driver": {"nodeSelector": {"a": "b"}}},
        "node selector cannot be defined at both",
        id="by the operator's webhook",
    ),
    pytest.param({"mode": "swarm"}, "spec.mode: Unsupported value", id="by its resource definition"),
]


@pytest.mark.parametrize(("changes", "why"), WRONG)
def test_a_wrong_application_is_refused(spark: Applications, changes: dict[str, Any], why: str) -> None:
    """Nothing is stored while the webhook cannot be asked: on a busy machine its pod is not ready for a while."""
    wrong = yaml.safe_dump(application("wrong", **changes))

    def refused() -> str:
        done = spark.world.kubectl_process("create", "-n", JOBS, "-f", "-", stdin=wrong, check=False)
        assert done.returncode == 1, done.stdout
        return done.stderr

    eventually(lambda: why in refused(), what=why, every=1)
