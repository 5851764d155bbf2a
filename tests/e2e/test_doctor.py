"""``strato doctor`` on a running cluster: what it says to type mends what it finds."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.worlds import STRATO, KubeWorld, World, eventually

DEFINITION = "jobtemplates.flow.volcano.sh"


def diagnosis(world: World) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status, and what is not as it should be."""
    command = [*STRATO, "-k", str(world.kubeconfig), "doctor", "-o", "json"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    about = ("definitions", "webhooks", "scheduler", "controllers", "queues", "clock", "server version", "cluster")
    return done.returncode, [f for f in report["findings"] if f["status"] != "ok" and f["check"] in about]


@pytest.mark.e2e
def test_of_a_sound_cluster_nothing_is_wrong(world: World) -> None:
    eventually(lambda: diagnosis(world) == (0, []), what=f"nothing is wrong: {diagnosis(world)}", every=1.0)


@pytest.mark.kube
@pytest.mark.timeout(600)
def test_what_it_says_to_type_mends_a_real_cluster(world: World) -> None:
    if not isinstance(world, KubeWorld):
        pytest.skip("definitions, webhooks and leases are objects only on a real control plane")
    # an older definition: a field of ours is dropped
    definition = world.get("crd", DEFINITION)
    inner = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del inner["properties"]["minAvailable"]
    world.kubectl("replace", "-f", "-", stdin=json.dumps(definition))
    code, (wrong,) = diagnosis(world)
    assert code == 1
    assert f"{DEFINITION} is of an older version: it drops spec.minAvailable" in wrong["what"]
    assert wrong["todo"] == "strato install --only crds"
    world.strato("install", "--only", "crds")
    eventually(lambda: diagnosis(world) == (0, []), what="the definition is mended", every=0.5)

    # the webhook is away, then the scheduler
    world.stop_part("webhook")
    code, found = diagnosis(world)
    assert code == 1
    assert any("failed calling webhook" in one["what"] for one in found), found
    world.start_webhook()
    world.processes["scheduler"].kill()
    world.processes.pop("scheduler").wait()

    def is_noticed() -> bool:
        return [one["check"] for one in diagnosis(world)[1] if one["status"] == "problem"] == ["scheduler"]

    eventually(is_noticed, what="the lease of the scheduler has run out", every=1.0)
    world.start_part("scheduler")
    eventually(lambda: diagnosis(world) == (0, []), what="a scheduler leads again", every=1.0)

    # somebody with few rights is told what could not be looked at
    world.kubectl("create", "serviceaccount", "nobody", "-n", "default")
    token = world.kubectl("create", "token", "nobody", "-n", "default").strip()
    config = json.loads(world.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    few = world.directory / "kubeconfig.nobody"
    few.write_text(json.dumps(config))
    few.chmod(0o600)
    done = subprocess.run([*STRATO, "-k", str(few), "doctor"], text=True, capture_output=True, timeout=300, check=False)
    assert "you may not list customresourcedefinitions" in done.stdout
    assert "kubectl auth can-i" in done.stdout
    world.kubectl("delete", "serviceaccount", "nobody", "-n", "default")
