from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import StateError
from strato.sim.results.record import Ending, RunRecord
from strato.sim.results.storing import decode_run, encode_run, read_run, write_run
from tests.sim.results.build import Ran, job, nodes, record

JOBS = [job("a"), job("b", cpu="2")]


def made() -> RunRecord:
    ran = [Ran(0, 1.5, 20, ending=Ending.EVICTED, gainer=1), Ran(1, 21, 30, node=1), Ran(0, 30, None)]
    return record(JOBS, ran, nodes(2), end=40.0, reasons={1: "why"})


def same(one: RunRecord, other: RunRecord | None) -> bool:
    return other is not None and encode_run(one, "x") == encode_run(other, "x") and one.jobs == other.jobs


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    write_run(path, made(), "digest")
    found = read_run(path, JOBS, "digest")
    assert same(made(), found)
    assert found is not None
    assert found.reasons == {1: "why"}
    assert found.interval_begin.dtype == np.float64
    assert [one.name for one in tmp_path.iterdir()] == ["a.run"], "no draft is left"


def test_a_run_of_other_inputs_is_none(tmp_path: Path) -> None:
    write_run(tmp_path / "a.run", made(), "digest")
    assert read_run(tmp_path / "a.run", JOBS, "other") is None
    assert read_run(tmp_path / "a.run", JOBS[:1], "digest") is None
    assert read_run(tmp_path / "absent.run", JOBS, "digest") is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_run_is_none(place: int, change: int) -> None:
    data = bytearray(encode_run(made(), "digest"))
    assert decode_run(bytes(data[: place % len(data)]), JOBS, "digest") is None
    data[place % len(data)] ^= change
    found = decode_run(bytes(data), JOBS, "digest")
    assert found is None or same(made(), found)


def test_rows_out_of_range_are_none() -> None:
    wrong = made()
    wrong.interval_node[0] = 7
    assert decode_run(encode_run(wrong, "digest"), JOBS, "digest") is None


def test_other_bytes_are_none() -> None:
    assert decode_run(zlib.compress(b"\xc1"), JOBS, "digest") is None
    assert decode_run(b"", JOBS, "digest") is None


def test_a_run_that_cannot_be_written_leaves_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "absent"
    with pytest.raises(StateError, match=r"cannot be written: No such file.*--resume"):
        write_run(folder / "a.run", made(), "digest")
