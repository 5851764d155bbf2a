"""Gavel's simulation: the generator's jobs, and a static trace whose makespan is published."""

from __future__ import annotations

import itertools
import statistics
from random import Random

import pytest

from strato.errors import UsageError
from strato.scheduler.plugins.throughputs import JobKind, parse_throughputs, read_throughputs
from strato.sim.papers import gavel
from strato.sim.papers.work import ReproductionOptions
from tests.sim.shareddata import data_folder

EVERYWHERE = {f"('{model}', {gpus})": {"null": 10} for model in gavel.MODELS for gpus in (1, 2, 4, 8)}
TABLE = parse_throughputs(dict.fromkeys(gavel.KINDS, EVERYWHERE), "t")


def test_the_generator_draws_what_pythons_does() -> None:
    jobs = list(itertools.islice(gavel.generated(Random(2), TABLE, several_gpus=True), 3000))
    assert jobs == list(itertools.islice(gavel.generated(Random(2), TABLE, several_gpus=True), 3000))
    shares = [sum(job.kind.gpus == gpus for job in jobs) / 3000 for gpus in (1, 2, 4, 8)]
    assert shares == pytest.approx([0.7, 0.1, 0.15, 0.05], abs=0.03)
    assert all(job.kind.gpus == 1 for job in jobs if job.kind.name in ("A3C", "CycleGAN"))
    assert min(job.steps for job in jobs) >= 60 * 10**1.5 * 10
    assert max(job.steps for job in jobs) <= 60 * 10**4 * 10


def test_jobs_of_one_gpu_last_as_long_as_published() -> None:
    """The mean over jobs 4,000 to 4,999 on a V100 is what the published FIFO has at low load: 17.6 hours."""
    jobs = itertools.islice(gavel.generated(Random(2), TABLE, several_gpus=False), 4000, 5000)
    assert statistics.fmean(job.steps / 10 / 3600 for job in jobs) == pytest.approx(17.58, rel=0.02)


def test_published_makespan_of_a_hundred_jobs() -> None:
    found = gavel.reproduce(ReproductionOptions(data=data_folder(), is_slice=True))
    assert found.agrees, found.to_text()


def test_the_table_has_every_kind() -> None:
    table = read_throughputs(data_folder() / gavel.FILE)
    assert all(table.on(kind, JobKind(model, 1)) > 0 for kind in gavel.KINDS for model in gavel.MODELS)


def test_a_table_without_a_kind_is_named(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        gavel.simulate(gavel.Case(data_folder() / "no", "makespan", 0.0, 3, 0))
