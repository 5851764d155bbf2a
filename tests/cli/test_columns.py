"""Columns, widths and ages as Volcano's users' scripts cut them."""

from __future__ import annotations

from typing import Any

import pytest

from strato.cli.job.listing import job_table
from strato.cli.pod import PodRow, pod_table
from strato.units import human_duration


def job(name: str, namespace: str = "default", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-03-04T05:06:07Z"}
    tasks = [{"replicas": 2}, {"replicas": 3}]
    return {"metadata": metadata, "spec": {"tasks": tasks}, "status": {"state": {"phase": "Running"}, **status}}


def starts(header: str, *titles: str) -> list[int]:
    """Return where each title begins."""
    return [header.index(title) for title in titles]


def test_the_columns_of_jobs_begin_where_scripts_cut_them() -> None:
    header, line, longer = job_table(
        [job("a", minAvailable=4, running=5, retryCount=1), job("a-longer-name")], with_namespace=False
    ).splitlines()
    titles = ("Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running", "Succeeded", "Failed")
    titles = (*titles, "Unknown", "RetryCount")
    widths = [16, 15, 12, 12, 12, 6, 10, 10, 12, 10, 12]
    assert starts(header, *titles) == [sum(widths[:index]) for index in range(len(titles))]
    assert line.split() == ["a", "2026-03-04", "Running", "Batch", "5", "4", "0", "5", "0", "0", "0", "1"]
    assert longer.startswith("a-longer-name   2026-03-04")


def test_the_namespace_comes_first_when_there_are_several() -> None:
    header, line = job_table([job("train", "team")], with_namespace=True).splitlines()
    assert starts(header, "Namespace", "Name ", "Creation") == [0, 12, 20]
    assert line.split()[:3] == ["team", "train", "2026-03-04"]


def test_a_column_of_pods_is_eight_wider_than_its_longest_value() -> None:
    rows = [PodRow({"name": "train-work-0"}, ("train-work-0", "1/1", "Running", "0", "5s"))]
    header, line = pod_table(rows, with_namespace=False).splitlines()
    assert starts(header, "Name", "Ready", "Status", "Restart", "Age") == [0, 20, 31, 46, 55]
    assert line.split() == ["train-work-0", "1/1", "Running", "0", "5s"]


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
