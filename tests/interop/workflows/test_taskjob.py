"""A task as a job, and what the job's state says of the task."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.core import Pod
from strato.api.volcano.batch import Job
from strato.interop.workflows.taskjob import (
    AttemptOutcome,
    JobSettings,
    Mount,
    TaskRequest,
    job_name,
    outcome,
    task_job,
    waiting_reason,
)


def request(**more: Any) -> TaskRequest:
    usual = {
        "engine": "miniwdl",
        "run_id": "call-a",
        "unique": "0a1b",
        "image": "img",
        "command": ("sh", "-c", "true"),
        "working_dir": "/w",
    }
    return TaskRequest(**{**usual, **more})


def container(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


def test_resources_become_requests_and_limits() -> None:
    body = task_job(request(cpu=2, memory_bytes=5000, memory_limit_bytes=6000, gpus=1), JobSettings(queue="q"))
    assert container(body)["resources"] == {
        "requests": {"cpu": "2", "memory": "5000", "nvidia.com/gpu": "1"},
        "limits": {"memory": "6000", "nvidia.com/gpu": "1"},
    }
    assert body["spec"]["queue"] == "q"
    assert task_job(request(queue="mine"), JobSettings(queue="q"))["spec"]["queue"] == "mine"
    assert "queue" not in task_job(request(), JobSettings())["spec"]


def test_files_are_of_the_node_or_of_a_claim() -> None:
    mounts = (Mount(host_path="/data/run/x", container_path="/in/x"),)
    spec = task_job(request(mounts=mounts), JobSettings())["spec"]["tasks"][0]["template"]["spec"]
    assert spec["volumes"] == [{"name": "file-0", "hostPath": {"path": "/data/run/x"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "file-0", "mountPath": "/in/x", "readOnly": True}]
    settings = JobSettings(claim="shared", claim_root="/data/")
    spec = task_job(request(mounts=mounts), settings)["spec"]["tasks"][0]["template"]["spec"]
    assert spec["volumes"] == [{"name": "files", "persistentVolumeClaim": {"claimName": "shared"}}]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "files", "mountPath": "/in/x", "readOnly": True, "subPath": "run/x"}
    ]
    with pytest.raises(ValueError, match="/data/run/x is not below /other"):
        task_job(request(mounts=mounts), JobSettings(claim="shared", claim_root="/other"))


@given(st.text(max_size=200))
def test_any_task_has_a_valid_name(run_id: str) -> None:
    name = job_name(request(run_id=run_id))
    assert len(name) <= 63
    assert all(c.isascii() and (c.isalnum() or c == "-") for c in name)
    assert name == name.lower()
    assert not name.endswith("-")


ENDED = {"state": {"terminated": {"exitCode": 3, "reason": "Error"}}}


def job(phase: str, message: str = "") -> Job:
    return msgspec.convert({"metadata": {"name": "j"}, "status": {"state": {"phase": phase, "message": message}}}, Job)


def pod(**status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)


@pytest.mark.parametrize(
    ("phase", "of_pod", "want"),
    [
        pytest.param("Running", {"containerStatuses": [ENDED]}, None, id="the job has not ended yet"),
        pytest.param("Failed", {"containerStatuses": [ENDED]}, AttemptOutcome(exit_code=3), id="its exit code"),
        pytest.param("Completed", {"containerStatuses": [ENDED]}, AttemptOutcome(exit_code=3), id="whatever the phase"),
        pytest.param(
            "Failed",
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            AttemptOutcome(exit_code=137, message="the container was ended: OOMKilled"),
            id="out of memory is the task's fault",
        ),
        pytest.param(
            "Terminated", None, AttemptOutcome(exit_code=None, message="job j is Terminated: why"), id="pod is gone"
        ),
        pytest.param(
            "Terminated",
            {"reason": "Evicted", "containerStatuses": [ENDED]},
            AttemptOutcome(exit_code=None, message="job j is Terminated: why"),
            id="evicted",
        ),
        pytest.param(
            "Aborted",
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 143}}}]},
            AttemptOutcome(exit_code=None, message="job j is Aborted: why"),
            id="aborted by a person",
        ),
    ],
)
def test_outcome(phase: str, of_pod: dict[str, Any] | None, want: AttemptOutcome | None) -> None:
    assert outcome(job(phase, "why"), None if of_pod is None else pod(**of_pod)) == want


def test_a_pod_that_waits_says_why() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "queue is full"}
    assert waiting_reason(pod(phase="Pending", conditions=[unscheduled])) == "queue is full"
    pulling = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    assert waiting_reason(pod(phase="Pending", containerStatuses=[pulling])) == "ImagePullBackOff: no such image"
    assert waiting_reason(pod(phase="Running")) == ""
    assert waiting_reason(None) == ""
