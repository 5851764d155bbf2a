"""Which metrics the job controller shows of the jobs that ended."""

from __future__ import annotations

import pytest

from strato.controllers.job.telemetry import JobMetrics
from strato.metrics import Registry
from tests.controllers.test_job_record import job


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        pytest.param("Completed", "volcano_job_completed_phase_count", id="completed"),
        pytest.param("Failed", "volcano_job_failed_phase_count", id="failed"),
        pytest.param("Aborted", None, id="neither"),
    ],
)
def test_ends_are_counted_under_the_names_of_volcano_until_the_job_is_deleted(phase: str, name: str | None) -> None:
    registry = Registry()
    metrics = JobMetrics(registry)
    metrics.ended(job(5), phase)
    metrics.ended(job(6), phase)
    assert series(registry) == ([f'{name}{{job_name="ns/j",queue_name="default"}} 2.0'] if name else [])
    metrics.forget("ns/j")
    assert series(registry) == []


def series(registry: Registry) -> list[str]:
    return [line for line in registry.render().decode().splitlines() if line.startswith("volcano_job_")]
