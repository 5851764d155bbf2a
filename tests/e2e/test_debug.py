"""``kubectl debug``: a container beside those of a pod that runs, and a copy of a pod."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """A cluster with one pod whose container's command tells it from others."""
    cluster = EmbeddedWorld(tmp_path_factory.mktemp("debug") / "home", "--cpus", "4", "--pod-network", "host")
    cluster.start()
    main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", "sleep 36123; true"]}
    spec = {"containers": [main], "terminationGracePeriodSeconds": 1}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    yield cluster
    cluster.stop()


def debugger(world: EmbeddedWorld, name: str) -> dict[str, object]:
    found = world.get("pod", "web")["status"].get("ephemeralContainerStatuses") or ()
    return next((dict(one["state"]) for one in found if one["name"] == name), {})


def test_a_debugger_runs_beside_the_container(world: EmbeddedWorld) -> None:
    look = "echo it is $((6*7)); tr '\\0' ' ' < /proc/1/cmdline; echo; sleep 3600"
    world.kubectl("debug", "web", "--image=strato/host", "-c", "look", "--target=main", "--", "sh", "-c", look)
    eventually(lambda: "running" in debugger(world, "look"), what="the ephemeral container runs")
    eventually(lambda: "it is 42" in world.kubectl("logs", "web", "-c", "look"), what="its output is its log")
    assert world.kubectl("exec", "web", "-c", "look", "--", "echo", "here").strip() == "here"
    found = world.get("pod", "web")
    assert found["metadata"]["generation"] == 2
    if (
        "strato://root"
        in world.get("nodes", found["spec"]["nodeName"])["status"]["nodeInfo"]["containerRuntimeVersion"]
    ):
        seen = world.kubectl("exec", "web", "-c", "look", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "sleep 36123" in seen


def test_a_debugger_has_its_client_and_never_restarts(world: EmbeddedWorld) -> None:
    done = world.kubectl_process(
        *("debug", "web", "-i", "--image=strato/host", "-c", "asked", "--", "sh", "-c", "read word; echo got $word"),
        stdin="banana\n",
        check=False,
    )
    assert "got banana" in done.stdout, done.stderr
    eventually(lambda: "terminated" in debugger(world, "asked"), what="it has ended")
    status = world.get("pod", "web")["status"]
    assert status["phase"] == "Running"
    assert [one["restartCount"] for one in status["ephemeralContainerStatuses"] if one["name"] == "asked"] == [0]


def test_what_an_ephemeral_container_may_not_do_is_said(world: EmbeddedWorld) -> None:
    patch = {"spec": {"ephemeralContainers": [{"name": "main", "image": "strato/host"}]}}
    done = world.kubectl_process(
        "patch", "pod", "web", "--subresource=ephemeralcontainers", "-p", json.dumps(patch), check=False
    )
    assert "Duplicate value" in done.stderr + done.stdout or "not a valid subresource" in done.stderr


def test_a_copy_of_a_pod_is_debugged(world: EmbeddedWorld) -> None:
    world.kubectl("debug", "web", "--image=strato/host", "-c", "peer", "--copy-to=twin", "--", "sleep", "3600")
    world.kubectl("wait", "--for=condition=Ready", "pod/twin", "--timeout=120s")
    names = [one["name"] for one in world.get("pod", "twin")["spec"]["containers"]]
    assert names == ["main", "peer"]
    world.kubectl("delete", "pod", "twin", "--wait=true")


def test_debuggers_end_with_their_pod(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--cpus", "2", "--pod-network", "host")
    main = {
        "name": "main",
        "image": "strato/host",
        "command": ["sh", "-c", "while [ ! -e /tmp/end ]; do sleep 0.2; done"],
    }
    spec = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    world.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    world.kubectl("debug", "web", "--image=strato/host", "-c", "look", "--", "sleep", "3600")
    eventually(lambda: "running" in debugger(world, "look"), what="the ephemeral container runs")
    world.kubectl("exec", "web", "-c", "main", "--", "touch", "/tmp/end")
    eventually(lambda: world.get("pod", "web")["status"]["phase"] == "Succeeded", what="the pod has ended")
    eventually(lambda: "terminated" in debugger(world, "look"), what="so has the ephemeral container")
