"""Stock kubectl against the API: the verbs people use every day."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.test_jobs import submit, vcjob
from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: demo}
data:
  colour: red
  size: large
"""

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "web", "image": "nginx", "command": ["sleep", "600"]}],
                "terminationGracePeriodSeconds": 0,
            },
        },
    },
}


def test_apply_merges_like_the_real_one(world: World, namespace: str) -> None:
    assert "created" in world.kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG_MAP)
    assert "unchanged" in world.kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG_MAP)
    world.kubectl("label", "configmap", "settings", "-n", namespace, "extra=kept")
    changed = CONFIG_MAP.replace("  size: large\n", "").replace("red", "blue")
    assert "configured" in world.kubectl("apply", "-n", namespace, "-f", "-", stdin=changed)
    found = world.get("configmap", "settings", "-n", namespace)
    assert found["data"] == {"colour": "blue"}
    assert found["metadata"]["labels"] == {"app": "demo", "extra": "kept"}


def test_get_watch_sees_changes_as_they_happen(world: World, namespace: str) -> None:
    watch = subprocess.Popen(
        ["kubectl", "--kubeconfig", str(world.kubeconfig), "get", "configmaps", "-n", namespace, "-w"]
        + ["--field-selector", "metadata.name=settings", "--output-watch-events", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        world.kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG_MAP)
        world.kubectl("delete", "configmap", "settings", "-n", namespace)
        decoder, text, types = json.JSONDecoder(), "", []
        assert watch.stdout is not None
        for line in watch.stdout:
            text += line
            try:
                event, end = decoder.raw_decode(text.lstrip())
            except ValueError:
                continue
            text = text.lstrip()[end:]
            types.append(event["type"])
            if types[-1] == "DELETED":
                break
    finally:
        watch.kill()
        watch.communicate()
    assert types == ["ADDED", "DELETED"]


def test_get_prints_the_columns_people_know(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("columns", replicas=1, seconds=600))
    eventually(lambda: world.job_phase("columns", namespace) == "Running", what="job runs")
    pods = world.kubectl("get", "pods", "-n", namespace, "-o", "wide").splitlines()
    assert pods[0].split() == "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES".split()
    assert pods[1].split()[:4] == ["columns-work-0", "1/1", "Running", "0"]
    jobs = world.kubectl("get", "vcjob", "-n", namespace).splitlines()
    assert jobs[0].split() == "NAME STATUS MINAVAILABLE RUNNINGS AGE".split()
    assert jobs[1].split()[:4] == ["columns", "Running", "1", "1"]
    nodes = world.kubectl("get", "nodes").splitlines()
    assert nodes[0].split() == "NAME STATUS ROLES AGE VERSION".split()
    assert {line.split()[1] for line in nodes[1:]} == {"Ready"}
    queues = world.kubectl("get", "queues").splitlines()
    assert queues[0].split() == ["NAME", "PARENT"]


def test_describe_shows_the_events(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("told", replicas=1, seconds=600))
    eventually(
        lambda: (
            "Successfully assigned" in world.kubectl("describe", "pod", "told-work-0", "-n", namespace, check=False)
        ),
        what="the Scheduled event",
    )


def test_explain_and_api_resources_know_our_kinds(world: World) -> None:
    resources = world.kubectl("api-resources")
    for short, kind in (("vcjob,vj", "Job"), ("pg,podgroup-v1beta1", "PodGroup"), ("q,queue-v1beta1", "Queue")):
        assert any(short in line and line.split()[-1] == kind for line in resources.splitlines()), short
    assert "minAvailable" in world.kubectl("explain", "vcjob.spec")
    assert "containers" in world.kubectl("explain", "pod.spec")


def test_scale_a_deployment(world: World, namespace: str) -> None:
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(DEPLOYMENT))
    world.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=300s")
    world.kubectl("scale", "deployment/web", "-n", namespace, "--replicas=5")
    eventually(
        lambda: world.get("deployment", "web", "-n", namespace).get("status", {}).get("readyReplicas") == 5,
        what="5 replicas are ready",
    )
    world.kubectl("scale", "deployment/web", "-n", namespace, "--replicas=1")
    eventually(lambda: len(world.items("pods", "-n", namespace, "-l", "app=web")) == 1, what="one pod is left")
    world.kubectl("delete", "deployment", "web", "-n", namespace)
    eventually(lambda: not world.items("pods,replicasets", "-n", namespace), what="all of it is gone")


