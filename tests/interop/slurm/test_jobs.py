"""Jobs, elements of arrays and nodes as Slurm's records."""

from __future__ import annotations

from typing import Any

import pytest

from strato.interop.slurm.jobs import JobView, Json, job_views
from strato.interop.slurm.nodes import node_views, partition_records
from strato.interop.slurm.pages import job_page

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def job(phase: str = "Running", *, reason: str = "", **spec: Any) -> Json:
    resources = {"requests": {"cpu": "1500m", "memory": "2Gi"}}
    container = {"name": "c", "resources": resources, "env": [{"name": "SLURM_JOB_NAME", "value": "my train"}]}
    pod = {"containers": [container], "activeDeadlineSeconds": 3600}
    return {
        "metadata": {
            "name": "train-1",
            "namespace": "default",
            "uid": "u",
            "creationTimestamp": "2025-12-31T23:00:00Z",
            "labels": {"strato.dev/user": "ann", "strato.dev/account": "team"},
        },
        "spec": {"queue": "gpu", "tasks": [{"replicas": 2, "template": {"spec": pod}}], **spec},
        "status": {"state": {"phase": phase, "reason": reason}},
    }


def pod(number: int, phase: str = "Running", *, index: int | None = None, **status: Any) -> Json:
    labels = {"volcano.sh/job-name": "train-1", **({} if index is None else {"strato.dev/array-index": str(index)})}
    return {
        "metadata": {"name": f"p-{number}", "namespace": "default", "labels": labels},
        "spec": {"nodeName": f"node-{number}"},
        "status": {"phase": phase, "startTime": "2025-12-31T23:58:55Z", **status},
    }


def ended(code: int, why: str = "Error") -> Json:
    stopped = {"exitCode": code, "reason": why, "finishedAt": "2025-12-31T23:59:55Z"}
    return {"containerStatuses": [{"state": {"terminated": stopped}}]}


def only(*args: Any, **flags: Any) -> JobView:
    (view,) = job_views(*args, NOW, **flags)
    return view


def test_a_job_that_runs() -> None:
    fields = only([job()], [pod(0), pod(1)], {}).fields
    wanted = {
        "jobid": "train-1",
        "name": "my train",
        "partition": "gpu",
        "username": "ann",
        "account": "team",
        "statecompact": "R",
        "timeused": "1:05",
        "timelimit": "1:00:00",
        "timeleft": "58:55",
        "numnodes": "2",
        "numcpus": "3",
        "minmemory": "2G",
        "reasonlist": "node-[0-1]",
        "exitcode": "0:0",
    }
    assert {name: fields[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("phase", "pods", "state"),
    [
        ("", [], "PENDING"),
        ("Completed", [pod(0, "Succeeded", **ended(0))], "COMPLETED"),
        ("Failed", [pod(0, "Failed", **ended(3))], "FAILED"),
        ("Failed", [pod(0, "Failed", reason="DeadlineExceeded")], "TIMEOUT"),
        ("Failed", [pod(0, "Failed", **ended(137, "OOMKilled"))], "OUT_OF_MEMORY"),
        ("Terminated", [], "CANCELLED"),
        ("Terminated", [pod(0, "Failed", **ended(143))], "CANCELLED"),
        ("Terminated", [pod(0, "Failed", **ended(3))], "FAILED"),
        ("Aborted", [], "SUSPENDED"),
        ("A phase of a later version", [], "PENDING"),
    ],
)
def test_states(phase: str, pods: list[Json], state: str) -> None:
    assert only([job(phase)], pods, {}).state == state


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "None"),
        ("Insufficient cpu", "Resources"),
        ("Dependency", "Dependency"),
        ("queue is closed", "QueueIsClosed"),
    ],
)
def test_reasons_are_one_word(code: str, reason: str) -> None:
    assert only([job("Pending")], [], {"u": code}).fields["reasonlist"] == f"({reason})"


def test_exit_codes_are_a_code_or_a_signal() -> None:
    assert (
        only([job("Failed")], [pod(0, "Failed", **ended(3)), pod(1, "Failed", **ended(1))], {}).fields["exitcode"]
        == "3:0"
    )
    assert only([job("Failed")], [pod(0, "Failed", **ended(139))], {}).fields["exitcode"] == "0:11"


def test_an_array_has_a_line_for_each_element_with_pods_and_one_for_those_that_wait() -> None:
    array = job(plugins={"array": ["--indexes=0-9:2", "--limit=2"]})
    pods = [pod(0, "Succeeded", index=0, **ended(0)), pod(1, index=2)]
    views = job_views([array], pods, {}, NOW)
    assert [(view.fields["jobid"], view.state) for view in views] == [
        ("train-1_[4,6,8%2]", "PENDING"),
        ("train-1_0", "COMPLETED"),
        ("train-1_2", "RUNNING"),
    ]
    assert views[0].fields["reason"] == "JobArrayTaskLimit"
    assert views[2].fields["numnodes"] == "1"
    each = job_views([array], pods, {}, NOW, elements=True)
    assert sorted(view.fields["jobid"] for view in each) == [f"train-1_{index}" for index in (0, 2, 4, 6, 8)]


def test_scontrol_shows_members() -> None:
    page = job_page(only([job()], [pod(0)], {}))
    assert page[0] == "JobId=train-1 JobName=my train"
    assert "   JobState=RUNNING Reason=None Dependency=(null)" in page
    assert all(line.startswith("   ") for line in page[1:])


def node(name: str, *, ready: bool = True, cordoned: bool = False) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def on(name: str, cpu: str) -> Json:
    containers = [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {"spec": {"nodeName": name, "containers": containers}, "status": {"phase": "Running"}}


def test_nodes_by_state_and_each() -> None:
    nodes = [node("n0"), node("n1"), node("n2"), node("n3", ready=False), node("n4", cordoned=True)]
    views = node_views(nodes, [on("n1", "1"), on("n2", "4")])
    assert [view.state for view in views] == ["idle", "mixed", "allocated", "down", "drained"]
    queues = [{"metadata": {"name": "root"}}, {"metadata": {"name": "default"}}]
    lines = partition_records(queues, views, by_state=True)
    assert [(one["statecompact"], one["nodelist"]) for one in lines] == [
        ("idle", "n0"), ("mix", "n1"), ("alloc", "n2"), ("drain", "n4"), ("down", "n3"),
    ]  # fmt: skip
    (summary,) = partition_records(queues, views, by_state=False)
    assert (summary["partition"], summary["nodeaiot"], summary["cpusstate"]) == ("default*", "2/1/2/5", "5/7/8/20")
    assert len(partition_records(queues, views, by_state=True, by_node=True)) == 5
    assert partition_records(queues, [], by_state=True)[0]["nodes"] == "0"
