"""Files as they may be: compressed, in archives, cut off, bombs, without ends of lines, of other encodings."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading
import tracemalloc
from pathlib import Path

import pytest

from strato.errors import UsageError
from strato.sim.traces import read_trace, trace_text
from strato.sim.traces.input import LONGEST_LINE_BYTES, InputFile
from strato.sim.traces.oddities import Oddities
from tests.sim.traces import samples

CSV = "submit,run_time\n" + "".join(f"{at},60\n" for at in range(5))


def test_gzip_of_several_members_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    half = len(CSV) // 2
    path.write_bytes(gzip.compress(CSV[:half].encode()) + gzip.compress(CSV[half:].encode()))
    assert len(read_trace(path).jobs) == 5


def test_file_in_an_archive_is_read_and_others_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("README.md", "# what this is\n"), ("data/pai_task_table.csv", samples.PAI_TASKS)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    trace = read_trace(path)
    assert (trace.format, len(trace.jobs)) == ("alibaba-gpu-2020", 2)
    assert trace.problems[0].where.startswith(f"{path}(data/pai_task_table.csv): line 4")


def test_folder_of_parts_is_one_trace(tmp_path: Path) -> None:
    folder = tmp_path / "task_events"
    folder.mkdir()
    lines = samples.GOOGLE_2011.splitlines(keepends=True)
    (folder / "part-00000-of-00002.csv.gz").write_bytes(gzip.compress("".join(lines[:6]).encode()))
    (folder / "part-00001-of-00002.csv.gz").write_bytes(gzip.compress("".join(lines[6:]).encode()))
    (tmp_path / "machine_events.csv").write_text(samples.GOOGLE_2011_MACHINES)
    (tmp_path / "README").write_text("text\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    trace = read_trace(tmp_path)
    assert (len(trace.jobs), trace.nodes[0].count) == (2, 2)


def test_several_traces_in_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text(CSV)
    with pytest.raises(UsageError, match="each of these is a trace of its own"):
        read_trace(tmp_path)
    (tmp_path / "b.csv").write_text(samples.PHILLY)
    with pytest.raises(UsageError, match="traces of several formats"):
        read_trace(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no file"):
        read_trace(tmp_path / "empty")


def test_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"submit,run_time\n")
        for _ in range(80):
            file.write(b"\n" * (1 << 20))
    with pytest.raises(UsageError, match="expands to more than 500 times its size"):
        read_trace(path)


def test_short_document_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    tracemalloc.start()
    try:
        assert InputFile(tmp_path / "a.json").document() == b"[]"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_line_without_end_is_named_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"submit,run_time\n1,2\n" + b"9" * (3 * LONGEST_LINE_BYTES) + b"\n2,3\n")
    trace = read_trace(path)
    assert len(trace.jobs) == 2
    assert trace.problems[0].where == f"{path}: line 3"


def test_line_of_another_encoding_is_named_and_numbers_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [b"%d,1\n" % at for at in range(20_000)]
    rows[15_000] = b"\xff\xfe,1\n"
    rows[15_001] = b"x,1\n"
    path.write_bytes(b"submit,run_time\n" + b"".join(rows))
    trace = read_trace(path)
    assert [problem.where for problem in trace.problems] == [f"{path}: line 15002", f"{path}: line 15003: submit"]
    assert (len(trace.jobs), trace.skipped) == (19_998, 2)


@pytest.mark.parametrize("cut", [40, 200])
def test_gzip_that_is_cut_off_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress("".join([CSV, *(f"{os.urandom(8).hex()},1\n" for _ in range(100))]).encode())[:-cut])
    with pytest.raises(UsageError, match="is not whole gzip"):
        read_trace(path)


def test_pipe_is_read_however_slowly_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def feed() -> None:
        with path.open("wb", buffering=0) as pipe:
            for character in gzip.compress(CSV.encode()):
                pipe.write(bytes([character]))

    thread = threading.Thread(target=feed)
    thread.start()
    assert len(read_trace(path).jobs) == 5
    thread.join()


def test_quoted_fields_may_hold_commas_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('submit,run_time,user\n1,2,"a,\nb"\n2,3,c\n"never closed,1\n')
    trace = read_trace(path)
    assert [job.user for job in trace.jobs] == ["a,\nb", "c"]
    assert trace.skipped == 1


def test_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    assert len(read_trace(path).jobs) == 5
    assert trace_text(path) == CSV


def test_parquet_is_read_as_a_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "tasks.parquet"
    table = pyarrow.table(
        {
            "id": [1, 2, 3],
            "submission_time": pyarrow.array([1_656_604_920_000, 1_656_604_921_500, None], pyarrow.timestamp("ms")),
            "duration": [1000, 2000, 5],
            "cpu_count": [16, 8, 1],
            "mem_capacity": [100_000, 512, 1],
        }
    )
    parquet.write_table(table, path)
    trace = read_trace(path)
    first, second = trace.jobs
    assert (trace.format, second.submit_seconds, second.requests["cpu"]) == ("lisa", 1.5, "8")
    assert first.run_seconds == 1.0
    assert trace.reasons == {"odd submission_time": 1}
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="is not whole Parquet"):
        read_trace(path)


def test_reasons_and_problems_are_bounded() -> None:
    odd = Oddities(strict=False)
    for number in range(10_000):
        odd.skip(f"reason {number}")
        odd.name("f", number + 1, "", "x" * 10)
    assert odd.skipped == 10_000
    assert len(odd.reasons) == 51
    assert len(odd.problems) == 101
    assert odd.problems[-1].message == "and 9900 more problems"


def test_input_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        InputFile(tmp_path / "none").document()
