"""Columns, widths and ages as Volcano's users' scripts cut them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from strato.cli.job.listing import JOBS, duration
from strato.cli.job.view import render_job
from strato.cli.listing import Moment
from strato.cli.pod import PodRow, pod_table
from strato.clock import parse_time
from strato.units import human_duration


def job(name: str, namespace: str = "default", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-03-04T05:06:07Z"}
    tasks = [{"replicas": 2}, {"replicas": 3}]
    return {"metadata": metadata, "spec": {"tasks": tasks}, "status": {"state": {"phase": "Running"}, **status}}


def starts(header: str, *titles: str) -> list[int]:
    """Return where each title begins."""
    return [header.index(title) for title in titles]


def test_a_job_is_a_line_with_its_queue_its_ages_and_why() -> None:
    created, minute = "2026-03-04T05:06:07Z", 60
    now = parse_time(created) + 10 * minute
    ended = {"phase": "Failed", "reason": "DeadlineExceeded", "lastTransitionTime": "2026-03-04T05:08:07Z"}
    body = job("a", minAvailable=4, succeeded=3, failed=2, state=ended)
    body["spec"]["queue"] = "gold"
    cells = dict(zip(JOBS.headers, JOBS.row(body, Moment(now, {"": "DeadlineExceeded"})), strict=True))
    assert cells == {
        "Name": "a",
        "Queue": "gold",
        "Phase": "Failed",
        "Age": "10m",
        "Duration": "2m",
        "Pods": 5,
        "Min": 0,
        "Pending": 0,
        "Running": 0,
        "Succeeded": 3,
        "Failed": 2,
        "Reason": "DeadlineExceeded",
    }
    assert duration(job("b"), now) == "10m"
    assert duration(job("c", state={"phase": "Pending"}), now) == ""
    assert len(JOBS.wide_row(body, Moment(now))) == len(JOBS.wide_headers)


def test_a_column_of_pods_is_eight_wider_than_its_longest_value() -> None:
    rows = [PodRow({"name": "train-work-0"}, ("train-work-0", "1/1", "Running", "0", "5s"))]
    header, line = pod_table(rows, with_namespace=False).splitlines()
    assert starts(header, "Name", "Ready", "Status", "Restart", "Age") == [0, 20, 31, 46, 55]
    assert line.split() == ["train-work-0", "1/1", "Running", "0", "5s"]


FULL = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "team",
        "labels": {"a": "b"},
        "creationTimestamp": "2026-03-04T05:06:07Z",
        "generateName": "tr",
        "generation": 2,
        "resourceVersion": "77",
        "uid": "u-1",
    },
    "spec": {
        "minAvailable": 2,
        "plugins": {"env": [], "ssh": ["--no-root"]},
        "schedulerName": "volcano",
        "tasks": [
            {
                "name": "work",
                "replicas": 3,
                "template": {
                    "metadata": {"annotations": {"note": "x"}},
                    "spec": {
                        "imagePullSecrets": [{"name": "pull"}],
                        "containers": [
                            {
                                "name": "main",
                                "image": "busybox",
                                "command": ["sleep", "5"],
                                "ports": [{"containerPort": 80}],
                                "workingDir": "/w",
                                "resources": {"limits": {"memory": "1Gi", "cpu": "2"}, "requests": {"cpu": "1"}},
                            }
                        ],
                    },
                },
            },
        ],
    },
    "status": {
        "state": {"phase": "Running"},
        "running": 2,
        "pending": 1,
        "failed": 0,
        "version": 3,
        "minAvailable": 2,
        "controlledResources": {"plugin-env": "env"},
        "conditions": [{"status": "Running", "lastTransitionTime": "2026-03-04T05:07:00Z"}],
    },
}

PAGE = """Name:\ttrain
Namespace:\tteam
Labels:\t{"a": "b"}
Annotations:\t<none>
API Version:\tbatch.volcano.sh/v1alpha1
Kind:\tJob
Metadata:
  Creation Timestamp:\t2026-03-04 05:06:07 +0000 UTC
  Generate Name:\ttr
  Generation:\t2
  Resource Version:\t77
  UID:\tu-1
Spec:
  Min Available:\t2
  Plugins:
    Env:\t[]
    Ssh:\t["--no-root"]
  Scheduler Name:\tvolcano
  Tasks:
    Name:\twork
    Replicas:\t3
    Template:
      Metadata:
        Annotations:\t{"note": "x"}
      Spec:
        Containers:
          Command:
            sleep
            5
          Image:\tbusybox
          Name:\tmain
          Ports:\t[{"containerPort": 80}]
          Resources:
            Limits:
              Cpu:\t2
              Memory:\t1Gi
            Requests:
              Cpu:\t1
          Working Dir:\t/w
        Image Pull Secrets:\t["pull"]
        Restart Policy:\tAlways
Status:
  Pending:\t1
  Running:\t2
  Min Available:\t2
  Version:\t3
  State:
    Phase:\tRunning
  Controlled Resources:
    plugin-env:\tenv
"""
CONDITIONS = """  Conditions:
    Status\tTransitionTime
    Running\t2026-03-04 05:07:00 +0000 UTC
"""


def test_the_page_of_a_job_is_laid_out_as_volcanos() -> None:
    assert render_job(FULL, []) == f"{PAGE}{CONDITIONS}Events:\t<none>"


def test_the_page_of_a_job_shows_its_events_and_how_often() -> None:
    long_ago = {"firstTimestamp": "2001-01-01T00:00:00Z", "lastTimestamp": "2002-01-01T00:00:00Z"}
    common = {"type": "Warning", "source": {"component": "vc-controllers"}}
    events = [
        {"metadata": {"name": "train.1"}, "reason": "Twice", "message": " said\n", "count": 2, **long_ago, **common},
        {"metadata": {"name": "train.2"}, "reason": "Never", "message": "no time", **common},
        {"metadata": {"name": "trainer.3"}, "reason": "Other", "message": "of another job", **common},
    ]
    _, _, table = render_job(FULL, events).partition("Events:\n")
    head, never, twice = table.splitlines()
    assert head.split() == ["Type", "Reason", "Age", "Form", "Message"]
    assert never.split() == ["Warning", "Never", "<unknown>", "vc-controllers", "no", "time"]
    assert re.fullmatch(r"Warning +Twice +\d+y \(x2 over \d+y\) +vc-controllers +said *", twice)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-0.5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (10_799, "179m"), (10_800, "3h"), (11_100, "3h5m"), (28_800, "8h"), (172_799, "47h"),
        (172_800, "2d"), (176_400, "2d1h"), (691_200, "8d"), (63_071_999, "729d"), (63_072_000, "2y"),
        (63_158_400, "2y1d"), (252_288_000, "8y"),
    ],
)  # fmt: skip
def test_an_age_is_as_exact_as_it_is_young(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
