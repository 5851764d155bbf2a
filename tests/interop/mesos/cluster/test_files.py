"""The bytes of sandboxes: what is in volumes is a task's, which means no good."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from strato.errors import NotFound
from strato.interop.mesos.cluster.files import SandboxFiles
from strato.interop.mesos.master.sandboxes import Folder, LogPlace, VolumePlace


class Directories:
    """Claims whose volumes are directories of a test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def directory(self, name: str) -> str | None:
        return str(self._directory) if name == "v" else None


class Logs:
    """A cluster with one pod that has a log, in pieces."""

    async def stream(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        if path != "/api/v1/namespaces/mesos/pods/p/log" or query != {"container": "c"}:
            raise NotFound("there is no such log")
        for piece in (b"ab", b"", b"cdefg", b"h"):
            yield piece


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A volume beside a secret, with everything in it that leads astray."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    volume = tmp_path / "volume"
    (volume / "below").mkdir(parents=True)
    (volume / "below" / "file").write_text("0123456789")
    (volume / "inside").symlink_to("below/file")
    (volume / "absolute").symlink_to(tmp_path / "secret")
    (volume / "relative").symlink_to("../secret")
    (volume / "elsewhere").symlink_to("../outside")
    (volume / "loop").symlink_to("loop")
    (volume / "process").symlink_to("/proc/self/environ")
    os.mkfifo(volume / "pipe")
    return volume


def _files(directory: Path) -> SandboxFiles:
    return SandboxFiles(cast(Any, Logs()), "mesos", cast(Any, Directories(directory)))


async def test_parts_of_files_are_read(directory: Path) -> None:
    files = _files(directory)
    for path in ("below/file", "inside", "below/../below/file"):
        assert await files.read(VolumePlace("v", path), 3, 4) == (10, b"3456")
    assert await files.read(VolumePlace("v", "inside"), 100, 4) == (10, b"")
    assert b"".join([chunk async for chunk in files.stream(VolumePlace("v", "inside"))]) == b"0123456789"


@pytest.mark.parametrize(
    "path", ["absolute", "relative", "elsewhere/file", "loop", "process", "pipe", "nothing", "../secret", "/etc/passwd",
             "below/file/x", "elsewhere"],
)  # fmt: skip
async def test_nothing_outside_of_a_volume_and_no_pipe_is_read(directory: Path, path: str) -> None:
    files = _files(directory)
    with pytest.raises(FileNotFoundError):
        async with asyncio.timeout(10):
            await files.read(VolumePlace("v", path), 0, 10)
    assert [chunk async for chunk in files.stream(VolumePlace("v", path))] == []


async def test_what_is_in_a_volume_is_listed_and_links_are_shown_as_such(directory: Path) -> None:
    os.mkdir(os.fsencode(directory) + b"/\xff")
    listed = await _files(directory).entries(VolumePlace("v", ""))
    assert {each.name: each.mode >> 12 for each in listed} == {
        "absolute": 0o12, "below": 0o4, "elsewhere": 0o12, "inside": 0o12, "loop": 0o12, "pipe": 0o1, "process": 0o12,
        "relative": 0o12, "�": 0o4,
    }  # fmt: skip
    with pytest.raises(FileNotFoundError):
        await _files(directory).entries(VolumePlace("v", "elsewhere"))
    with pytest.raises(FileNotFoundError):
        await _files(directory).entries(VolumePlace("other", ""))
    with pytest.raises(IsADirectoryError):
        await _files(directory).read(VolumePlace("v", "below"), 0, 1)


@pytest.mark.parametrize(("offset", "length"), [(0, 8), (0, 1), (1, 3), (2, 1), (6, 10), (8, 1), (99, 1), (3, 0)])
async def test_a_part_of_a_log_is_what_a_part_of_a_file_would_be(tmp_path: Path, offset: int, length: int) -> None:
    assert await _files(tmp_path).read(LogPlace("p", "c"), offset, length) == (8, b"abcdefgh"[offset : offset + length])


async def test_a_log_that_is_not_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await _files(tmp_path).read(LogPlace("other", "c"), 0, 1)
    made = Folder({"stdout": LogPlace("p", "c")})
    assert [(each.name, each.size) for each in await _files(tmp_path).entries(made)] == [("stdout", 8)]
