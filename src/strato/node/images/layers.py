"""Unpack tar archives: a whole root file system, or the layers of an image, one over the other."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import importlib
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO, cast

from strato.errors import one_line
from strato.node.images.rootwriter import BadImage, Budget, EntryAttributes, RootWriter, clean

_MAX_READ_BYTES = 4 << 20
"""Most bytes of one read, so that an archive with false sizes in its headers cannot make us read all at once."""
_SLACK_BYTES = 1 << 30
"""Most bytes of an archive's headers and padding."""
_WHITEOUT, _OPAQUE, _RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
_COMPRESSIONS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_ZSTD = b"\x28\xb5\x2f\xfd"
_BROKEN = (tarfile.TarError, EOFError, ValueError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


def unpack(source: BinaryIO, directory: str, budget: Budget, *, layer: bool = False) -> str:
    """Unpack an archive, compressed or not, over the content of a directory; return its digest, decompressed.

    Args:
        source: The archive, at its beginning.
        directory: Made if missing.
        budget: The rest of what the image may unpack; reduced.
        layer: Whether names that begin with ``.wh.`` are whiteouts, which remove entries of earlier layers.

    Raises:
        BadImage: The archive cannot be read, leads out of the directory, or is too large.
    """
    try:
        with RootWriter(directory, budget) as writer:
            content = _Bounded(source, budget)
            with tarfile.open(fileobj=cast("IO[bytes]", content), mode="r:") as archive:
                _write_all(archive, writer, is_layer=layer)
            writer.close_directories()
            return content.digest()
    except OverflowError as err:
        raise BadImage(f"an entry has a number that is out of range: {err}") from err
    except _BROKEN as err:
        raise BadImage(f"it is not a tar archive that can be read: {one_line(err)}") from err
    except OSError as err:
        if err.errno is None:  # raised by a decompressor
            raise BadImage(f"it is not a tar archive that can be read: {one_line(err)}") from err
        raise


def _write_all(archive: tarfile.TarFile, writer: RootWriter, *, is_layer: bool) -> None:
    own: set[str] = set()
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]  # documented, not in the stubs; else it remembers them all
        if member.size < 0:  # tarfile would seek back and read this header again, for ever
            raise BadImage(f"{member.name!r} has {member.size} bytes")
        parts = clean(member.name)
        if is_layer and parts and parts[-1].startswith(_WHITEOUT):
            _take_away(parts, writer, own)
            continue
        _write(archive, member, writer)
        if is_layer:
            own.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _take_away(parts: list[str], writer: RootWriter, own: set[str]) -> None:
    """Apply a whiteout: remove one entry, or all entries of earlier layers in a directory."""
    above, name = "/".join(parts[:-1]), parts[-1]
    if name == _OPAQUE:
        for found in writer.names_in(above):
            path = f"{above}/{found}" if above else found
            if path not in own:
                writer.remove(path)
    elif not name.startswith(_RESERVED):
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise BadImage(f"{'/'.join(parts)!r} takes away what is outside of its directory")
        writer.remove("/".join([*parts[:-1], hidden]))


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, writer: RootWriter) -> None:
    attributes = EntryAttributes(member.mode, member.uid, member.gid, max(0.0, float(member.mtime)))
    if member.isdir():
        writer.make_directory(member.name, attributes)
    elif member.issym():
        writer.make_link(member.name, member.linkname, attributes)
    elif member.islnk():
        writer.make_hard_link(member.name, member.linkname)
    elif member.isreg():
        content = archive.extractfile(member)
        assert content is not None  # it is a regular file
        with content:
            writer.write_file(member.name, cast("BinaryIO", content), member.size, attributes)
    else:  # devices, pipes and sockets have no content; every container has its own
        writer.budget.take(member.name, 0)


class _Bounded:
    """A decompressed archive whose headers and padding are bounded too, because sizes in it may be false."""

    def __init__(self, source: BinaryIO, budget: Budget) -> None:
        head = source.read(6)
        source.seek(0)
        opener = (
            _zstd()
            if head.startswith(_ZSTD)
            else next((o for magic, o in _COMPRESSIONS if head.startswith(magic)), None)
        )
        self._file = cast("BinaryIO", opener(source)) if opener is not None else source
        self._limit = budget.max_bytes - budget.used_bytes + _SLACK_BYTES
        self._hash = hashlib.sha256()
        self._hashed_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most `_MAX_READ_BYTES`."""
        if size < 0 or size > _MAX_READ_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        data = self._file.read(size)
        position = self._file.tell()
        self._check(position)
        if position > self._hashed_bytes:
            self._hash.update(data[self._hashed_bytes - position :])
            self._hashed_bytes = position
        return data

    def seek(self, position: int) -> int:
        """Move forward to a position, by reading all before it."""
        self._check(position)
        self._file.seek(min(position, self._hashed_bytes))
        while self._file.tell() < position and self.read(min(position - self._file.tell(), _MAX_READ_BYTES)):
            pass
        return self._file.tell()

    def digest(self) -> str:
        """Read to the end and return the digest of all of it."""
        self._file.seek(self._hashed_bytes)
        while self.read(_MAX_READ_BYTES):
            pass
        return f"sha256:{self._hash.hexdigest()}"

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise BadImage("the archive is larger than an image may be; see --max-size")


def _zstd() -> Callable[[BinaryIO], IO[bytes]]:
    """Return the opener of zstd archives: the standard library's from Python 3.14 on, else a package's."""
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            return cast("Callable[[BinaryIO], IO[bytes]]", importlib.import_module(name).open)
    raise BadImage("it is compressed with zstd, which needs: pip install 'strato[zstd]'; or recompress it with gzip")


def link_tree(source: int, target: int, budget: Budget) -> None:
    """Link all files of a tree that `unpack` has written into another, empty tree, without copying them.

    A later change of the target tree does not affect the source, because `RootWriter` replaces files and never writes
    into existing ones.

    Args:
        source: Descriptor of the source's directory.
        target: Descriptor of the target's directory.
        budget: Counts the links.
    """
    with os.scandir(source) as entries:
        for entry in entries:
            budget.link()
            if not entry.is_dir(follow_symlinks=False):
                os.link(entry.name, entry.name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
                continue
            os.mkdir(entry.name, 0o700, dir_fd=target)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            with _opened(entry.name, flags, source) as below, _opened(entry.name, flags, target) as made:
                link_tree(below, made, budget)
    found = os.fstat(source)
    os.fchown(target, found.st_uid, found.st_gid)
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_mtime_ns, found.st_mtime_ns))


@contextlib.contextmanager
def _opened(name: str, flags: int, parent: int) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def digest_of(source: BinaryIO) -> str:
    """Return a file's digest as OCI writes it; leaves the file at its beginning."""
    digest = hashlib.sha256()
    while data := source.read(_MAX_READ_BYTES):
        digest.update(data)
    source.seek(0)
    return f"sha256:{digest.hexdigest()}"
