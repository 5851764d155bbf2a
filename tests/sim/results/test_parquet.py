from __future__ import annotations

from pathlib import Path

import pytest

from strato.errors import StateError
from strato.sim.results.parquet import ParquetFiles
from strato.sim.results.record import Ending
from tests.sim.results.build import Ran, job, record

parquet = pytest.importorskip("pyarrow.parquet")


def test_runs_jobs_and_intervals_are_rows(tmp_path: Path) -> None:
    jobs = [job("a", queue="q", user="u"), job("never"), job("gainer")]
    made = record(
        jobs, [Ran(0, 0, 5, ending=Ending.EVICTED, gainer=2), Ran(2, 5, 9), Ran(0, 9, 20)], reasons={1: "too wide"}
    )
    with ParquetFiles(tmp_path) as files:
        for seed in (0, 1):
            files.add({"policy": "p", "variant": "", "seed": seed}, {"mean wait, s": 2.5}, made)
    tables = {name: parquet.read_table(tmp_path / f"{name}.parquet") for name in ("runs", "jobs", "intervals")}
    assert tables["runs"].to_pylist()[1] == {"policy": "p", "variant": "", "seed": 1, "mean wait, s": 2.5}
    rows = tables["jobs"].to_pylist()
    assert len(rows) == 6
    assert (rows[0]["job"], rows[0]["queue"], rows[0]["user"], rows[0]["cpu_request"]) == ("a", "q", "u", 1000)
    assert (rows[1]["start_seconds"], rows[1]["reason"]) == (None, "too wide")
    intervals = tables["intervals"].to_pylist()
    assert (intervals[0]["ending"], intervals[0]["evicted_for"], intervals[0]["node"]) == (
        "evicted",
        "gainer",
        "node-0",
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == ["intervals.parquet", "jobs.parquet", "runs.parquet"]


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with ParquetFiles(tmp_path / name) as files:
            files.add({"policy": "p", "seed": 0}, {"x": 1.0}, record([job("a")], [Ran(0, 0, 5)]))
    for name in ("runs", "jobs", "intervals"):
        one, two = ((tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("one", "two"))
        assert one == two


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        with ParquetFiles(tmp_path) as files:
            files.add({"policy": "p", "seed": 0}, {"x": 1.0}, record([job("a")], [Ran(0, 0, 5)]))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be made"), ParquetFiles(tmp_path / "file" / "x"):
        pass
