"""The same manifest once more: ``kubectl apply``, ``diff`` and ``replace`` change nothing, of every kind of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import World

pytestmark = pytest.mark.e2e

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}]}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
BATCH, SCHEDULING, FLOW = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "flow.volcano.sh/v1alpha1"


def _of(api_version: str, kind: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "again"}, **members}


BARE = {"tasks": [{"replicas": 1, "template": TEMPLATE}]}
MANIFESTS: dict[str, dict[str, Any]] = {
    "a job": _of(BATCH, "Job", spec=BARE),
    "a job with claims and plugins": _of(
        BATCH,
        "Job",
        spec={
            "plugins": {"mpi": ["--master=m", "--worker=w"]},
            "volumes": [{"mountPath": "/v", "volumeClaim": CLAIM}],
            "tasks": [
                {"name": "m", "replicas": 1, "template": {"spec": {"hostNetwork": True, **TEMPLATE["spec"]}}},
                {"name": "w", "replicas": 2, "template": TEMPLATE},
            ],
        },
    ),
    "a cron job": _of(BATCH, "CronJob", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": BARE}}),
    "a pod group": _of(SCHEDULING, "PodGroup", spec={"minMember": 2, "minResources": {"cpu": "1000m"}}),
    "a job template": _of(FLOW, "JobTemplate", spec=BARE),
    "a flow": _of(FLOW, "JobFlow", spec={"jobRetainPolicy": "retain", "flows": [{"name": "none"}]}),
}


def _wanted(world: World, manifest: dict[str, Any], namespace: str) -> tuple[Any, int]:
    """Return what is wanted, and its generation; a group's counts its status too, which ``replace`` leaves out."""
    resource = f"{manifest['kind']}.{manifest['apiVersion'].partition('/')[0]}"
    found = world.get(resource, "again", "-n", namespace)
    return found["spec"], 0 if manifest["kind"] == "PodGroup" else found["metadata"]["generation"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_same_manifest_once_more_changes_nothing(world: World, namespace: str, name: str) -> None:
    manifest = MANIFESTS[name]
    text = json.dumps(manifest)
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
    if "volumes" in manifest.get("spec", {}):
        world.kubectl("wait", "-n", namespace, "vcjob/again", "--for=jsonpath={.spec.volumes[0].volumeClaimName}")
    before = _wanted(world, manifest, namespace)
    for verb in ("apply", "diff", "replace"):
        world.kubectl(verb, "-n", namespace, "-f", "-", stdin=text)  # diff exits 1 when it shows any
    assert _wanted(world, manifest, namespace) == before


def test_a_job_that_runs_is_scaled_by_its_manifest(world: World, namespace: str) -> None:
    manifest = vcjob("again", replicas=2, seconds=600)
    for task in manifest["spec"]["tasks"]:
        task.pop("minAvailable", None)
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    manifest["spec"]["tasks"][0]["replicas"] = 3
    world.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    task = world.get("vcjob", "again", "-n", namespace)["spec"]["tasks"][0]
    assert (task["replicas"], task["minAvailable"]) == (3, 3)
