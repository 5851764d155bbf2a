"""A trace in numbers, by the command and by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from strato.cli.sim.traces import traces
from strato.node.shapes import parse_nodes
from strato.sim.traces import read_trace
from strato.sim.traces.describe import describe
from tests.sim.traces import samples

CSV = "name,submit,run_time,replicas,cpu,memory,queue,user\na,0,3600,2,2,1Gi,q,u\nb,7200,1800,1,4,,,v\nx,1,soon,1,,,,\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a small trace with a line that cannot be read."""
    found = tmp_path / "t.csv"
    found.write_text(CSV)
    return found


def test_numbers_of_a_trace(path: Path) -> None:
    found = describe(read_trace(path), "t", parse_nodes("2x4cpu,8Gi"))
    assert (found.jobs, found.pods, found.span_seconds, found.users) == (2, 3, 7200.0, 2)
    assert found.work == {"cpu": 2 * 2 * 3600 + 4 * 1800, "memory": 2 * 3600 * 2**30}
    assert found.offered_load["cpu"] == pytest.approx(21600 / (8 * 7200))
    assert found.queues == {"q": 1, "default": 1}
    assert found.run_histogram["10m"] == 1
    assert found.run_histogram["1h"] == 1
    assert found.spreads["runSeconds"].percentiles["p50"] == 2700.0
    assert sum(found.hourly) == pytest.approx(1.0)


def test_command_describes_and_names_what_it_skipped(path: Path) -> None:
    result = CliRunner().invoke(traces, [str(path), "--nodes", "2x4cpu,8Gi"])
    assert result.exit_code == 0, result.output
    assert "2 jobs, 3 pods over 120m" in result.output
    assert "1: odd run_time" in result.output
    assert "line 4: run_time: 'soon' is no time" in result.output
    assert "offered load: cpu 37.5%" in result.output
    document = json.loads(CliRunner().invoke(traces, [str(path), "-o", "json"]).output)
    assert (document["jobs"], document["reasons"]) == (2, {"odd run_time": 1})
    assert "spanSeconds" in document


def test_command_converts(path: Path, tmp_path: Path) -> None:
    head = CliRunner().invoke(traces, [str(path), "--head", "1"]).output
    assert head.splitlines()[1].startswith("a,0,3600,2,2,1Gi,")
    target = tmp_path / "out.csv.gz"
    assert CliRunner().invoke(traces, [str(path), "--write", str(target)]).exit_code == 0
    assert gzip.decompress(target.read_bytes()).count(b"\n") == 3
    assert read_trace(target).jobs == read_trace(path).jobs


def test_command_lists_several_traces(path: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(samples.PHILLY)
    (tmp_path / "notes.txt").write_text("nothing")
    result = CliRunner().invoke(traces, [str(tmp_path)])
    assert [line.split()[:2] for line in result.output.splitlines()] == [
        ["FORMAT", "JOBS"],
        ["philly", "2"],
        ["strato", "2"],
    ]
    listed = json.loads(CliRunner().invoke(traces, [str(tmp_path), "-o", "json"]).output)
    assert [row["jobs"] for row in listed] == [2, 2]


def test_command_without_files_lists_formats() -> None:
    output = CliRunner().invoke(traces, []).output
    assert output.startswith("strato ")
    assert "google-2019" in output


def test_strict_reading_fails_with_all_problems(path: Path) -> None:
    result = CliRunner().invoke(traces, [str(path), "--strict"])
    assert result.exit_code != 0
    assert "line 4: run_time" in str(result.exception)
