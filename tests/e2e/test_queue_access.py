"""Access lists of queues, with kubectl as several users, on both servers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


def _as(world: World, user: str, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return world.kubectl_process(*args, "--as", user, "--as-group", "system:authenticated", stdin=stdin, check=False)


def _job(name: str) -> str:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox", "command": ["true"]}]}}
    spec = {"queue": "guarded", "minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    return json.dumps(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    )


def _deployment(queue: str) -> str:
    metadata = {"labels": {"app": "d"}, "annotations": {"scheduling.volcano.sh/queue-name": queue}}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})


def test_only_whom_a_list_names_submits_and_changes(world: World, namespace: str) -> None:
    annotations = {"strato.dev/acl-submit": "alice", "strato.dev/acl-administer": "carol"}
    metadata = {"name": "guarded", "annotations": annotations}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata}
    world.apply({**queue, "spec": {"weight": 1}})
    for user in ("alice", "carol", "eve"):
        role = ("create", "rolebinding", f"{user}-edits", "--clusterrole=admin", f"--user={user}", "-n", namespace)
        world.kubectl(*role)
        jobs = ("create", "clusterrole", f"{namespace}-jobs", "--verb=*", "--resource=jobs.batch.volcano.sh")
        world.kubectl(*jobs, check=False)
        bound = ("create", "rolebinding", f"{user}-jobs", f"--clusterrole={namespace}-jobs", f"--user={user}")
        world.kubectl(*bound, "-n", namespace)
    here = ("-n", namespace)

    def eve_is_refused() -> str:
        """The webhook's list of queues may be two seconds old, where there is one."""
        refused = _as(world, "eve", "create", *here, "-f", "-", stdin=_job("hers"))
        if refused.returncode == 0:
            world.kubectl("delete", "jobs.batch.volcano.sh", "hers", *here)
            return ""
        return refused.stderr

    said = eventually(eve_is_refused, what="eve is refused")
    assert "user eve" in said, said
    assert "may not submit to it" in said, said
    around = _as(world, "eve", "create", *here, "-f", "-", stdin=_deployment("guarded"))
    assert "may not submit to it" in around.stderr, around.stderr
    assert _as(world, "eve", "create", *here, "-f", "-", stdin=_deployment("default")).returncode == 0

    made = _as(world, "alice", "create", *here, "-f", "-", stdin=_job("ours"))
    assert made.returncode == 0, made.stderr
    noted = "jsonpath={.metadata.annotations.strato\\.dev/submitted-by}"
    assert world.kubectl("get", "jobs.batch.volcano.sh", "ours", *here, "-o", noted) == "alice"
    deletion = ("delete", "jobs.batch.volcano.sh", "ours", *here, "--wait=false")
    refused = _as(world, "eve", *deletion)
    assert "may not change or delete what others submitted to it" in refused.stderr, refused.stderr
    job = ("get", "jobs.batch.volcano.sh", "ours", *here, "-o", "jsonpath={.status.state.phase}")
    eventually(lambda: world.kubectl(*job) in ("Running", "Completed"), what="the job of alice runs")
    allowed = _as(world, "carol", *deletion)
    assert allowed.returncode == 0, allowed.stderr
