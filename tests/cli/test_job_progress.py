"""The one line that says how far a job is."""

from __future__ import annotations

from typing import Any

import pytest

from strato.cli.job.wait import progress_line

CASES: list[Any] = [
    pytest.param({}, "train: Pending, no pods yet of 6", id="a job nobody looked at yet has no pods"),
    pytest.param(
        {"state": {"phase": "Running"}, "pending": 1, "running": 4, "failed": 0},
        "train: Running, 1 pending, 4 running of 6",
        id="a running job counts its pods",
    ),
    pytest.param({"state": {"phase": "Completed"}}, "train: Completed", id="an ended job has no pods left to speak of"),
]


@pytest.mark.parametrize(("status", "line"), CASES)
def test_progress(status: dict[str, Any], line: str) -> None:
    job = {"metadata": {"name": "train"}, "spec": {"tasks": [{"replicas": 2}, {"replicas": 4}]}, "status": status}
    assert progress_line(job) == line
