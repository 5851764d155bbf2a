"""Images come from anywhere: whatever an archive or a layout says, its files end up in the image or it is refused."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import importlib.util
import io
import json
import lzma
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from strato.node.images import layers, rootwriter
from strato.node.images.store import ImageProblem, ImageStore

DIRECTORY, LINK, HARD, DEVICE = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE


def member(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size, made.mode = len(content), 0o755 if more.get("type") == DIRECTORY else 0o644
    for key, value in more.items():
        setattr(made, key, value)
    return made, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A machine with a secret and a store."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "secret").write_text("secret")
    return tmp_path


def imported(place: Path, data: bytes, **more: Any) -> Path:
    path = place / "image.tar"
    path.write_bytes(data)
    return Path(ImageStore(place / "node").import_image("i", path, **more).root)


def untouched(place: Path) -> bool:
    """Whether nothing of the machine was read into the store, written, linked or removed."""
    machine = place / "machine"
    names = sorted(path.name for path in machine.iterdir()) == ["secret"]
    return names and (machine / "secret").read_text() == "secret" and (machine / "secret").stat().st_nlink == 1


def links(place: Path) -> list[tuple[str, str]]:
    """Ways a link can lead to the machine: absolute, and relative from the image's root."""
    return [("absolute", str(place / "machine")), ("relative", os.path.relpath(place / "machine", place / "node/x/y"))]


