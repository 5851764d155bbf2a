"""What a job adds to the pods of its tasks: volumes and their mounts, scheduler, priority, names, partitions."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from strato.api.volcano.batch import Job
from strato.controllers.job import terms
from strato.controllers.job.podbuilder import PodBuilder
from tests.controllers.world import vcjob

Json = dict[str, Any]
VOLUME: Json = {"name": "own", "emptyDir": {}}
MOUNT: Json = {"name": "own", "mountPath": "/own"}


def pod(template: Json | None = None, index: int = 0, task: Json | None = None, **spec: Any) -> Json:
    body = vcjob("j", {"name": "w", "replicas": 4, "template": {}, **(task or {})}, **spec)
    job = msgspec.convert(body, Job)
    builder = PodBuilder(job, job.spec.tasks[0], template or {"spec": {}}, group="g", random=Random(1))
    return builder.pod(index, 2, 3)


def claims(made: Json) -> dict[str, str]:
    """Return the mount path of each claim in the first container, by its name."""
    names = {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in made["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in one
    }
    mounts = made["spec"]["containers"][0].get("volumeMounts") or ()
    return {names[one["name"]]: one["mountPath"] for one in mounts if one["name"] in names}


def volume(path: str, claim: str = "") -> Json:
    return {"mountPath": path, **({"volumeClaimName": claim} if claim else {})}


@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([volume("/a", "x")], {"x": "/a"}, id="one"),
        pytest.param([volume("/a", "x"), volume("/b", "y")], {"x": "/a", "y": "/b"}, id="two"),
        pytest.param([volume("/a", "x"), volume("/b", "x")], {"x": "/a"}, id="a claim twice"),
        pytest.param([volume("/a"), volume("/b", "y")], {"y": "/b"}, id="one whose claim has no name yet"),
    ],
)
@pytest.mark.parametrize("has_own", [False, True])
def test_each_claim_is_mounted_once_in_every_container(
    volumes: list[Json], want: dict[str, str], has_own: bool
) -> None:
    containers: list[Json] = [{"name": name, **({"volumeMounts": [MOUNT]} if has_own else {})} for name in "ab"]
    made = pod({"spec": {"containers": containers, **({"volumes": [VOLUME]} if has_own else {})}}, volumes=volumes)
    assert claims(made) == want
    own = ([VOLUME], [MOUNT]) if has_own else ([], [])
    spec = made["spec"]
    assert (spec.get("volumes") or [])[: len(own[0])] == own[0]
    assert len(spec.get("volumes") or ()) == len(want) + len(own[0])
    for container in spec["containers"]:
        mounts = container.get("volumeMounts") or []
        assert (mounts[: len(own[1])], len(mounts)) == (own[1], len(want) + len(own[1]))
    names = [one["name"] for one in spec.get("volumes") or ()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("given", "spec", "want"),
    [
        pytest.param({}, {}, {"schedulerName": "volcano"}, id="the job's scheduler"),
        pytest.param({"schedulerName": "own"}, {}, {"schedulerName": "own"}, id="its own"),
        pytest.param({}, {"schedulerName": ""}, {}, id="no scheduler"),
        pytest.param({}, {"priorityClassName": "p"}, {"schedulerName": "volcano", "priorityClassName": "p"}, id="p"),
        pytest.param(
            {"priorityClassName": "own"}, {"priorityClassName": "p"},
            {"schedulerName": "volcano", "priorityClassName": "own"}, id="a class of its own",
        ),
        pytest.param(
            {"hostNetwork": True}, {},
            {"schedulerName": "volcano", "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, id="host",
        ),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "Default"}, {},
            {"schedulerName": "volcano", "hostNetwork": True, "dnsPolicy": "Default"}, id="host with a policy",
        ),
    ],
)  # fmt: skip
def test_what_a_template_leaves_open_is_the_job_s(given: Json, spec: Json, want: Json) -> None:
    assert pod({"spec": given}, **spec)["spec"] == want


@pytest.mark.parametrize(
    ("policy", "index", "partition"),
    [
        (None, 3, None),
        ({"totalPartitions": 2, "partitionSize": 2}, 0, "0"),
        ({"totalPartitions": 2, "partitionSize": 2}, 1, "0"),
        ({"totalPartitions": 2, "partitionSize": 2}, 2, "1"),
        ({"totalPartitions": 2, "partitionSize": 0}, 3, "0"),
        ({"totalPartitions": 4, "partitionSize": 1}, 3, "3"),
    ],
)
def test_the_partition_of_a_replica(policy: Json | None, index: int, partition: str | None) -> None:
    made = pod(index=index, task={"partitionPolicy": policy} if policy is not None else None)
    assert made["metadata"]["labels"].get(terms.PARTITION_ID) == partition


def test_a_pod_says_whose_it_is() -> None:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"]}, "spec": {}}
    made = pod(template, 1, {"name": "w"})["metadata"]
    assert made["name"] == "j-w-1"
    assert made["finalizers"] == ["x/y"]
    assert made["labels"].items() >= {
        "a": "b", terms.TASK_SPEC: "w", terms.JOB_NAME: "j", terms.JOB_NAMESPACE: "default",
        terms.QUEUE_NAME: "default", terms.TASK_INDEX: "1",
    }.items()  # fmt: skip
    assert made["annotations"].items() >= {
        "c": "d", terms.TASK_SPEC: "w", terms.JOB_NAME: "j", terms.TEMPLATE_UID: "j-w",
        terms.TASK_INDEX: "1", terms.JOB_VERSION: "2", terms.JOB_RETRY_COUNT: "3",
    }.items()  # fmt: skip
    assert terms.JOB_FORWARDING not in made["labels"]
