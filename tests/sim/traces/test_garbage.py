"""Whatever a file holds, reading it gives jobs that are sound or an error for people, never another."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strato.api import names, quantity
from strato.errors import StratoError
from strato.sim.traces import ReadOptions, Trace, read_files
from strato.sim.traces.cells import Names
from strato.sim.traces.formats.ours import write_csv
from strato.sim.traces.registry import FORMATS
from tests.sim.traces.samples import GAVEL_THROUGHPUTS, SAMPLES

_BITS = st.sampled_from(
    ["", ",", "\n", "-1", "0", "1e309", "nan", "9" * 400, "\x00", '"', "\t", "|", "{", "[", "é", "2024-13-01", "1" * 20]
)


def assert_sound(trace: Trace) -> None:
    """Check what every trace must be."""
    taken = set()
    for job in trace.jobs:
        assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", job.name), job.name
        assert len(job.name) <= 40
        assert job.name not in taken
        taken.add(job.name)
        assert math.isfinite(job.submit_seconds)
        assert job.submit_seconds >= 0
        assert math.isfinite(job.run_seconds)
        assert job.run_seconds >= 0
        assert 1 <= job.members <= job.replicas
        assert job.requests
        assert all(quantity.parse(amount) > quantity.ZERO for amount in job.requests.values())
        assert not job.queue or not names.check_label(job.queue)
    assert all(name in taken for job in trace.jobs for name in job.after)
    assert trace.skipped == sum(trace.reasons.values())


def _try(path: Path, **options: object) -> None:
    try:
        trace = read_files([path], ReadOptions(**options))  # type: ignore[arg-type]  # of the test's own
    except StratoError:
        return
    assert_sound(trace)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.format} {sample.name}")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 40), _BITS), max_size=6))
def test_damaged_file_gives_sound_jobs_or_an_error(
    tmp_path: Path, sample: object, damage: list[tuple[int, int, str]]
) -> None:
    from tests.sim.traces.samples import Sample

    assert isinstance(sample, Sample)
    text = sample.text
    for at, length, instead in damage:
        place = at % max(1, len(text))
        text = text[:place] + instead + text[place + length :]
    (tmp_path / "simulation_throughputs.json").write_text(GAVEL_THROUGHPUTS)
    path = tmp_path / sample.name
    path.write_text(text)
    _try(path)
    _try(path, format=sample.format)
    _try(path, format=sample.format, strict=True)


@pytest.mark.parametrize("name", list(FORMATS))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_garbage_as_any_format_gives_an_error_for_people(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    _try(path, format=name)
    _try(path)


@given(st.lists(st.text(max_size=60), max_size=60))
def test_names_differ_and_are_valid(texts: list[str]) -> None:
    made = Names("job")
    found = [made.new(text) for text in texts]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 40 for name in found)
    again = Names("job")
    assert [again.of(text) for text in texts] == [again.of(text) for text in texts]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.format} {sample.name}")
def test_written_as_csv_and_read_again_jobs_are_equal(tmp_path: Path, sample: object) -> None:
    import csv

    from tests.sim.traces.samples import MAPPED, Sample

    assert isinstance(sample, Sample)
    (tmp_path / "simulation_throughputs.json").write_text(GAVEL_THROUGHPUTS)
    (tmp_path / "data.csv").write_text(MAPPED)
    path = tmp_path / sample.name
    path.write_text(sample.text)
    jobs = read_files([path], ReadOptions()).jobs
    copy = tmp_path / "copy.csv"
    with copy.open("w", newline="") as file:
        csv.writer(file).writerows(write_csv(jobs))
    assert read_files([copy], ReadOptions(strict=True)).jobs == jobs
