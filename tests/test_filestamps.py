"""What a stamp of a file tells, also where the clock that dates files stands still."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strato.filestamps import FileStamp


def kept(path: Path) -> None:
    """Nothing happens."""


def longer(path: Path) -> None:
    """It is written in place."""
    path.write_text("one, two")


def replaced(path: Path) -> None:
    """Another file of the same length takes its name, as editors and ConfigMaps do it."""
    other = path.with_name("other")
    other.write_text("two")
    other.replace(path)


def touched(path: Path) -> None:
    """The same is written again."""
    os.utime(path, ns=(0, 7))


@pytest.mark.parametrize(("deed", "is_told"), [(kept, False), (longer, True), (replaced, True), (touched, True)])
def test_a_file_written_again_has_another_stamp(tmp_path: Path, deed: Callable[[Path], None], is_told: bool) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    os.utime(path, ns=(0, 5))
    before = FileStamp.of(path)
    deed(path)
    if deed is not touched:
        os.utime(path, ns=(0, 5))
    assert (FileStamp.of(path) != before) is is_told


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    assert FileStamp.of(tmp_path / "file") is None
