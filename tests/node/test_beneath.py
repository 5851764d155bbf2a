"""Paths that pods have a hand in: nothing outside is reached, by the kernel's resolution or by ours in steps."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from strato.node import beneath
from strato.node.beneath import Scope


@pytest.fixture(params=[True, False], ids=["openat2", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Resolve as new kernels do, then as on one that lacks the call."""
    if request.param and not beneath._openat2_works():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(beneath, "_works", request.param)
    return bool(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[int]:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "file").write_text("x")
    (outside / "secret").mkdir(parents=True)
    for name, target in {
        "near": "a/b",
        "absolute": str(outside),
        "a/up": "../..",
        "a/back": "..",
        "self": "self",
        "dangling": "not/there",
        "rooted": "/a/b",
        "fd": "/proc/self/fd/0",
    }.items():
        (inside / name).symlink_to(target)
    descriptor = os.open(inside, os.O_PATH)
    yield descriptor
    os.close(descriptor)


def name_of(descriptor: int, tree: int) -> str:
    found, top = (os.readlink(f"/proc/self/fd/{fd}") for fd in (descriptor, tree))
    os.close(descriptor)
    assert found == top or found.startswith(top + "/"), found
    return found[len(top) + 1 :]


def outcome(tree: int, path: str, scope: Scope, *, links: bool = True) -> str:
    try:
        return name_of(beneath.open_at(tree, path, scope=scope, links=links), tree)
    except OSError as err:
        return errno.errorcode[err.errno or 0]


RESOLUTIONS = [
    ("a/file", "a/file", "a/file"),
    ("near", "a/b", "a/b"),
    ("near/../file", "a/file", "a/file"),
    ("a/..", "", ""),
    ("a/back", "", ""),
    ("..", "EXDEV", ""),
    ("../out/secret", "EXDEV", "ENOENT"),
    ("a/up", "EXDEV", ""),
    ("a/up/out", "EXDEV", "ENOENT"),
    ("absolute", "EXDEV", "ENOENT"),
    ("absolute/secret", "EXDEV", "ENOENT"),
    ("rooted", "EXDEV", "a/b"),
    ("/a/b", "EXDEV", "a/b"),
    ("self", "ELOOP", "ELOOP"),
    ("dangling", "ENOENT", "ENOENT"),
    ("a/file/", "ENOTDIR", "ENOTDIR"),
    ("a/file/..", "ENOTDIR", "ENOTDIR"),
    ("", "ENOENT", "ENOENT"),
    ("a\0b", "EINVAL", "EINVAL"),
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("path", "strict", "rooted"), RESOLUTIONS, ids=[repr(path) for path, *_ in RESOLUTIONS])
def test_a_path_is_resolved_inside_or_refused(tree: int, path: str, strict: str, rooted: str) -> None:
    assert outcome(tree, path, Scope.BENEATH) == strict
    assert outcome(tree, path, Scope.IN_ROOT) == rooted


@pytest.mark.usefixtures("way")
def test_links_are_refused_where_none_may_be(tree: int) -> None:
    assert outcome(tree, "near/x", Scope.BENEATH, links=False) == "ELOOP"
    assert outcome(tree, "a/b", Scope.BENEATH, links=False) == "a/b"


@pytest.mark.usefixtures("way")
def test_a_link_into_proc_does_not_lead_to_an_open_descriptor() -> None:
    root = os.open("/", os.O_PATH)
    try:
        with pytest.raises(OSError, match=r"symbolic links"):
            os.close(beneath.open_at(root, f"/proc/self/fd/{root}/etc", scope=Scope.IN_ROOT))
    finally:
        os.close(root)


@pytest.mark.usefixtures("way")
def test_missing_directories_are_made_inside_only(tree: int, tmp_path: Path) -> None:
    assert name_of(beneath.make_directories(tree, "near/new/deep"), tree) == "a/b/new/deep"
    for path in ("absolute/new", "a/up/new", "../new", "/new"):
        with pytest.raises(OSError, match="cross-device"):
            beneath.make_directories(tree, path)
    assert sorted(os.listdir(tmp_path / "out")) == ["secret"]
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.usefixtures("way")
def test_mount_points_follow_the_images_links_inside_its_root(tree: int, tmp_path: Path) -> None:
    assert name_of(beneath.make_mount_point(tree, "/absolute/point", is_directory=False), tree).endswith("out/point")
    assert name_of(beneath.make_mount_point(tree, "/dangling/x", is_directory=True), tree) == "not/there/x"
    assert name_of(beneath.make_mount_point(tree, "/../../etc", is_directory=True), tree) == "etc"
    assert (tmp_path / "in" / "not" / "there" / "x").is_dir()
    assert sorted(os.listdir(tmp_path / "out")) == ["secret"]


def test_what_is_missing_of_a_path_is_known(tree: int) -> None:
    assert beneath.locate(tree, "/rooted/../new/x") == (["a"], ["new", "x"])
    assert beneath.locate(tree, "/near") == (["a", "b"], [])


def test_a_resolution_in_steps_holds_a_bounded_number_of_directories(tree: int) -> None:
    with pytest.raises(OSError, match="too long"):
        beneath.make_directories(tree, "/".join(["a"] * 1000))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    assert beneath.read_regular(str(tmp_path / "file"), 4) == b"0123"
    assert beneath.read_regular(str(tmp_path / "file"), 4, from_end=True) == b"6789"
    for name in ("pipe", "link", "none", ""):
        assert beneath.read_regular(str(tmp_path / name), 4) == b""


@pytest.mark.usefixtures("way")
def test_a_working_directory_is_made_and_never_one_behind_a_descriptor(tmp_path: Path) -> None:
    with beneath.opened(str(tmp_path)) as held:
        before = os.getcwd()
        try:
            beneath.change_directory(str(tmp_path / "new" / "deep"))
            assert Path.cwd() == tmp_path / "new" / "deep"
            with pytest.raises(OSError, match=r"symbolic links"):
                beneath.change_directory(f"/proc/self/fd/{held}/x")
        finally:
            os.chdir(before)
    assert sorted(os.listdir(tmp_path)) == ["new"]
