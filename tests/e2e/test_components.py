"""Components as processes of their own on a real control plane: one leader, and what a crash may not do."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.history.store import HistoryStore
from tests.cli.test_install import installed
from tests.e2e.test_jobs import bound, pods_of, submit, vcjob
from tests.e2e.worlds import KubeWorld, World, eventually

pytestmark = pytest.mark.kube

QUICK = (
    *("--leader-elect-lease-duration", "8s"),
    *("--leader-elect-renew-deadline", "6s"),
    *("--leader-elect-retry-period", "500ms"),
)
"""A lease that is given up sooner than the usual 15 s; leader and followers must agree on it."""


@pytest.fixture
def kube(world: World) -> Iterator[KubeWorld]:
    """Return the world with one scheduler and one controller manager, both with a quick lease; as before afterwards."""
    if not isinstance(world, KubeWorld):
        pytest.skip("components are processes of their own only on a real control plane")
    for part in ("scheduler", "controllers"):
        world.stop_part(part)
        world.start_part(part, *QUICK)
    yield world
    for name in [name for name in world.processes if name.startswith(("scheduler", "controllers"))]:
        world.stop_part(name)
    for part in ("scheduler", "controllers"):
        world.start_part(part)


def leader(world: World, lease: str) -> str:
    """Return the process id of a lease's holder; empty when nobody holds it."""
    found = world.get("lease", lease, "-n", "volcano-system") or {"spec": {}}
    holder: str = found["spec"].get("holderIdentity") or ""
    return holder.split("_")[1] if holder else ""


def leads(world: KubeWorld, name: str, lease: str) -> None:
    """Wait until a process leads."""
    pid = str(world.processes[name].pid)
    eventually(lambda: leader(world, lease) == pid, what=f"{name} ({pid}) leads", every=0.2)


class Births:
    """Every pod of a namespace that was ever there: name to the uids that had it."""

    def __init__(self, world: World, namespace: str) -> None:
        self._watch = subprocess.Popen(
            ["kubectl", "--kubeconfig", str(world.kubeconfig), "get", "pods", "-n", namespace, "-w"]
            + ["-o", "jsonpath={.metadata.name} {.metadata.uid}{'\\n'}"],
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self) -> dict[str, set[str]]:
        """Stop watching and return what was seen."""
        self._watch.terminate()
        text, _ = self._watch.communicate(timeout=120)
        seen: dict[str, set[str]] = defaultdict(set)
        for line in text.splitlines():
            name, _, uid = line.partition(" ")
            seen[name].add(uid)
        return dict(seen)


def test_when_the_leading_scheduler_dies_another_goes_on(kube: KubeWorld, namespace: str) -> None:
    """Gangs of 12 on 16 cpus run one after another: the crash falls into the middle of them."""
    leads(kube, "scheduler", "volcano")
    kube.start_part("scheduler", *QUICK, name="scheduler-2")
    transitions = kube.get("lease", "volcano", "-n", "volcano-system")["spec"].get("leaseTransitions", 0)
    for copy in range(3):
        submit(kube, namespace, vcjob(f"gang-{copy}", replicas=12, seconds=2))
    jobs = [f"gang-{copy}" for copy in range(3)]
    eventually(lambda: any(bound(pods_of(kube, namespace, job)) for job in jobs), what="a pod is placed")
    kube.kill_part("scheduler")
    leads(kube, "scheduler-2", "volcano")
    for job in jobs:
        eventually(lambda job=job: kube.job_phase(job, namespace) == "Completed", what=f"{job} is Completed")
    assert kube.get("lease", "volcano", "-n", "volcano-system")["spec"]["leaseTransitions"] == transitions + 1


def test_a_scheduler_that_is_asked_to_stop_hands_over_at_once(kube: KubeWorld, namespace: str) -> None:
    """The lease would last for minutes: only its release lets the other in."""
    kube.stop_part("scheduler")
    kube.start_part("scheduler", "--leader-elect-lease-duration", "300s", "--leader-elect-renew-deadline", "200s")
    leads(kube, "scheduler", "volcano")
    kube.start_part("scheduler", *QUICK, name="scheduler-2")
    eventually(lambda: "random seed" in kube.log("scheduler-2"), what="the second scheduler has started")
    assert kube.stop_part("scheduler") == 0
    leads(kube, "scheduler-2", "volcano")
    submit(kube, namespace, vcjob("after", replicas=2))
    eventually(lambda: kube.job_phase("after", namespace) == "Completed", what="job is Completed")


