"""The local image store: names of images, their configurations, and their root file systems.

An image was imported from a directory, a tar archive, an OCI image layout or a Docker archive, or pulled from a
registry. The image ``strato/host`` always exists: it is this machine's own root, read-only.

Below ``images`` each name has a directory with ``image.json``; root file systems are in ``.roots``, named by the chain
id of their layers. Images with the same first layers share these layers' files as hard links.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import StateError, UsageError, one_line
from strato.node import beneath
from strato.node.images.archives import ImageSource, source_of
from strato.node.images.documents import MAX_DOCUMENT_BYTES, Descriptor, ImageConfig, chain_ids, config_of, parse
from strato.node.images.layers import link_tree, unpack
from strato.node.images.references import InvalidImageName, parse_reference
from strato.node.images.rootwriter import MAX_BYTES, BadImage, Budget, EntryAttributes, RootWriter
from strato.node.removal import remove_tree

HOST_IMAGE = "strato/host"
_RECORD = "image.json"
_SHARED_BYTES = 1 << 20
"""Layers whose archives are smaller get no tree of their own: sharing them would save less than its links cost."""


class ImageProblem(UsageError):
    """An image cannot be imported, or its name is not allowed."""


class NoImage(StateError):
    """There is no image of that name."""


class _Record(msgspec.Struct, kw_only=True):
    """The content of ``image.json``."""

    id: str
    chain: list[str]
    """Chain ids of its layers; the last one names its root file system."""
    repo_digest: str
    config: ImageConfig


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the store."""

    name: str
    root: str
    """Root file system; empty for the machine's own."""
    id: str = HOST_IMAGE
    """Digest of its configuration, or of its content when it has none."""
    repo_digest: str = ""
    """Repository and digest from which it was pulled; empty for an imported image."""
    size_bytes: int = 0
    """Size of its files, shared ones included."""
    used_at: float = 0.0
    """When a container was last started on it, or else when it was imported or pulled."""
    config: ImageConfig = field(default_factory=ImageConfig)

    @property
    def is_host(self) -> bool:
        """Whether this is the machine's own root."""
        return not self.root

    @property
    def reference(self) -> str:
        """The name of the image in a pod's status."""
        return self.repo_digest or self.id


def normal_name(name: str) -> str:
    """Return the shortest name of an image, with its tag; ``latest`` when it has none.

    Raises:
        InvalidImageName: The text is no valid name.
    """
    return parse_reference(name).familiar


