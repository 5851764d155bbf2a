"""The one line that says how far a job is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any, cast

import pytest

from strato.cli.job.wait import progress_line, wait_for_jobs
from strato.cli.reasons.report import ReasonReport
from strato.client.cluster import Cluster, ListPage
from strato.clock import VirtualClock, run_virtual
from strato.errors import TooManyRequests, Unavailable

CASES: list[Any] = [
    pytest.param({}, "train: Pending, no pods yet of 6", id="a job nobody looked at yet has no pods"),
    pytest.param(
        {"state": {"phase": "Running"}, "pending": 1, "running": 4, "failed": 0},
        "train: Running, 1 pending, 4 running of 6",
        id="a running job counts its pods",
    ),
    pytest.param(
        {"state": {"phase": "Completing"}, "running": 0}, "train: Completing, no pods of 6", id="pods that are gone"
    ),
    pytest.param({"state": {"phase": "Completed"}}, "train: Completed", id="an ended job has no pods left to speak of"),
]


@pytest.mark.parametrize(("status", "line"), CASES)
def test_progress(status: dict[str, Any], line: str) -> None:
    job = {"metadata": {"name": "train"}, "spec": {"tasks": [{"replicas": 2}, {"replicas": 4}]}, "status": status}
    assert progress_line(job) == line


class FlakyCluster:
    """A server that goes away, and a watch that ends at once: what `wait_for_jobs` uses of a cluster."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.lists = 0

    async def list(self, _kind: object, _namespace: str, *, field_selector: str) -> ListPage[Any]:
        self.lists += 1
        assert field_selector == "metadata.name=train"
        if self.lists <= self.failures:
            raise Unavailable("gone") if self.lists % 2 else TooManyRequests("busy")
        phase = "Completed" if self.lists > self.failures + 3 else "Running"
        return ListPage(
            items=[{"metadata": {"name": "train"}, "status": {"state": {"phase": phase}}}], resource_version="1"
        )

    async def watch(self, _kind: object, _namespace: str, **_options: str) -> AsyncIterator[Any]:
        for batch in ():
            yield batch


def test_waiting_asks_a_lost_server_less_and_less_often() -> None:
    clock, cluster = VirtualClock(), FlakyCluster(failures=20)
    began = clock.monotonic()
    phases = run_virtual(
        clock, wait_for_jobs(cast(Cluster, cluster), "default", ["train"], None, clock=clock, random=Random(1))
    )
    assert phases == {"train": "Completed"}
    assert cluster.lists == 24
    assert 60 < clock.monotonic() - began < 250  # twice a second would be 12


class FullCluster:
    """A cluster without room: the job stays as it is for a minute."""

    def __init__(self, clock: VirtualClock, phase: str) -> None:
        self.clock, self.phase = clock, phase

    async def list(self, _kind: object, _namespace: str, *, field_selector: str) -> ListPage[Any]:
        phase = self.phase if self.clock.monotonic() < 60 else "Completed"
        return ListPage(
            items=[{"metadata": {"name": "train"}, "status": {"state": {"phase": phase}}}], resource_version="1"
        )

    async def watch(self, _kind: object, _namespace: str, **_options: str) -> AsyncIterator[Any]:
        await self.clock.sleep(30)
        for batch in ():
            yield batch


@pytest.mark.parametrize(
    ("phase", "namespace", "code", "told"),
    [
        pytest.param("Pending", "default", "", "train still waits; 'strato explain job/train' says why", id="no room"),
        pytest.param("Pending", "team", "", "'strato explain job/train -n team' says why", id="no room in a namespace"),
        pytest.param(
            "Pending",
            "default",
            "Unbound",
            "train still waits: Unbound here; 'strato explain job/train' says more",
            id="it waits for something else",
        ),
        pytest.param(
            "Running",
            "default",
            "CrashLoopBackOff",
            "train does not go on: CrashLoopBackOff here; 'strato explain job/train' says more",
            id="a job that runs but does not go on",
        ),
        pytest.param("Running", "default", "", "", id="a job that runs takes the time it takes"),
    ],
)
def test_a_job_that_waits_names_the_command_that_says_why(
    phase: str, namespace: str, code: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = VirtualClock()
    cluster = cast(Cluster, FullCluster(clock, phase))
    report = ReasonReport("job train", phase, code, f"{code} here")

    async def why(_name: str) -> ReasonReport:
        return report

    run_virtual(clock, wait_for_jobs(cluster, namespace, ["train"], None, clock=clock, random=Random(1), why=why))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"train: {phase}")
    assert lines[-1] == "train: Completed"
    assert told in "".join(lines[1:-1])
    assert len(lines) == (3 if told else 2)