@pytest.mark.parametrize("moment", ["while pods are made", "while pods run"])
def test_killed_controllers_neither_double_a_pod_nor_lose_the_job(kube: KubeWorld, namespace: str, moment: str) -> None:
    leads(kube, "controllers", "vc-controller-manager")
    births = Births(kube, namespace)
    submit(kube, namespace, vcjob("kept", replicas=16, cpu="1", seconds=2, plugins={"svc": [], "env": []}))
    if moment == "while pods are made":
        eventually(lambda: pods_of(kube, namespace, "kept"), what="the first pod", every=0.01)
    else:
        eventually(lambda: kube.job_phase("kept", namespace) == "Running", what="job runs", every=0.02)
    kube.kill_part("controllers")
    kube.start_part("controllers", *QUICK)
    eventually(lambda: kube.job_phase("kept", namespace) == "Completed", what="job is Completed")
    assert {name: len(uids) for name, uids in births.end().items()} == {f"kept-work-{i}": 1 for i in range(16)}
    assert len(kube.items("podgroups", "-n", namespace)) <= 1  # it goes when its job has ended
    status = kube.get("vcjob", "kept", "-n", namespace)["status"]
    # ending the job raises its version once and leaves no counters; a restart would raise it again
    assert (status.get("retryCount", 0), status.get("version", 0)) <= (0, 1)
    assert [pod["status"]["phase"] for pod in pods_of(kube, namespace, "kept")] == ["Succeeded"] * 16


def test_controllers_killed_in_a_restart_count_it_once(kube: KubeWorld, namespace: str) -> None:
    leads(kube, "controllers", "vc-controller-manager")
    job = vcjob("flaky", replicas=4, seconds=1, maxRetry=3, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    job["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"strato.dev/exit-code": "3"}}
    submit(kube, namespace, job)
    eventually(
        lambda: kube.get("vcjob", "flaky", "-n", namespace).get("status", {}).get("retryCount", 0) >= 1,
        what="the first restart",
        every=0.02,
    )
    kube.kill_part("controllers")
    kube.start_part("controllers", *QUICK)
    eventually(lambda: kube.job_phase("flaky", namespace) == "Failed", what="job is Failed")
    assert kube.get("vcjob", "flaky", "-n", namespace)["status"]["retryCount"] == 3


@pytest.fixture
def no_webhook(kube: KubeWorld) -> Iterator[None]:
    """Take the webhook away, configurations included."""
    kube.stop_part("webhook")
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        kube.kubectl("delete", kind, "--all")
    yield
    kube.start_webhook()


@pytest.mark.usefixtures("no_webhook")
def test_a_job_without_the_webhooks_defaults_runs(kube: KubeWorld, namespace: str) -> None:
    """No queue, minAvailable, maxRetry nor task name: as the webhook would have made it."""
    container: dict[str, Any] = {"name": "work", "image": "busybox", "command": ["sleep", "1"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "bare"},
        "spec": {"schedulerName": "volcano", "tasks": [{"replicas": 2, "template": template}]},
    }
    kube.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job))
    spec = kube.get("vcjob", "bare", "-n", namespace)["spec"]
    assert (spec["queue"], spec["maxRetry"]) == ("default", 3)
    eventually(lambda: kube.job_phase("bare", namespace) == "Completed", what="job is Completed")
    names = {pod["metadata"]["name"] for pod in pods_of(kube, namespace, "bare")}
    assert names == {"bare-default0-0", "bare-default0-1"}


