"""Unpack tar archives: a whole root file system, or the layers of an image, one over the other."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from typing import IO, BinaryIO, cast

from strato.errors import one_line
from strato.node.rootwriter import Attributes, BadImage, Budget, RootWriter, clean

_MAX_READ_BYTES = 4 << 20
"""Of one read: no header of an archive is larger, whatever it says of itself."""
_SLACK_BYTES = 1 << 30
"""Headers and padding of an archive, beside its files."""
_WHITEOUT, _OPAQUE, _RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
_COMPRESSIONS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_ZSTD = b"\x28\xb5\x2f\xfd"
_BROKEN = (tarfile.TarError, EOFError, ValueError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


def unpack(source: BinaryIO, directory: str, budget: Budget, *, layer: bool = False) -> None:
    """Unpack an archive, compressed or not, over what is in a directory.

    Args:
        source: The archive, at its beginning.
        directory: Made if missing.
        budget: What may be unpacked; counts on.
        layer: Whether names that begin with ``.wh.`` take away what earlier layers have.

    Raises:
        BadImage: It is no archive that can be read, leads out of the directory, or is too large.
    """
    try:
        with RootWriter(directory, budget) as writer:
            with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(source, budget)), mode="r:") as archive:
                _write_all(archive, writer, is_layer=layer)
            writer.close_directories()
    except OverflowError as err:
        raise BadImage(f"an entry has a number that is out of range: {err}") from err
    except _BROKEN as err:
        raise BadImage(f"it is not a tar archive that can be read: {one_line(err)}") from err
    except OSError as err:
        if err.errno is None:  # of a decompressor
            raise BadImage(f"it is not a tar archive that can be read: {one_line(err)}") from err
        raise


def _write_all(archive: tarfile.TarFile, writer: RootWriter, *, is_layer: bool) -> None:
    own: set[str] = set()
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]  # documented, not in the stubs; else it remembers them all
        if member.size < 0:  # the next header would be this one again
            raise BadImage(f"{member.name!r} has {member.size} bytes")
        parts = clean(member.name)
        if is_layer and parts and parts[-1].startswith(_WHITEOUT):
            _take_away(parts, writer, own)
            continue
        _write(archive, member, writer)
        if is_layer:
            own.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _take_away(parts: list[str], writer: RootWriter, own: set[str]) -> None:
    """Apply a whiteout: of one name, or of all that earlier layers have in a directory."""
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
    attributes = Attributes(member.mode, member.uid, member.gid, max(0.0, float(member.mtime)))
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
    """A decompressed archive whose headers and padding are bounded too: what it says of sizes is not believed."""

    def __init__(self, source: BinaryIO, budget: Budget) -> None:
        head = source.read(6)
        source.seek(0)
        if head.startswith(_ZSTD):
            raise BadImage("zstd compression cannot be read; recompress it with gzip")
        opener = next((opener for magic, opener in _COMPRESSIONS if head.startswith(magic)), None)
        self._file = cast("BinaryIO", opener(source)) if opener is not None else source
        self._limit = budget.max_bytes - budget.used_bytes + _SLACK_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read; never all at once."""
        if size < 0 or size > _MAX_READ_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        data = self._file.read(size)
        self._check(self._file.tell())
        return data

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        """Go on to a position."""
        if whence == os.SEEK_SET:
            self._check(position)
        return self._file.seek(position, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise BadImage("the archive is larger than an image may be; see --max-size")


def digest_of(source: BinaryIO) -> str:
    """Return a file's digest as OCI writes it; goes back to its beginning."""
    digest = hashlib.sha256()
    while data := source.read(_MAX_READ_BYTES):
        digest.update(data)
    source.seek(0)
    return f"sha256:{digest.hexdigest()}"
