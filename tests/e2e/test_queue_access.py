"""Who may use a queue and who is put into which, with kubectl as several users, on both servers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.worlds import KubeWorld, World, eventually

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


RULES = """<allocations>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="primaryGroup" create="false"/>
    <rule name="reject"/>
  </queuePlacementPolicy>
</allocations>"""


@pytest.fixture
def placed(world: World, tmp_path: Path) -> Iterator[None]:
    """Have the webhook place by the rules."""
    if not isinstance(world, KubeWorld):
        pytest.skip("a webhook is a process of its own only on a real control plane")
    (tmp_path / "fair-scheduler.xml").write_text(RULES)
    world.stop_part("webhook")
    world.start_webhook("--queue-placement", str(tmp_path / "fair-scheduler.xml"))
    yield
    world.stop_part("webhook")
    world.start_webhook()


@pytest.mark.usefixtures("placed")
def test_placement_rules_of_yarn_choose_the_queue(world: World, namespace: str) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
    world.apply({**queue, "spec": {"weight": 1}})
    jobs = ("create", "clusterrole", f"{namespace}-makes-jobs", "--verb=*", "--resource=jobs.batch.volcano.sh")
    world.kubectl(*jobs)
    world.kubectl("create", "clusterrolebinding", f"{namespace}-makes-jobs", f"--clusterrole={namespace}-makes-jobs",
                  "--group=system:authenticated")  # fmt: skip
    job = json.loads(_job("hers"))
    del job["spec"]["queue"]

    def created_as(group: str) -> subprocess.CompletedProcess[str]:
        who = ("--as", "alice", "--as-group", "system:authenticated", "--as-group", group)
        return world.kubectl_process("create", "-n", namespace, "-f", "-", *who, stdin=json.dumps(job), check=False)

    refused = created_as("strangers")
    assert "no rule finds a queue for it" in refused.stderr, refused.stderr
    made = created_as("research")
    assert made.returncode == 0, made.stderr
    where = ("get", "jobs.batch.volcano.sh", "hers", "-n", namespace, "-o", "jsonpath={.spec.queue}")
    assert world.kubectl(*where) == "research"
