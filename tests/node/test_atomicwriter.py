"""Payload volumes: the files end up in the volume, whole, with the modes asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from strato.node.sandbox.atomicwriter import File, write_payload
from strato.node.sandbox.environment import ConfigProblem

BAD_PATHS = ["", "/etc/cron.d/x", "..", "../x", "a/../../x", "a/..", "..data/x", "..x", "a\0b", "n" * 256, "d/" * 2049]


@pytest.mark.parametrize("path", BAD_PATHS, ids=[repr(path[:12]) for path in BAD_PATHS])
def test_a_path_that_leads_out_of_the_volume_is_refused_before_anything_is_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigProblem, match="must be relative and stay in the volume"):
        write_payload(str(tmp_path / "volume"), {"fine": File(b"1"), path: File(b"2")})
    assert list(tmp_path.iterdir()) == []


def test_links_that_somebody_put_into_the_volume_are_not_written_through(tmp_path: Path) -> None:
    """As a plain process could, which runs as the node's user."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    write_payload(str(volume), {"d/file": File(b"1")})
    version = os.readlink(volume / "..data")
    os.unlink(volume / version / "d" / "file")
    os.rmdir(volume / version / "d")
    (volume / version / "d").symlink_to(outside)
    (volume / "..data_new").symlink_to(outside)
    write_payload(str(volume), {"d/file": File(b"2"), "d/more": File(b"3")})
    assert (volume / "d" / "file").read_bytes() == b"2"
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"file": "theirs"}


def test_a_link_in_place_of_the_volume_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "volume").symlink_to("outside")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        write_payload(str(tmp_path / "volume"), {"file": File(b"1")})
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_data_link_that_leads_elsewhere_removes_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "..data").symlink_to("../outside")
    write_payload(str(tmp_path / "volume"), {"file": File(b"1")})
    assert (tmp_path / "outside").is_dir()
    assert (tmp_path / "volume" / "file").read_bytes() == b"1"


def test_a_file_below_another_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblem, match="volume v cannot be written"):
        write_payload(str(tmp_path / "v"), {"a": File(b"1"), "a/b": File(b"2")})


def test_what_a_killed_writer_left_is_written_anew(tmp_path: Path) -> None:
    files = {"d/a": File(b"1")}
    write_payload(str(tmp_path / "v"), files)
    (tmp_path / "v" / "..data").unlink()
    assert write_payload(str(tmp_path / "v"), files)
    assert (tmp_path / "v" / "d" / "a").read_bytes() == b"1"


def test_modes_have_no_set_user_id_and_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_payload(str(tmp_path / "v"), {"d/deep/a": File(b"1", 0o4755), "b": File(b"2", 0o600)})
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE((tmp_path / "v" / name).stat().st_mode) for name in ("d", "d/deep", "d/deep/a", "b", "")
    }
    assert modes == {"d": 0o755, "d/deep": 0o755, "d/deep/a": 0o755, "b": 0o600, "": 0o755}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other groups")
def test_the_pods_group_may_read_all_files(tmp_path: Path) -> None:
    write_payload(str(tmp_path / "v"), {"d/a": File(b"1", 0o400)}, group=4321)
    found = (tmp_path / "v" / "d" / "a").stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (4321, 0o440)
    assert (tmp_path / "v" / "d").stat().st_gid == 4321