def test_while_the_webhook_is_away_only_our_own_kinds_wait(kube: KubeWorld, namespace: str) -> None:
    """Plain pods, also ours, are made; what is there goes on, is changed outside its spec and deleted."""
    submit(kube, namespace, vcjob("before", replicas=2, seconds=3, plugins={"svc": []}))
    eventually(lambda: pods_of(kube, namespace, "before"), what="the job has its pods")
    kube.kill_part("webhook")
    container = {"name": "work", "image": "busybox", "command": ["sleep", "1"]}
    annotations = {"volcano.sh/jdb-min-available": "1"}
    for name, scheduler in (("theirs", "default-scheduler"), ("ours", "volcano")):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}}
        pod["spec"] = {"schedulerName": scheduler, "containers": [container]}
        kube.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    refused = kube.kubectl_process(
        "create", "-n", namespace, "-f", "-", stdin=json.dumps(vcjob("during", replicas=1)), check=False
    )
    assert "failed calling webhook" in refused.stderr
    kube.kubectl("label", "vcjob", "before", "-n", namespace, "touched=yes")
    eventually(lambda: kube.job_phase("before", namespace) == "Completed", what="job is Completed")
    kube.kubectl("delete", "vcjob", "before", "-n", namespace, "--cascade=foreground")
    kube.start_webhook()
    submit(kube, namespace, vcjob("after", replicas=1))
    eventually(lambda: kube.job_phase("after", namespace) == "Completed", what="job is Completed")


def test_an_installation_is_what_the_api_server_takes(kube: KubeWorld) -> None:
    """Every object, the Deployments included; nothing is stored. The webhooks' are this world's, with a URL."""
    bodies = list(yaml.safe_load_all(kube.strato("install", "--dry-run")))
    text = yaml.safe_dump_all(body for body in bodies if not body["kind"].endswith("WebhookConfiguration"))
    kube.kubectl("apply", "--dry-run=server", "--server-side", "--force-conflicts", "-f", "-", stdin=text)


def monitor_definition() -> dict[str, Any]:
    """Return a definition of PodMonitor as strict as the Prometheus operator's in what is ours to write."""
    text, words = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
    endpoint = {"type": "object", "properties": {"port": {**text, "minLength": 1}, "path": text, "scheme": text}}
    selector = {"type": "object", "properties": {"matchLabels": words}}
    spec = {
        "type": "object",
        "required": ["selector"],
        "properties": {"selector": selector, "podMetricsEndpoints": {"type": "array", "items": endpoint}},
    }
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podmonitors.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_pod_monitors_are_installed_where_their_kind_is_known(world: World) -> None:
    words = ("install", "--only", "monitoring", "--set", "custom.podmonitor_enable=true")
    world.apply(monitor_definition())
    try:
        world.kubectl("wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com", "--timeout=60s")
        world.strato(*words)
        kept = {body["metadata"]["name"]: body["spec"] for body in world.items("podmonitors", "-n", "volcano-system")}
        rendered = [body for body in installed("custom.podmonitor_enable=true") if body["kind"] == "PodMonitor"]
        assert {body["metadata"]["name"]: body["spec"] for body in rendered} == kept  # no field was unknown
        assert len(kept) == 3
    finally:
        world.kubectl("delete", "crd", "podmonitors.monitoring.coreos.com")


def test_runs_are_recorded_over_a_crash(kube: KubeWorld, namespace: str, tmp_path: Path) -> None:
    """One leader records a run and is killed in the next; another goes on in the same file."""
    file = str(tmp_path / "runs.db")
    kube.stop_part("controllers")
    kube.start_part("controllers", *QUICK, "--history-file", file)
    leads(kube, "controllers", "vc-controller-manager")

    def recorded() -> dict[str, str]:
        if not Path(file).exists():
            return {}
        with closing(HistoryStore(Path(file), read_only=True)) as store:
            return {run.job: run.phase for run in store.runs() if run.namespace == namespace}

    submit(kube, namespace, vcjob("first", replicas=2, seconds=1))
    eventually(lambda: recorded().get("first") == "Completed", what="the first run is recorded")
    submit(kube, namespace, vcjob("second", replicas=2, seconds=20))
    eventually(lambda: "second" in recorded(), what="the second one begins")
    kube.kill_part("controllers")
    kube.start_part("controllers", *QUICK, "--history-file", file)
    eventually(lambda: recorded() == {"first": "Completed", "second": "Completed"}, what="it is recorded to its end")
    (report,) = json.loads(kube.strato("report", "--store", file, "--tz", "UTC", "-o", "json"))["items"]
    assert report["runs"] == 2
    assert report["meanRunSeconds"] > 0