class ImageStore:
    """Images below ``data_dir/images``."""

    def __init__(self, data_dir: str | os.PathLike[str]) -> None:
        self._data = Path(data_dir)
        self._directory = self._data / "images"
        self._roots = self._directory / ".roots"

    def import_image(self, name: str, source: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Image:
        """Import an image from files; replaces an older one of that name.

        Args:
            name: Name of the image.
            source: A root file system, an OCI image layout or the output of ``docker save``, as a directory or as a tar
                archive of it.
            max_bytes: Larger images are refused.

        Raises:
            ImageProblem: The name is reserved, or the source cannot be read, leads out of the image or is too large.
        """
        check_free(name)
        path = Path(source)
        with self.alone(), self._naming(path), self.scratch() as fresh:
            if path.is_dir():
                return self._take_directory(name, path, Path(fresh), max_bytes)
            if path.is_file():
                return self._take_archive(name, path, Path(fresh), max_bytes)
            raise ImageProblem(f"image {name!r}: {path} is neither a directory nor a tar archive")

    def add(self, name: str, source: ImageSource, budget: Budget, repo_digest: str = "") -> Image:
        """Unpack the layers of an image that the store does not have yet; the caller must hold `alone`.

        Raises:
            BadImage: A part is missing, has another digest, or leads out of the image.
        """
        manifest = source.manifest()
        with source.open(manifest.config) as file:
            document = parse(file.read(MAX_DOCUMENT_BYTES + 1), "the image's configuration")
        config, diff_ids = config_of(document, len(manifest.layers))
        chain = chain_ids(diff_ids)
        self._layered(source, list(zip(manifest.layers, diff_ids, chain, strict=True)), budget)
        return self._record(name, chain, manifest.config.digest, config, repo_digest)

    def has_layers(self, diff_ids: Sequence[str]) -> int:
        """Return how many of an image's first layers need not be fetched."""
        return len(diff_ids) - next(
            (n for n, c in enumerate(chain_ids(diff_ids)[::-1]) if self._is_root(c)), len(diff_ids)
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the store for one import at a time; unfinished directories found then are those of killed imports."""
        self._roots.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)  # images have directories that any user of the machine could write to
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self._directory.glob(".new-*"):
                _remove_unless_locked(left)
            yield

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Yield a directory that is removed afterwards; if this process is killed, the next import removes it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = tempfile.mkdtemp(prefix=".new-", dir=self._directory)
        with beneath.opened(path, os.O_RDONLY | os.O_DIRECTORY) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                yield path
            finally:
                remove_tree(path)

    @contextmanager
    def _naming(self, path: Path) -> Iterator[None]:
        try:
            yield
        except BadImage as err:
            raise ImageProblem(f"{path}: {err}") from err
        except OSError as err:
            raise ImageProblem(f"{path} cannot be imported: {one_line(err)}") from err

    def _take_directory(self, name: str, path: Path, fresh: Path, max_bytes: int) -> Image:
        source, budget = source_of(str(path)), Budget(max_bytes)
        if source is not None:
            return self.add(name, source, budget)
        digest = hashlib.sha256()
        with RootWriter(str(fresh / "root"), budget) as writer:
            waiting = [""]
            while waiting:
                inner = waiting.pop()
                with os.scandir(path / inner) as entries:
                    for entry in sorted(entries, key=lambda entry: entry.name):
                        if not self._is_own(entry):
                            waiting += _copy_entry(writer, entry, os.path.join(inner, entry.name), digest.update)
            writer.close_directories()
        return self._take_root(name, fresh, f"sha256:{digest.hexdigest()}", budget)

    def _take_archive(self, name: str, path: Path, fresh: Path, max_bytes: int) -> Image:
        budget = Budget(max_bytes)
        with path.open("rb") as file:
            digest = unpack(file, str(fresh / "root"), budget)
        source = source_of(str(fresh / "root"))
        return (
            self._take_root(name, fresh, digest, budget)
            if source is None
            else self.add(name, source, Budget(max_bytes))
        )

    def _take_root(self, name: str, fresh: Path, digest: str, budget: Budget) -> Image:
        self._keep(fresh / "root", digest, budget.used_bytes)
        return self._record(name, [digest], digest, ImageConfig(), "")

    def _is_own(self, entry: os.DirEntry[str]) -> bool:
        """Whether this is the store itself, which would be copied into itself for ever."""
        return entry.name == self._directory.name and Path(entry.path).samefile(self._directory)

    # Root file systems

    def _is_root(self, digest: str) -> bool:
        return self._root(digest).is_dir()

    def _root(self, digest: str) -> Path:
        return self._roots / digest.removeprefix("sha256:") / "root"

    def _layered(self, source: ImageSource, layers: Sequence[tuple[Descriptor, str, str]], budget: Budget) -> None:
        """Make the root file system of all layers, each with its digest unpacked and that of the chain it ends."""
        first = self.has_layers([diff_id for _, diff_id, _ in layers])
        if not layers:
            raise BadImage("it has no layers")
        if first:
            budget.used_bytes = self._size(layers[first - 1][2])
        for start, end in _groups([layer.size for layer, _, _ in layers], first):
            with self.scratch() as fresh:
                root = os.path.join(fresh, "root")
                os.mkdir(root, 0o755)
                if start:
                    below, flags = str(self._root(layers[start - 1][2])), os.O_RDONLY | os.O_DIRECTORY
                    with beneath.opened(below, flags) as old, beneath.opened(root, flags) as new:
                        link_tree(old, new, budget)
                for layer, diff_id, _ in layers[start:end]:
                    with source.open(layer) as file:
                        found = unpack(file, root, budget, layer=True)
                    if found != diff_id:
                        raise BadImage(f"layer {layer.digest} unpacked is {found}, its configuration says {diff_id}")
                self._keep(Path(root), layers[end - 1][2], budget.used_bytes)

    def _keep(self, root: Path, digest: str, size_bytes: int) -> None:
        """Move a root file system to its place, unless it is there."""
        if not self._is_root(digest):
            place = self._root(digest).parent
            place.mkdir(exist_ok=True)
            (place / "size").write_text(str(size_bytes))
            root.rename(place / "root")

    def _size(self, digest: str) -> int:
        with suppress(OSError, ValueError):
            return int((self._root(digest).parent / "size").read_text())
        return 0

    # Names

    def _record(self, name: str, chain: Sequence[str], digest: str, config: ImageConfig, repo_digest: str) -> Image:
        target = self._path(name)
        target.mkdir(exist_ok=True)
        body = _Record(id=digest, chain=list(chain), repo_digest=repo_digest, config=config)
        (target / "image.json.new").write_bytes(msgspec.json.encode(body))
        (target / "image.json.new").replace(target / _RECORD)
        self._sweep()
        found = self.find(name)
        assert found is not None, "it was just written"
        return found

    def find(self, name: str) -> Image | None:
        """Return an image by name, None when it is not in the store or the text is no name."""
        with suppress(*UNDECODABLE, InvalidImageName, OSError):
            if normal_name(name) == normal_name(HOST_IMAGE):
                return Image(HOST_IMAGE, "")
            path = self._path(name) / _RECORD
            record = msgspec.json.decode(path.read_bytes(), type=_Record)
            digest = record.chain[-1]
            if self._is_root(digest):
                return Image(
                    normal_name(name),
                    str(self._root(digest)),
                    record.id,
                    record.repo_digest,
                    self._size(digest),
                    path.stat().st_mtime,
                    record.config,
                )
        return None

    def list(self) -> Sequence[Image]:
        """Return all images by name, the machine's own first."""
        names = (HOST_IMAGE, *self._names())
        return [image for name in names if (image := self.find(name)) is not None]

    def _names(self) -> Sequence[str]:
        if not self._directory.is_dir():
            return []
        return sorted(unquote(path.name) for path in self._directory.iterdir() if not path.name.startswith("."))

    def touch(self, image: Image) -> None:
        """Note that a container is started on an image."""
        with suppress(OSError):
            os.utime(self._path(image.name) / _RECORD)

    def remove(self, name: str) -> None:
        """Remove an image; the files of one on which containers run go when they have ended.

        Raises:
            NoImage: No such image.
            ImageProblem: It is the machine's own root.
        """
        if self.find(name) is None:
            raise NoImage(f"image {name!r} is not in the store; `strato image list` shows what is")
        check_free(name)
        with self.alone():
            remove_tree(str(self._path(name)))
            self._sweep()

    def prune(self, *, imported: bool) -> Sequence[Image]:
        """Remove the images on which no container runs, those without a registry only if ``imported``; return them."""
        used = self.in_use()
        gone = [i for i in self.list() if not i.is_host and i.root not in used and (imported or i.repo_digest)]
        for image in gone:
            self.remove(image.name)
        return gone

    @property
    def directory(self) -> str:
        """The node's data directory."""
        return str(self._data)

    def in_use(self) -> frozenset[str]:
        """Return the root file systems that containers run on."""
        found = set()
        for spec in self._data.glob("pods/*/containers/*/*/spec.json"):
            with suppress(OSError, ValueError, AttributeError):
                if not (spec.parent / "exit.json").exists():
                    found.add(str(json.loads(spec.read_text()).get("base")))
        return frozenset(found)

    def _sweep(self) -> None:
        """Remove the root file systems that no image has and no container runs on."""
        kept = set(self.in_use())
        for path in self._directory.glob(f"*/{_RECORD}"):
            with suppress(*UNDECODABLE, OSError):
                record = msgspec.json.decode(path.read_bytes(), type=_Record)
                kept |= {str(self._root(digest)) for digest in record.chain}
        for place in self._roots.iterdir():
            if str(place / "root") not in kept:
                remove_tree(str(place))

    def _path(self, name: str) -> Path:
        return self._directory / quote(normal_name(name), safe="")


def check_free(name: str) -> None:
    """Check that an image may have a name.

    Raises:
        ImageProblem: It is reserved.
        InvalidImageName: It is none.
    """
    if normal_name(name) == normal_name(HOST_IMAGE):
        raise ImageProblem(f"image {name!r} is this machine's own root, which cannot be replaced or removed")


def _groups(sizes: Sequence[int], first: int) -> Iterator[tuple[int, int]]:
    """Divide layers, from one on, into ranges that end with a layer that is worth a tree of its own."""
    start = first
    for index in range(first, len(sizes)):
        if sizes[index] >= _SHARED_BYTES or index == len(sizes) - 1:
            yield start, index + 1
            start = index + 1


def _remove_unless_locked(path: Path) -> None:
    """Remove a directory unless a process has locked it."""
    with suppress(OSError), beneath.opened(str(path), os.O_RDONLY | os.O_DIRECTORY) as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(str(path))


def _copy_entry(writer: RootWriter, entry: os.DirEntry[str], name: str, note: Callable[[bytes], object]) -> list[str]:
    """Copy a directory's entry; return it when there may be more in it. Devices, pipes and sockets have no content."""
    found = entry.stat(follow_symlinks=False)
    attributes = EntryAttributes(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime)
    note(f"{name}\0{found.st_mode} {found.st_uid} {found.st_gid} {found.st_size}\n".encode(errors="surrogateescape"))
    if stat.S_ISDIR(found.st_mode):
        writer.make_directory(name, attributes)
        return [name]
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(entry.path)
        note(os.fsencode(target))
        writer.make_link(name, target, attributes)
    elif stat.S_ISREG(found.st_mode):
        with open(beneath.open_regular(entry.path), "rb") as source:
            writer.write_file(name, _Noted(source, note), os.fstat(source.fileno()).st_size, attributes)
    return []


class _Noted:
    """A file whose content is noted as it is read."""

    def __init__(self, source: BinaryIO, note: Callable[[bytes], object]) -> None:
        self._source = source
        self._note = note

    def read(self, size: int) -> bytes:
        """Read."""
        data = self._source.read(size)
        self._note(data)
        return data
