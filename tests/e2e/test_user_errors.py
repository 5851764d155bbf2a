"""What users do wrong is a line in the log, never a traceback: that is kept for faults of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import EmbeddedWorld, World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]
Json = dict[str, Any]
BATCH, FLOW, SCHEDULING = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"
CONTAINER = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
POD = {"containers": [CONTAINER], "restartPolicy": "Never"}


def body(version: str, kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def job(name: str, *, plugins: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    found = vcjob(name, replicas=2)
    found["spec"] |= spec
    if plugins is not None:
        found["spec"]["plugins"] = plugins
    if pod is not None:
        found["spec"]["tasks"][0]["template"]["spec"] |= pod
    return found


def workload(kind: str, version: str = "apps/v1", **pod: Any) -> Json:
    labels = {"app": kind.lower()}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER], **pod}}
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    return body(version, kind, f"bad-{kind.lower()}", spec)


def mistakes(queue: str) -> list[Json]:
    """Return objects that an API takes, or refuses, and that no controller can do anything with."""
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]}
    device = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]}
    return [
        body(FLOW, "JobFlow", "no-template", {"flows": [{"name": "missing"}]}),
        body(FLOW, "JobFlow", "circle", {"flows": [_step("a", "b"), _step("b", "a")]}),
        job("no-queue", queue="missing"),
        job("no-claim", pod=claim),
        job("no-device", pod=device),
        job("no-priority", priorityClassName="missing"),
        job("no-account", pod={"serviceAccountName": "missing"}),
        job("unknown-plugin", plugins={"teleport": []}),
        job("bad-arguments", plugins={"svc": ["--publish-not-ready-addresses=perhaps"]}),
        job("bad-selector", pod={"nodeSelector": {"a b": "c"}}),
        job("huge", pod={"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1000000"}}}]}),
        job("x" * 60),  # names of its pods are longer than a label may be
        body(BATCH, "CronJob", "never", {"schedule": "0 0 31 2 *", "jobTemplate": {"spec": job("x")["spec"]}}),
        body(BATCH, "CronJob", "nonsense", {"schedule": "often", "jobTemplate": {"spec": job("x")["spec"]}}),
        body(
            "batch/v1", "CronJob", "zone", {"schedule": "* * * * *", "timeZone": "Mars/Base", "jobTemplate": _batch()}
        ),
        body("batch/v1", "Job", "bad-batch", _batch()["spec"] | {"completions": 3}),
        body(SCHEDULING, "PodGroup", "no-queue", {"minMember": 2, "queue": "missing"}),
        body(SCHEDULING, "Queue", f"{queue}-orphan", {"weight": 1, "parent": "missing"}),
        workload("Deployment", serviceAccountName="missing"),
        workload("DaemonSet", nodeSelector={"no": "where"}),
        workload("StatefulSet"),
        body(
            "v1", "PersistentVolumeClaim", "no-class", {"storageClassName": "missing", "accessModes": ["ReadWriteOnce"]}
        ),
        body("v1", "Pod", "no-config", {"containers": [{**CONTAINER, "envFrom": [{"configMapRef": {"name": "no"}}]}]}),
        body("v1", "Pod", "odd", {**POD, "schedulerName": "volcano"}, annotations={"strato.dev/run-seconds": "soon"}),
        body("policy/v1", "PodDisruptionBudget", "odd", {"minAvailable": "200%", "selector": {}}),
        body("topology.volcano.sh/v1alpha1", "HyperNode", f"{queue}-odd", {"tier": 1, "members": _members("no-such")}),
    ]


def _step(name: str, after: str) -> Json:
    return {"name": name, "dependsOn": {"targets": [after]}}


def _batch() -> Json:
    return {"spec": {"template": {"spec": {**POD, "serviceAccountName": "missing"}}, "backoffLimit": 0}}


def _members(name: str) -> list[Json]:
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}}]


def logs(world: World) -> str:
    assert isinstance(world, EmbeddedWorld)
    return world.log.read_text(errors="replace")


def test_mistakes_of_users_have_no_traceback(world: World, namespace: str) -> None:
    before = logs(world).count("Traceback")
    limits = {"pods": "1", "requests.cpu": "1"}
    world.apply(body("v1", "ResourceQuota", "small", {"hard": limits}, namespace=namespace))
    for one in mistakes(namespace):
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(one), check=False)
    # a queue below a closed one, opened; a command nobody knows; the children of a queue that goes away
    for name, parent in ((f"{namespace}-above", "root"), (f"{namespace}-below", f"{namespace}-above")):
        world.apply(body(SCHEDULING, "Queue", name, {"weight": 1, "parent": parent}))
    world.strato("queue", "operate", "-n", f"{namespace}-above", "-a", "close", check=False)
    world.strato("queue", "operate", "-n", f"{namespace}-below", "-a", "open", check=False)
    target = {"apiVersion": BATCH, "kind": "Job", "name": "nobody", "uid": "1", "controller": True}
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "odd"}}
    command |= {"action": "Levitate", "target": target}
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(command), check=False)
    world.kubectl("delete", "queue", f"{namespace}-above", "--wait=false", check=False)
    # a namespace that cannot end, in which pods are to be replaced
    doomed = f"{namespace}-doomed"
    world.kubectl("create", "namespace", doomed)
    world.kubectl("create", "-n", doomed, "-f", "-", stdin=json.dumps(job("runs")))
    world.kubectl("create", "-n", doomed, "-f", "-", stdin=json.dumps(body(FLOW, "JobTemplate", "t", job("x")["spec"])))
    keep = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keep", "finalizers": ["e2e.test/keep"]}}
    world.kubectl("create", "-n", doomed, "-f", "-", stdin=json.dumps(keep))
    eventually(lambda: world.job_phase("runs", doomed) == "Running", what="the job runs")
    flow = body(FLOW, "JobFlow", "f", {"flows": [{"name": "t"}]}, finalizers=["e2e.test/keep"])
    world.kubectl("create", "-n", doomed, "-f", "-", stdin=json.dumps(flow))
    world.kubectl("delete", "namespace", doomed, "--wait=false")
    eventually(lambda: not world.items("pods", "-n", doomed), what="its pods are gone")
    for kind, name in (("configmap", "keep"), ("jobflow", "f")):
        world.kubectl("patch", kind, name, "-n", doomed, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: world.get("namespace", doomed) is None, what="the namespace is gone", timeout=240)
    eventually(lambda: "FlowError" not in logs(world), what="no class of ours is in the log", timeout=5)
    text = logs(world)
    assert text.count("Traceback") == before, text[text.rindex("Traceback") - 500 :][:4000]
    for name in (f"{namespace}-below", f"{namespace}-above", f"{namespace}-orphan"):
        world.strato("queue", "operate", "-n", name, "-a", "close", check=False)
        world.kubectl("delete", "queue", name, "--wait=false", check=False)
    world.kubectl("delete", "hypernode", f"{namespace}-odd", "--wait=false", check=False)