@pytest.mark.own_nodes
def test_everyday_verbs(world: World, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people type without thinking: rollout, label, annotate, edit, wait, events, auth, cordon, drain."""

    def here(*words: str, **options: Any) -> str:
        return world.kubectl(*words, "-n", namespace, **options)

    here("apply", "-f", "-", stdin=json.dumps(DEPLOYMENT))
    here("rollout", "status", "deployment/web", "--timeout=300s")
    here("set", "env", "deployment/web", "COLOUR=red")
    here("rollout", "status", "deployment/web", "--timeout=300s")
    assert [line.split()[0] for line in here("rollout", "history", "deployment/web").splitlines()[2:] if line] == [
        "1",
        "2",
    ]
    here("rollout", "undo", "deployment/web")
    here("rollout", "restart", "deployment/web")
    here("rollout", "status", "deployment/web", "--timeout=300s")
    here("wait", "--for=condition=Available", "deployment/web", "--timeout=300s")
    here("label", "deployment", "web", "tier=front")
    here("annotate", "deployment", "web", "note=kept")
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/tier: front/tier: back/'")
    here("edit", "deployment", "web")
    meta = world.get("deployment", "web", "-n", namespace)["metadata"]
    assert (meta["labels"], meta["annotations"]["note"]) == ({"tier": "back"}, "kept")
    # a real controller manager writes its events when it has time
    eventually(lambda: "ScalingReplicaSet" in here("events", "--for", "deployment/web"), what="the deployment's events")
    assert here("auth", "can-i", "create", "pods").strip() == "yes"
    assert here("auth", "can-i", "create", "pods", "--as=nobody-known", check=False).startswith("no")
    node = world.items("pods", "-n", namespace, "-l", "app=web")[0]["spec"]["nodeName"]
    try:
        world.kubectl("cordon", node)
        assert "SchedulingDisabled" in world.kubectl("get", "node", node)
        world.kubectl("drain", node, "--force", "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=300s")
        here("rollout", "status", "deployment/web", "--timeout=300s")
        alive = [
            p for p in world.items("pods", "-n", namespace, "-l", "app=web") if "deletionTimestamp" not in p["metadata"]
        ]
        assert node not in [pod["spec"].get("nodeName") for pod in alive]
    finally:
        world.kubectl("uncordon", node)


def test_patch_types(world: World, namespace: str) -> None:
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(DEPLOYMENT))
    target = ("deployment", "web", "-n", namespace)
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side"}]}}}}
    world.kubectl("patch", *target, "--type=strategic", "-p", json.dumps(side))
    containers = world.get(*target)["spec"]["template"]["spec"]["containers"]
    assert sorted(container["name"] for container in containers) == ["side", "web"]
    world.kubectl("patch", *target, "--type=merge", "-p", '{"metadata":{"annotations":{"a":"b","c":null}}}')
    assert world.get(*target)["metadata"]["annotations"]["a"] == "b"
    world.kubectl("patch", *target, "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":0}]')
    assert world.get(*target)["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        pytest.param(("get", "pod", "nope"), None, 'pods "nope" not found', id="an unknown name"),
        pytest.param(
            ("create", "-f", "-"), "kind: Nope\napiVersion: v1\n", "no matches for kind", id="an unknown kind"
        ),
        pytest.param(
            ("create", "-f", "-"),
            '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"Bad_Name"},"spec":{"containers":[]}}',
            "a lowercase RFC 1123 subdomain",
            id="a bad name",
        ),
        pytest.param(
            ("create", "-f", "-"),
            '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[]}}',
            "spec.containers: Required value",
            id="a pod without containers",
        ),
        pytest.param(
            ("create", "-f", "-"),
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"dota":{}}',
            'unknown field "dota"',
            id="an unknown field",
        ),
        pytest.param(
            ("create", "-f", "-"),
            '{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"minAvailable":-1}}',
            "spec.minAvailable",
            id="a field out of its range",
        ),
        pytest.param(("get", "pods", "-l", "a in b"), None, "unable to parse requirement", id="a bad label selector"),
        pytest.param(
            ("get", "pods", "--field-selector", "spec.x=1"), None, "field label not supported", id="a bad field"
        ),
        pytest.param(
            ("create", "configmap", "c", "-n", "missing"), None, 'namespaces "missing" not found', id="no namespace"
        ),
    ],
)
def test_bad_input_is_answered_in_kubernetes_words(
    world: World, args: tuple[str, ...], stdin: str | None, words: str
) -> None:
    done = world.kubectl_process(*args, stdin=stdin, check=False)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_account_gets_in_with_its_token(world: World, namespace: str) -> None:
    world.kubectl("create", "serviceaccount", "robot", "-n", namespace)
    world.kubectl(
        "create", "rolebinding", "robot", "-n", namespace, "--clusterrole=view", f"--serviceaccount={namespace}:robot"
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/robot/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = json.loads(world.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(request)))
    robot = (f"--token={answer['status']['token']}", "-n", namespace)
    # a real server knows roles from a cache
    eventually(
        lambda: world.kubectl("auth", "can-i", "list", "pods", *robot, check=False).strip() == "yes", what="it may list"
    )
    rules = world.kubectl("auth", "can-i", "--list", *robot)
    assert any(line.startswith("pods ") and "[get list watch]" in line for line in rules.splitlines())
    assert world.kubectl("get", "pods", *robot) == ""
    refused = world.kubectl_process("get", "secrets", *robot, check=False)
    assert f'User "system:serviceaccount:{namespace}:robot" cannot list resource "secrets"' in refused.stderr
    world.kubectl("delete", "serviceaccount", "robot", "-n", namespace)
    eventually(
        lambda: "Unauthorized" in world.kubectl_process("get", "--raw", "/api", robot[0], check=False).stderr,
        what="the token is worth nothing",
    )