ESCAPES = {
    "dots": lambda _: [member("../../../machine/new", b"x")],
    "dots inside": lambda _: [member("a/../../../../machine/new", b"x")],
    "absolute": lambda out: [member(f"{out}/new", b"x")],
    "file through a link": lambda out: [member("l", type=LINK, linkname=out), member("l/new", b"x")],
    "file over a link": lambda out: [member("l", type=LINK, linkname=f"{out}/secret"), member("l", b"x")],
    "directory over a link": lambda out: [
        member("l", type=LINK, linkname=out),
        member("l", type=DIRECTORY, mode=0o777),
        member("l/new", b"x"),
    ],
    "links through links": lambda out: [
        member("a", type=LINK, linkname=out),
        member("b", type=LINK, linkname="a"),
        member("c", type=LINK, linkname="b/secret"),
        member("c", b"x"),
        member("b/new", b"x"),
    ],
    "hard link to the machine": lambda out: [member("h", type=HARD, linkname=f"{out}/secret")],
    "hard link with dots": lambda out: [member("h", type=HARD, linkname=f"../../../../../../../..{out}/secret")],
    "hard link through a link": lambda out: [
        member("l", type=LINK, linkname=out),
        member("h", type=HARD, linkname="l/secret"),
    ],
    "hard link to a link, written through": lambda out: [
        member("l", type=LINK, linkname=f"{out}/secret"),
        member("h", type=HARD, linkname="l"),
        member("h", b"x"),
    ],
    "directory mode through a link": lambda out: [
        member("d", type=DIRECTORY, mode=0o700),
        member("d", type=LINK, linkname=out),
    ],
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_nothing_of_the_machine_is_written_linked_or_removed(place: Path, escape: Any) -> None:
    mode = (place / "machine").stat().st_mode
    for _, out in links(place):
        with contextlib.suppress(ImageProblem):
            root = imported(place, archive(*escape(out)))
            texts = [path.read_text() for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
            assert "secret" not in texts
        assert untouched(place)
        assert (place / "machine").stat().st_mode == mode


def test_the_last_of_equal_names_stays_whatever_it_is(place: Path) -> None:
    root = imported(
        place,
        archive(
            member("a", b"file"),
            member("b", b"1"),
            member("b", type=DIRECTORY),
            member("b/deep/file", b"2"),
            member("a", b"again"),
            member("d/x", b"3"),
            member("d", b"4"),
        ),
    )
    assert (root / "a").read_text() == "again"
    assert (root / "b" / "deep" / "file").read_text() == "2"
    assert (root / "d").read_text() == "4"


def test_modes_have_no_set_user_id_and_times_and_links_are_kept(place: Path) -> None:
    root = imported(
        place,
        archive(
            member("bin", type=DIRECTORY, mode=0o555, mtime=5),
            member("bin/su", b"x", mode=0o6777, mtime=7),
            member("tmp", type=DIRECTORY, mode=0o1777),
            member("open", type=DIRECTORY, mode=0o777),
            member("sh", type=LINK, linkname="bin/su"),
            member("same", type=HARD, linkname="bin/su"),
            member("null", type=DEVICE),
            member("pipe", type=tarfile.FIFOTYPE),
        ),
    )
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*")}
    assert modes == {"bin": 0o555, "su": 0o755, "tmp": 0o1777, "open": 0o755, "sh": 0o777, "same": 0o755}
    assert (root / "bin").stat().st_mtime == 5
    assert (root / "same").samefile(root / "bin" / "su")
    assert os.readlink(root / "sh") == "bin/su"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_are_the_archives_numbers_and_not_this_machines_names(place: Path) -> None:
    root = imported(place, archive(member("f", b"x", uid=1234, gid=4321, uname="root", gname="root")))
    assert ((root / "f").stat().st_uid, (root / "f").stat().st_gid) == (1234, 4321)
    with pytest.raises(ImageProblem, match="which nobody can be"):
        imported(place, archive(member("f", b"x", uid=-1)))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_compressed_archives_are_unpacked_and_bombs_are_not(place: Path, compress: Any) -> None:
    data = compress(archive(member("zeros", bytes(3 << 20))))
    assert (imported(place, data) / "zeros").stat().st_size == 3 << 20
    with pytest.raises(ImageProblem, match="larger than 1000000 bytes; see --max-size"):
        imported(place, data, max_bytes=1_000_000)


def test_a_sparse_file_counts_with_its_whole_size(place: Path) -> None:
    """It would be a small archive of a file that fills the disk."""
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "s",
        "GNU.sparse.realsize": str(1 << 50),
    }
    data = b"0\n".ljust(512, b"\0")
    with pytest.raises(ImageProblem, match="makes the image larger"):
        imported(place, archive(member("s", data, pax_headers=headers)))


def test_headers_are_not_believed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tarfile.TarInfo("././@PaxHeader")
    huge.type, huge.size = tarfile.XHDTYPE, 1 << 40
    with pytest.raises(ImageProblem, match="is not a tar archive"):
        imported(place, huge.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    negative = tarfile.TarInfo("n")
    negative.size = -512  # the next header would be this one again, for ever
    with pytest.raises(ImageProblem, match=r"-512 bytes|is not a tar archive"):
        imported(place, negative.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    monkeypatch.setattr(layers, "_SLACK_BYTES", 1 << 20)
    padded = archive(*(member(f"d{number}", type=DIRECTORY) for number in range(3000)))
    with pytest.raises(ImageProblem, match="larger than an image may be"):
        imported(place, gzip.compress(padded), max_bytes=1000)
    assert ImageStore(place / "node").find("i") is None


def test_too_many_entries_are_refused(place: Path) -> None:
    budget = rootwriter.Budget(max_entries=10)
    data = archive(*(member(f"p{number}", type=tarfile.FIFOTYPE) for number in range(11)))
    with pytest.raises(rootwriter.BadImage, match="more than 10 entries"):
        layers.unpack(io.BytesIO(data), str(place / "root"), budget)


def test_a_tree_deeper_than_can_be_walked_is_refused_in_one_line(place: Path) -> None:
    with pytest.raises(ImageProblem, match="too long"):
        imported(place, archive(member("d/" * 1000 + "f", b"x")))


def test_an_import_that_was_refused_leaves_the_former_image(place: Path) -> None:
    imported(place, archive(member("old", b"1")))
    with pytest.raises(ImageProblem):
        imported(place, archive(member("new", b"1"), member("../out", b"x")))
    store = ImageStore(place / "node")
    found = store.find("i")
    assert found is not None
    assert os.listdir(found.root) == ["old"]
    assert sorted(os.listdir(place / "node" / "images")) == [".lock", ".roots", "i%3Alatest"]


def test_a_copied_directory_has_no_set_user_id_either(place: Path) -> None:
    source = place / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "su").write_text("x")
    (source / "bin" / "su").chmod(0o6755)
    (source / "out").symlink_to(place / "machine")
    root = Path(ImageStore(place / "node").import_image("i", source).root)
    assert stat.S_IMODE((root / "bin" / "su").stat().st_mode) == 0o755
    assert os.readlink(root / "out") == str(place / "machine")
    assert stat.S_IMODE((place / "node" / "images").stat().st_mode) == 0o700


# Layouts


class Layout:
    """An OCI image layout under construction."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "blobs" / "sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data: bytes, **more: Any) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (self.directory / "blobs" / "sha256" / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data), **more}

    def document(self, body: Any, **more: Any) -> dict[str, Any]:
        return self.blob(json.dumps(body).encode(), **more)

    def image(self, *tars: bytes) -> dict[str, Any]:
        digests = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
        config = self.document({"rootfs": {"type": "layers", "diff_ids": digests}})
        return {"schemaVersion": 2, "config": config, "layers": [self.blob(gzip.compress(tar)) for tar in tars]}

    def index(self, *manifests: dict[str, Any]) -> Path:
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": list(manifests)}))
        return self.directory


@pytest.fixture
def layout(place: Path) -> Layout:
    return Layout(place / "layout")


def root_of(place: Path, source: Path) -> Path:
    return Path(ImageStore(place / "node").import_image("i", source).root)


def packed(place: Path, directory: Path) -> Path:
    with tarfile.open(place / "layout.tar", "w") as tar:
        for path in sorted(directory.iterdir()):
            tar.add(path, path.name)
    return place / "layout.tar"


@pytest.mark.parametrize("is_tar", [False, True], ids=["directory", "tar"])
def test_layers_of_a_layout_lie_over_one_another(place: Path, layout: Layout, is_tar: bool) -> None:
    lower = archive(
        member("etc/old", b"1"), member("etc/kept", b"2"), member("opaque/gone", b"3"), member("opaque/deep/gone", b"4")
    )
    upper = archive(
        member("etc/.wh.old"), member("opaque/own", b"5"), member("opaque/.wh..wh..opq"), member("etc/.wh.never")
    )
    elsewhere = layout.document({"layers": []}, platform={"os": "linux", "architecture": "other"})
    directory = layout.index(layout.document(layout.image(lower, upper)), elsewhere)
    root = root_of(place, packed(place, directory) if is_tar else directory)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
        "etc",
        "etc/kept",
        "opaque",
        "opaque/own",
    ]


@pytest.mark.parametrize("name", ["etc/.wh...", "etc/.wh..", ".wh..", "a/.wh.", ".wh..."])
def test_a_whiteout_does_not_take_away_what_is_above(place: Path, layout: Layout, name: str) -> None:
    tar = archive(member("etc/kept", b"1"), member(name))
    with pytest.raises(ImageProblem, match="outside of its directory"):
        root_of(place, layout.index(layout.document(layout.image(tar))))
    assert untouched(place)


def test_a_whiteout_does_not_reach_the_machine_through_a_link(place: Path, layout: Layout) -> None:
    for _, out in links(place):
        lower = archive(member("l", type=LINK, linkname=out))
        upper = archive(member("l/.wh.secret"), member("l/.wh..wh..opq"))
        root_of(place, layout.index(layout.document(layout.image(lower, upper))))
        assert untouched(place)


def test_a_blob_that_is_not_what_its_digest_says_is_refused(place: Path, layout: Layout) -> None:
    image = layout.image(archive(member("f", b"1")))
    directory = layout.index(layout.document(image))
    path = directory / "blobs" / "sha256" / image["layers"][0]["digest"].removeprefix("sha256:")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ImageProblem, match="another digest"):
        root_of(place, directory)
    path.write_bytes(whole + b"x")
    with pytest.raises(ImageProblem, match="bytes its descriptor says"):
        root_of(place, directory)
    path.unlink()
    path.symlink_to(place / "machine" / "secret")
    with pytest.raises(ImageProblem, match="is missing"):
        root_of(place, directory)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ImageProblem, match="is missing"):
        root_of(place, directory)


@pytest.mark.parametrize(
    "digest", ["sha256:../../../../machine/secret", "md5:00", "sha256:" + "A" * 64, None, 5, "sha256:" + "0" * 64]
)
def test_a_digest_is_no_path(place: Path, layout: Layout, digest: Any) -> None:
    with pytest.raises(ImageProblem, match=r"is no sha256 digest|is missing"):
        root_of(place, layout.index({"digest": digest, "size": 6}))


@pytest.mark.parametrize(
    ("index", "want"),
    [
        ("[" * 100_000, "is not JSON"),
        ("5", "is no JSON object"),
        ("{}", "is no list of descriptors"),
        ('{"manifests": [5]}', "is no list of descriptors"),
        ('{"manifests": []}', "names 0 images"),
    ],
    ids=["nested", "number", "empty", "no descriptor", "no image"],
)
def test_an_index_that_says_nothing_is_told(place: Path, layout: Layout, index: str, want: str) -> None:
    (layout.directory / "index.json").write_text(index)
    with pytest.raises(ImageProblem, match=want):
        root_of(place, layout.directory)


def test_indexes_of_indexes_end(place: Path, layout: Layout) -> None:
    inner = layout.document(layout.image(archive(member("f", b"1"))))
    for _ in range(3):
        inner = layout.document({"manifests": [inner]})
    assert os.listdir(root_of(place, layout.index(inner))) == ["f"]
    for _ in range(3):
        inner = layout.document({"manifests": [inner]})
    with pytest.raises(ImageProblem, match="without end"):
        root_of(place, layout.index(inner))


def test_zstd_says_what_to_do(place: Path) -> None:
    with pytest.raises(ImageProblem, match="recompress it with gzip"):
        imported(place, b"\x28\xb5\x2f\xfd" + bytes(100))


# What `docker save` wrote


def saved(*layers: bytes, **more: Any) -> bytes:
    digests = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in layers]
    config = json.dumps({"config": {"Cmd": ["/f"]}, "rootfs": {"diff_ids": digests}}).encode()
    manifest = [
        {"Config": "c.json", "RepoTags": ["a:1"], "Layers": [f"{n}/layer.tar" for n in range(len(layers))]} | more
    ]
    parts = [member(f"{number}/layer.tar", tar) for number, tar in enumerate(layers)]
    return archive(*parts, member("c.json", config), member("manifest.json", json.dumps(manifest).encode()))


def test_a_docker_archive_is_imported_with_what_it_says(place: Path) -> None:
    (place / "image.tar").write_bytes(saved(archive(member("f", b"1"), member("g", b"2")), archive(member(".wh.g"))))
    found = ImageStore(place / "node").import_image("i", place / "image.tar")
    assert os.listdir(found.root) == ["f"]
    assert found.config.command == ("/f",)


LINKED = b'[{"Config": "0", "Layers": []}]'
BAD_DOCKER = [
    (lambda tar: saved(tar, Layers=["../../machine/secret"]), "cannot be read"),
    (lambda tar: saved(tar, Layers=[]), "does not tell the digests"),
    (lambda tar: saved(tar, Config="none"), "cannot be read"),
    (lambda tar: archive(member("manifest.json", b"[]")), "one image at a time"),
    (lambda tar: archive(member("manifest.json", b"{")), "does not name the layers"),
    (lambda tar: archive(member("0", type=LINK, linkname="/"), member("manifest.json", LINKED)), "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "why"), BAD_DOCKER)
def test_a_docker_archive_that_is_not_one_is_refused(place: Path, made: Any, why: str) -> None:
    (place / "image.tar").write_bytes(made(archive(member("f", b"1"))))
    with pytest.raises(ImageProblem, match=why):
        ImageStore(place / "node").import_image("i", place / "image.tar")
    assert untouched(place)


def test_zstd_is_read_where_there_is_a_library_and_named_where_there_is_none(place: Path) -> None:
    """The frame holds the archive as it is: a format's header, a window, one raw block."""
    tar = archive(member("f", b"1"))
    length = len(tar)
    blocks = b"".join(
        ((len(tar[at : at + 65536]) << 3) | (at + 65536 >= length)).to_bytes(3, "little") + tar[at : at + 65536]
        for at in range(0, length, 65536)
    )
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + blocks
    if any(importlib.util.find_spec(name) for name in ("compression", "backports")):
        assert (imported(place, frame) / "f").read_text() == "1"
        return
    with pytest.raises(ImageProblem, match=r"pip install 'strato\[zstd\]'"):
        imported(place, frame)
