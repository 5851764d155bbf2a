"""Backups: one tar file with a copy of the journal and the other files that are needed to restore a cluster.

Its members are ``journal.sqlite``, files that the caller gives (keys and tokens, under ``files/``) and last
``manifest.json``, with the length and checksum of each member, and the journal's mark. Encrypted bodies stay encrypted:
the manifest has the names of their keys, and the backup does not have the keys.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from strato import __version__
from strato.decoding import UNDECODABLE
from strato.errors import StratoError, one_line
from strato.server.journal.errors import JournalError
from strato.server.journal.file import JournalFile
from strato.server.journal.mark import Marked, make_mark, mark_path, sync_directory
from strato.server.journal.records import Stored

FORMAT = 1
JOURNAL_NAME = "journal.sqlite"
_MANIFEST = "manifest.json"
_FILES = "files/"
_CHUNK_BYTES = 1 << 20


class BackupError(StratoError):
    """A backup cannot be written or read; names the file and what is wrong."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a backup, in the backup."""

    format: int
    version: str
    """Version of Strato that wrote it."""
    created: str
    """When it was written, as an RFC 3339 time."""
    identity: str
    revision: int
    chain: str
    """The journal's mark."""
    files: dict[str, str]
    """Checksum by name of all other members."""
    encryption_keys: Sequence[str] = ()
    """Ids of the keys that bodies are encrypted with; restored data needs them."""


def write_backup(
    target: Path,
    journal: Path,
    marked: Marked,
    files: Mapping[str, Path],
    *,
    created: str,
    encryption_keys: Sequence[str] = (),
) -> BackupManifest:
    """Write a backup of a copy of a journal and of files by name; ``target`` appears complete or not at all.

    Raises:
        BackupError: It cannot be written.
    """
    new = target.with_name(f".{target.name}.new")
    checksums: dict[str, str] = {}
    try:
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in [(JOURNAL_NAME, journal), *((_FILES + name, path) for name, path in files.items())]:
                checksums[name] = _add(archive, name, path)
            manifest = BackupManifest(
                format=FORMAT,
                version=__version__,
                created=created,
                identity=marked.identity,
                revision=marked.revision,
                chain=marked.chain.hex(),
                files=checksums,
                encryption_keys=encryption_keys,
            )
            content = msgspec.json.format(msgspec.json.encode(manifest))
            archive.addfile(_member(_MANIFEST, len(content)), io.BytesIO(content))
            archive.close()
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise BackupError(f"the backup {target} cannot be written: {error.strerror or error}") from error
    return manifest


class _Summed(io.RawIOBase):
    """A file whose checksum is computed while it is read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.digest = blake2b(digest_size=32)

    def read(self, size: int = -1, /) -> bytes:
        """Read and update the checksum."""
        chunk = self._file.read(size)
        self.digest.update(chunk)
        return chunk


def _add(archive: tarfile.TarFile, name: str, path: Path) -> str:
    with path.open("rb") as file:
        summed = _Summed(file)
        archive.addfile(_member(name, os.fstat(file.fileno()).st_size), summed)
    return summed.digest.hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


@contextmanager
def opened_backup(path: Path, scratch: Path) -> Iterator[OpenedBackup]:
    """Unpack a backup into an empty directory, check all of it, and yield it.

    Raises:
        BackupError: The file is not a backup, is damaged, or of a newer version.
    """
    try:
        manifest = _unpack(path, scratch)
    except FileNotFoundError as error:
        raise BackupError(f"{path}: no such file") from error
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BackupError(f"{path} is no backup, or is damaged: {one_line(error)}; take an older one") from error
    database = scratch / JOURNAL_NAME
    marked = Marked(manifest.identity, 0, manifest.revision, bytes.fromhex(manifest.chain))
    make_mark(mark_path(database), marked)
    try:
        journal = JournalFile(database)
        objects = journal.read()
    except JournalError as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    try:
        yield OpenedBackup(manifest, objects, scratch)
    except JournalError as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    finally:
        journal.close()


class OpenedBackup:
    """An unpacked backup."""

    def __init__(self, manifest: BackupManifest, objects: Iterator[Stored], scratch: Path) -> None:
        self.manifest = manifest
        self.objects = objects
        """Every stored object. They are checked while they are read, so none may be used before the last one was
        read."""
        self._scratch = scratch

    def files(self) -> dict[str, bytes]:
        """Return the other files by name."""
        names = [name.removeprefix(_FILES) for name in self.manifest.files if name.startswith(_FILES)]
        return {name: (self._scratch / _FILES / name).read_bytes() for name in names}


def _unpack(path: Path, scratch: Path) -> BackupManifest:
    found: dict[str, str] = {}
    manifest = None
    with tarfile.open(path, mode="r:") as archive:
        for member in archive:
            source = archive.extractfile(member)
            if source is None or not _is_plain(member.name):
                raise BackupError(f"{path} is no backup of strato: it holds {member.name!r}")
            if member.name == _MANIFEST:
                manifest = _read_manifest(path, source.read())
                continue
            target = scratch / member.name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            digest = blake2b(digest_size=32)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
            found[member.name] = digest.hexdigest()
    if manifest is None:
        raise BackupError(f"{path} is no whole backup: its {_MANIFEST} is missing; take an older one")
    wrong = sorted(name for name in manifest.files.keys() | found if manifest.files.get(name) != found.get(name))
    if wrong:
        raise BackupError(f"{path} is damaged: {', '.join(wrong)} does not match its checksum; take an older one")
    return manifest


def _is_plain(name: str) -> bool:
    """Tell whether a member's name cannot lead out of its directory."""
    parts = name.split("/")
    return name in (_MANIFEST, JOURNAL_NAME) or (parts[0] == "files" and not {"", ".", ".."} & set(parts))


def _read_manifest(path: Path, content: bytes) -> BackupManifest:
    try:
        manifest = msgspec.json.decode(content, type=BackupManifest)
        Marked(bytes.fromhex(manifest.identity).hex(), 0, manifest.revision, bytes.fromhex(manifest.chain))
    except (*UNDECODABLE, ValueError) as error:
        raise BackupError(f"{path} is damaged: its {_MANIFEST} cannot be read ({error}); take an older one") from error
    if manifest.format > FORMAT:
        raise BackupError(
            f"{path}: written by a newer version ({manifest.version}, format {manifest.format}); use that version"
        )
    return manifest
