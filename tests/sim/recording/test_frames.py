"""Frames on disk: whole ones are read back, a torn last one is named and left out, damage is never read over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import UsageError
from strato.sim.recording import compression, frames
from strato.sim.recording import entries as e
from strato.sim.recording.frames import MAGIC, BadLog, Frame, Torn, to_frame
from strato.sim.recording.log import open_log
from strato.sim.recording.segments import LogFiles, files_of

BEGAN = e.Began(
    format=e.FORMAT,
    origin=e.SCHEDULER,
    continues=False,
    at=1.0,
    anonymised=False,
    strato="test",
    names=("volcano",),
    default_queue="default",
    shard_mode="none",
    shard_name="volcano",
    agent_shard="",
    flow_loaded=True,
    config="",
    base="",
)


def written(folder: Path, bodies: list[bytes]) -> Path:
    path = folder / "log"
    path.write_bytes(MAGIC + b"".join(to_frame(body, float(number)) for number, body in enumerate(bodies)))
    return path


def a_log(folder: Path, more: int = 3) -> Path:
    """Write a log of several frames."""
    files = LogFiles(folder / "log")
    files.add(e.encode(BEGAN), 1.0, begins=True)
    files.flush()
    for number in range(more):
        files.add(e.encode(e.Instant(2.0 + number)), 2.0 + number)
        files.flush()
    files.close()
    return folder / "log"


@given(st.lists(st.binary(max_size=3000), max_size=6))
def test_frames_are_read_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]) -> None:
    path = written(tmp_path_factory.mktemp("frames"), bodies)
    found = list(frames.scan(path))
    assert all(isinstance(one, Frame) for one in found)
    assert [frames.read(one) for one in found if isinstance(one, Frame)] == bodies


@given(st.data())
def test_a_log_cut_anywhere_is_read_up_to_the_last_whole_frame(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = a_log(tmp_path_factory.mktemp("cut"))
    whole = path.read_bytes()
    ends = [one.end for one in frames.scan(path) if isinstance(one, Frame)]
    at = data.draw(st.integers(1, len(whole) - 1))
    path.write_bytes(whole[:at])
    found = list(frames.scan(path))
    assert [one.end for one in found if isinstance(one, Frame)] == [end for end in ends if end <= at]
    is_clean = at in ends or at == len(MAGIC)
    assert any(isinstance(one, Torn) for one in found) == (not is_clean)


@given(st.data())
def test_a_changed_byte_is_an_error_or_a_torn_end_never_other_entries(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = a_log(tmp_path_factory.mktemp("damage"))
    whole = path.read_bytes()
    before = list(open_log(path).entries())
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[at] ^ data.draw(st.integers(1, 255))
    path.write_bytes(whole[:at] + bytes([flipped]) + whole[at + 1 :])
    try:
        after = list(open_log(path).entries())
    except BadLog:
        after = []
    assert after == before[: len(after)]


def test_torn_frame_is_named(tmp_path: Path) -> None:
    path = a_log(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    log = open_log(path)
    (torn,) = log.torn
    assert "torn" in str(torn)
    assert f"byte {torn.offset}" in str(torn)
    assert len(list(log.entries())) == 3


def test_a_killed_writer_leaves_whole_frames(tmp_path: Path) -> None:
    """The process writes frames without end and is killed; what it reported as written is there."""
    program = (
        "import sys; from pathlib import Path; from tests.sim.recording.test_frames import BEGAN\n"
        "from strato.sim.recording import entries as e; from strato.sim.recording.segments import LogFiles\n"
        "files = LogFiles(Path(sys.argv[1])); files.add(e.encode(BEGAN), 1.0, begins=True); n = 0\n"
        "while True:\n"
        "    n += 1; files.add(e.encode(e.Held(f'ns/{n}')), float(n)); files.flush(); print(n, flush=True)\n"
    )
    path = tmp_path / "log"
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=root) as writer:
        assert writer.stdout is not None
        noted = [int(writer.stdout.readline()) for _ in range(50)][-1]
        os.kill(writer.pid, signal.SIGKILL)
    held = [entry.key for entry in open_log(path).entries() if isinstance(entry, e.Held)]
    assert len(held) >= noted
    assert held == [f"ns/{n}" for n in range(1, len(held) + 1)]


HOSTILE = {
    "no log": b"apiVersion: v1\n",
    "nothing": b"",
    "a bomb": MAGIC + frames._HEAD.pack(b"SF", compression.ZLIB, 0, 10, 1 << 31, 0.0, 0, 0)[:-4],
    "entries of no kind": MAGIC + to_frame(b"\xdd\x00\x00\x00\x01\x93\xa1?\x00\xc0", 0.0),
    "no msgpack": MAGIC + to_frame(b"\xc1\xc1", 0.0),
    "deep nesting": MAGIC + to_frame(b"\xdd\x00\x00\x00\x01" + b"\x91" * 100_000, 0.0),
    "another format": MAGIC + to_frame(e.pack([e.encode(msgspec.structs.replace(BEGAN, format=99))]), 0.0),
    "no beginning": MAGIC + to_frame(e.pack([e.encode(e.Held("a/b"))]), 0.0),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_with_their_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(BadLog, match="log"):
        list(open_log(path).entries())


def test_more_than_was_announced_is_not_inflated() -> None:
    bomb = zlib.compress(bytes(50 << 20))
    with pytest.raises(ValueError, match="instead of 100"):
        compression.decompress(compression.ZLIB, bomb, 100)


def test_unknown_compression_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown method 9"):
        compression.decompress(9, b"", 0)


def test_files_are_never_written_twice_and_old_ones_go(tmp_path: Path) -> None:
    for _ in range(3):
        LogFiles(tmp_path / "log").close()
    assert [path.name for path in files_of(tmp_path / "log")] == ["log", "log.1", "log.2"]
    files = LogFiles(tmp_path / "log", keep=2)
    files.next_file()
    files.close()
    assert [path.name for path in files_of(tmp_path / "log")] == ["log.3", "log.4"]
    (tmp_path / "log.old").write_text("somebody's")
    assert len(files_of(tmp_path / "log")) == 2


def test_a_log_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        LogFiles(tmp_path / "no-such-folder" / "log")
